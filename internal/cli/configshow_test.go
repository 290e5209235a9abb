package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConfigShow prints the configuration in effect as a table and as JSON, and runs no command of it.
func TestConfigShow(t *testing.T) {
	dir := t.TempDir()
	file, ran := filepath.Join(dir, "weir.yaml"), filepath.Join(dir, "ran")
	text := "listen: 127.0.0.1:0\ninputs:\n  - {id: key, type: command, command: touch, args: [" + ran + "]}\n  - {id: who}\n" +
		"mcpServers:\n  one:\n    command: sh\n    env: {API_TOKEN: ghp_0123456789abcdefghij, PATH: \"${input:key}:${input:who}\"}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := weir(t, "config", "show", "--config", file, "--origins").want(t, exitOK, "listen ", "weir.yaml:1", "auto_tokens ", " default",
		"mcpServers.one.env.API_TOKEN", "***", "(output of touch):(asked for)", "weir.yaml:8, ${input:key}, ${input:who}")
	if strings.Contains(f.stdout+f.stderr, "ghp_") {
		t.Errorf("it shows a secret:\n%s", f.stdout)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a command of inputs ran")
	}
	got := decode[struct {
		File     string
		Settings []struct {
			Key, Origin, Source string
			Value               any
			Line                int
		}
	}](t, weir(t, "config", "show", "--config", file, "--json", "--set", "listen", "mcpServers.one.command").want(t, exitOK).stdout)
	if got.File != file || len(got.Settings) != 2 || got.Settings[0].Value != "127.0.0.1:0" || got.Settings[0].Line != 1 || got.Settings[1].Origin != "file" {
		t.Errorf("the JSON has %v", got)
	}
	weir(t, "config", "show", "--config", file, "nothing").want(t, exitUsage, "starts with nothing")
}
