package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeNear writes a file next to a configuration.
func writeNear(t *testing.T, config, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(filepath.Dir(config), name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSavedPrograms: weir config check names the line of a mistake in a saved program, the gateway serves it as a tool,
// and a changed file counts at once, unless weir.lock has the definition of the one before.
func TestSavedPrograms(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, "weir.yaml", oneFake+`
trust: hold
programs:
  saved:
    twice:
      file: twice.js
      description: Echoes a text twice.
      input_schema: {type: object, properties: {text: {type: string}}, required: [text], additionalProperties: false}
policy: {rules: [{action: deny, meta_tool: tool_run}]}
`)
	writeNear(t, path, "twice.js", "const a = 1;\nreturn [;")
	weir(t, "config", "check", path).want(t, exitUsage, "programs.saved.twice: twice.js: line 2, column", "SyntaxError")
	writeNear(t, path, "twice.js", `const one = await tools.fake.echo({text: input.text}); return one + " " + one;`)
	weir(t, "config", "check", path).want(t, exitOK)
	s := start(t, path, "serve", "--config", path, "--listen", "127.0.0.1:0")
	id := s.tool("weir:twice")
	call := func(code int, want ...string) {
		t.Helper()
		weir(t, "call", id, "--arg", "text=hello", "--url", s.url).want(t, code, want...)
	}
	call(exitOK, "hello hello")
	weir(t, "call", id, "--url", s.url).want(t, exitUsage, "ARGS_INVALID", "run id of an error")

	writeNear(t, path, "twice.js", "return (")
	for end := time.Now().Add(20 * time.Second); !strings.Contains(s.stderr.String(), "the new configuration is not used"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a mistake in a changed program is not logged")
		}
	}
	call(exitOK, "hello hello")
	writeNear(t, path, "twice.js", `return "changed"`)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if f := weir(t, "call", id, "--arg", "text=hello", "--url", s.url); f.code != exitOK {
			break // it is held
		}
		if time.Now().After(end) {
			t.Fatal("a changed program is not held, as weir.lock wants it")
		}
	}
	weir(t, "trust", "accept", "weir", "--config", path).want(t, exitOK)
	s.tool("weir:twice")
	call(exitOK, "changed")
}
