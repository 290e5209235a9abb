package cli

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestServeAtTheTerminal: weir serve tells a person of servers and of what changes, without the
// lines of the log and, with TERM=dumb, without control sequences.
func TestServeAtTheTerminal(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, "weir.yaml", "listen: 127.0.0.1:0\nmcpServers:\n  fine: {command: %FAKE%}\n  needskey: {command: %FAKE%, env: {K: \"${WEIRTEST_NOT_SET}\"}}\n")
	s := atTerminal(t, "serve", "--config", path)
	s.shows("✓ fine      ")
	s.shows("✗ needskey  weir.yaml:4:")
	s.shows("WEIRTEST_NOT_SET is not set")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, "  second: {command: "+fakeBin+"}\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	s.shows("is applied (added: second)")
	s.shows("✓ second    ")
	s.typed("\x03")
	s.shows("shutting down")
	s.end(exitOK)
	for _, never := range []string{"level=", "warning:", "\x1b"} {
		if strings.Contains(s.screen.String(), never) {
			t.Errorf("the screen has %q:\n%s", never, s.screen)
		}
	}
	if !urlLine.MatchString(s.stdout.String()) {
		t.Errorf("stdout has no address: %s", &s.stdout)
	}
}

// TestServeLogFormat: the log of machines is there for whom it is asked, at a terminal, too.
func TestServeLogFormat(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, "weir.yaml", "listen: 127.0.0.1:0\nlog: {format: json}\n"+oneFake)
	for want, args := range map[string][]string{`"msg":"listed"`: nil, "level=INFO msg=listed": {"--log-format", "text"}, "✓ fake": {"--log-format", "auto"}} {
		s := atTerminal(t, append([]string{"serve", "--config", path}, args...)...)
		s.shows(want)
		s.typed("\x03")
		s.end(exitOK)
	}
	weir(t, "serve", "--config", path, "--log-format", "xml").want(t, exitUsage, "auto, text or json")
	piped := start(t, path, "serve", "--config", path, "--log-format", "auto")
	piped.tool("fake:echo")
	if _, code := piped.end(syscall.SIGTERM); code != exitOK || !strings.Contains(piped.stderr.String(), "level=INFO msg=listed") {
		t.Errorf("exit code %d without a terminal: %s", code, piped.stderr)
	}
}
