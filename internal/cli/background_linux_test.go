package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestBackgroundLogIsBounded: the gateway that weir attach starts sets its log aside while it runs.
func TestBackgroundLogIsBounded(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	endGateway(t, state)
	path := writeConfig(t, "weir.yaml", "listen: 127.0.0.1:0\nmcpServers: {fake: {command: '%FAKE%'}}\n")
	begin := func() {
		p := startProcess(t, filepath.Dir(path), "XDG_STATE_HOME="+state, "attach", "--config", path, "--mode", "gateway", "--idle-exit", "200ms")
		p.say(t, string(modernCall(1, "tool_browse", map[string]any{"query": "echo"})), `"id":1`)
		if err := p.in.Close(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(20 * time.Second); len(runFiles(t, state)) > 0; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the gateway runs without clients")
			}
		}
	}
	begin()
	logs, err := filepath.Glob(filepath.Join(state, "weir", "logs", "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("logs %q, %v", logs, err)
	}
	almost := bytes.Repeat([]byte("0123456789abcde\n"), (maxLog-16)/16)
	if err := os.WriteFile(logs[0], almost, 0o600); err != nil {
		t.Fatal(err)
	}
	begin()
	old, err := os.Stat(logs[0] + ".old")
	if err != nil || old.Size() > maxLog+2000 { // what the program prints outside of its log does not count
		t.Fatalf("the log was not set aside: %v", err)
	}
	if text, err := os.ReadFile(logs[0]); err != nil || len(text) == 0 || len(text) > maxLog {
		t.Errorf("the next log has %d bytes, %v", len(text), err)
	}
}
