package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestEventsAtATerminal: weir agent tells a person what happens in lines with the time and a mark. Without a
// terminal it logs.
func TestEventsAtATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "agent.yaml"), []byte("name: clock\ntools: [{name: now, description: the time, command: [date]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"agent", "--config", filepath.Join(dir, "agent.yaml"), "--listen", "127.0.0.1:0"}
	s := atTerminal(t, args...)
	s.shows("· agent listens (agent: clock;")
	if screen := s.screen.String(); strings.Contains(screen, "level=") {
		t.Errorf("the screen shows a log:\n%s", screen)
	}
	s.typed("\x03")
	s.end(exitOK)
	p := startProcess(t, dir, "", args...)
	p.say(t, "", `msg="agent listens"`)
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
}
