package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// aMachine is a home with the given files and no client of the fixtures.
func aMachine(t *testing.T, files ...string) *aHome {
	t.Helper()
	h := newHome(t)
	for name := range h.files(t) {
		if err := os.Remove(filepath.Join(h.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{".cursor", ".config"} {
		if err := os.RemoveAll(filepath.Join(h.dir, folder)); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < len(files); i += 2 {
		h.write(t, files[i], files[i+1])
	}
	h.installed(t, "npx", "uvx")
	return h
}

// TestContinueKeepsItsConfiguration: Continue reads a config.yaml in place of its config.json, so weir
// makes no config.yaml.
func TestContinueKeepsItsConfiguration(t *testing.T) {
	t.Parallel()
	needsShell(t)
	h := aMachine(t, ".continue/config.json", `{"models": [{"title": "mine", "apiKey": "k"}]}`, ".cursor/mcp.json", `{"mcpServers": {"time": {"command": "uvx", "args": ["time"]}}}`)
	h.weir(t, "connect", "continue", "--yes").want(t, exitUsage, "config.json", "models")
	h.weir(t, "init", "--yes").want(t, exitOK, "weir into cursor")
	if _, ok := h.files(t)[".continue/config.yaml"]; ok {
		t.Error("weir made a config.yaml for Continue")
	}
	h.write(t, ".continue/config.yaml", "name: mine\nversion: 0.0.1\nschema: v1\n")
	h.weir(t, "connect", "continue", "--yes").want(t, exitOK, "weir into continue")
}

// TestInitLeavesClientsWithoutAFile: a folder alone is no reason to write a client's file.
func TestInitLeavesClientsWithoutAFile(t *testing.T) {
	t.Parallel()
	needsShell(t)
	h := aMachine(t, ".cursor/mcp.json", `{"mcpServers": {"time": {"command": "uvx", "args": ["time"]}}}`, ".qwen/notes.txt", "mine")
	h.weir(t, "init", "--yes").want(t, exitOK, "weir into cursor", "weir connect qwen")
	if _, ok := h.files(t)[".qwen/settings.json"]; ok {
		t.Error("weir made a file for Qwen Code")
	}
	h.weir(t, "connect", "qwen", "--yes").want(t, exitOK, "weir into qwen")
}

// TestRestrictionOfASharedServer: what Codex keeps from itself it does not get through weir, neither at
// the first import nor when weir has the server already.
func TestRestrictionOfASharedServer(t *testing.T) {
	t.Parallel()
	needsShell(t)
	const whole = `{"mcpServers": {"files": {"command": "uvx", "args": ["files"]}}}`
	const codex = "[mcp_servers.files]\ncommand = \"uvx\"\nargs = [\"files\"]\nenabled_tools = [\"read\"]\n"
	h := aMachine(t, ".cursor/mcp.json", whole, ".codex/config.toml", codex)
	h.weir(t, "init", "--yes").want(t, exitOK, "! codex: files", "all tools in cursor")
	if text := h.files(t)[".config/weir/weir.yaml"]; !strings.Contains(text, "include_tools:\n      - read\n") {
		t.Errorf("weir.yaml is\n%s", text)
	}
	h.weir(t, "undo", "--yes").want(t, exitOK)

	h.weir(t, "connect", "cursor", "--yes").want(t, exitOK, "weir into cursor")
	h.weir(t, "init", "--yes").want(t, exitOK, "! codex: files", "--profile")
	h.weir(t, "connect", "codex", "--yes").want(t, exitOK, "nothing to change")
	if text := h.files(t)[".codex/config.toml"]; text != codex {
		t.Errorf("codex has\n%s", text)
	}
	h.write(t, ".config/weir/weir.yaml", h.files(t)[".config/weir/weir.yaml"]+"profiles:\n  readers: {include: [\"files:read\"]}\n")
	h.weir(t, "connect", "codex", "--profile", "readers", "--yes").want(t, exitOK, "weir into codex")
}

// TestAnswersOfInputsAreKept: what a client asks its person for is asked once and kept, or the server
// stays in the client.
func TestAnswersOfInputsAreKept(t *testing.T) {
	t.Parallel()
	needsShell(t)
	const mine = `{"inputs": [{"id": "gh", "type": "promptString", "description": "GitHub token", "password": true}],
 "servers": {"github": {"command": "uvx", "args": ["github"], "env": {"GITHUB_TOKEN": "${input:gh}"}}, "time": {"command": "uvx", "args": ["time"]}}}`
	for _, command := range []string{"init", "connect"} {
		args := []string{command, "--yes"}
		if command == "connect" {
			args = []string{command, "vscode", "--yes"}
		}
		h := aMachine(t, ".config/Code/User/mcp.json", mine)
		h.weir(t, args...).want(t, exitOK, "github", `"GitHub token"`, "weir import")
		files := h.files(t)
		if text := files[".config/Code/User/mcp.json"]; !strings.Contains(text, `"${input:gh}"`) || strings.Contains(text, `"time"`) {
			t.Errorf("%s: VS Code has\n%s", command, text)
		}
		h.weir(t, "config", "check", "--strict", ".config/weir/weir.yaml").want(t, exitOK, "1 server")

		h = aMachine(t, ".config/Code/User/mcp.json", mine)
		h.weir(t, append([]string{"WEIR_INPUT_GH=ghp_0123456789abcdefghij0123456789abcdef"}, args...)...).want(t, exitOK)
		h.weir(t, "secret", "ls").want(t, exitOK, "GH")
		h.weir(t, "config", "check", "--strict", ".config/weir/weir.yaml").want(t, exitOK, "2 servers")
		if text := h.files(t)[".config/weir/weir.yaml"]; !strings.Contains(text, `${secret:GH}`) || strings.Contains(text, "ghp_") {
			t.Errorf("%s: weir.yaml is\n%s", command, text)
		}
	}
}
