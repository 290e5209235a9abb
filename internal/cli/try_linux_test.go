package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTryAsksAndPrintsTheCall tries a tool of a server at a terminal.
func TestTryAsksAndPrintsTheCall(t *testing.T) {
	t.Parallel()
	conf := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(conf, []byte("mcpServers:\n  fake:\n    command: "+fakeBin+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := atTerminal(t, "try", "--config", conf, "fake:echo")
	s.answer("text", "it's 5\n")
	s.answer("size", "\n")
	s.shows("weir call fake:echo --arg")
	if err := <-s.ended; err != nil {
		t.Fatalf("%v\n%s", err, s.screen)
	}
	if !strings.Contains(s.stdout.String(), "it's 5") {
		t.Errorf("the result is %q", s.stdout.String())
	}
	weir(t, "try", "--config", conf, "fake:echo").want(t, exitUsage, "no terminal")
}

// TestInitAsks answers the questions of weir init.
func TestInitAsks(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.installed(t, "npx", "uvx")
	env := append(h.env, "HTTPS_PROXY=http://127.0.0.1:1", "https_proxy=http://127.0.0.1:1") // reach no real server
	env = slices.DeleteFunc(env, func(pair string) bool { return strings.HasPrefix(pair, "@") })
	before := h.files(t)
	s := atTerminal(t, append(env, "init")...)
	s.answer("Bring these servers", "\n")
	answerSandboxes(s, "time\n")
	s.answer("Move the 3 secrets", "store\n")
	s.answer("Connect claude-code, cursor, vscode?", "nobody\n")
	s.answer("none of them", "cursor\n")
	if err := <-s.ended; err != nil {
		t.Fatalf("%v\n%s", err, s.screen)
	}
	after := h.files(t)
	if !strings.Contains(after[".cursor/mcp.json"], `"attach"`) || after[".claude.json"] != before[".claude.json"] {
		t.Errorf("cursor alone should be connected:\n%s\n%s", after[".cursor/mcp.json"], after[".claude.json"])
	}
	if confinesHere() {
		if conf := after[".config/weir/weir.yaml"]; strings.Count(conf, "sandbox: auto") != 1 {
			t.Errorf("one server should have a sandbox:\n%s", conf)
		}
	}
}

// confinesHere reports whether this machine confines programs.
func confinesHere() bool {
	way, _ := sandboxesOf(os.Environ())
	return way != "none"
}

// answerSandboxes answers which servers of weir init get a sandbox, where the machine has any.
func answerSandboxes(s *session, answer string) {
	if confinesHere() {
		s.answer("Confine ", answer)
	}
}
