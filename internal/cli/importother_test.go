package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestImportElsewhere brings servers from places that are no clients' files: Docker's MCP toolkit, the
// extensions of Claude Desktop, a bundle and a document of the registry. undo takes each back.
func TestImportElsewhere(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the folders are those of Linux")
	}
	h := newHome(t)
	before := h.files(t)
	h.weir(t, "import", "docker-mcp").want(t, exitUsage, "registry.yaml")
	h.weir(t, "import", "claude-extensions").want(t, exitUsage, "no extensions")
	for _, tree := range []string{"docker", "extensions"} {
		if err := os.CopyFS(h.dir, os.DirFS("../setup/testdata/"+tree)); err != nil {
			t.Fatal(err)
		}
	}
	const conf = ".config/weir/weir.yaml"
	h.weir(t, "import", "--dry-run").want(t, exitOK, "+ duckduckgo", "+ files", "+ github-cursor", "tracker")
	h.weir(t, "import", "docker-mcp", "claude-extensions", "--yes").want(t, exitOK, "ES_API_KEY", "keeps its setting", "is switched off", "until you switch it off there", "ant.dir.broken")
	text := h.files(t)[conf]
	for _, want := range []string{"mcp/duckduckgo@sha256:aaaa", "no-new-privileges", "include_tools", "https://mcp.linear.app/sse", "Claude Extensions/ant.dir.files/server/index.js"} {
		if !strings.Contains(text, want) {
			t.Errorf("weir.yaml has no %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "github-cursor") || strings.Contains(text, "ES_API_KEY") || strings.Contains(text, "time:") {
		t.Errorf("weir.yaml has more than was asked for:\n%s", text)
	}
	h.weir(t, "config", "check", conf).want(t, exitOK, "7 servers")
	h.weir(t, "undo", "--yes").want(t, exitOK)

	file := bundleOf(t, "notes.mcpb", notesManifest, "exec "+fakeBin+"\n")
	h.weir(t, "import", file, "cursor").want(t, exitUsage, "must be the only argument")
	h.weir(t, "import", "cursor", "--set", "a=b").want(t, exitUsage, "--set is for")
	h.weir(t, "import", file, "--yes").want(t, exitUsage, "--set key=VALUE")
	h.weir(t, "import", file, "--yes", "--set", "key="+notesKey).want(t, exitOK, "by Ann", "weir undo")
	if text := h.files(t)[conf]; len(h.bundles(t)) != 1 || !strings.Contains(text, "${secret:NOTES_KEY}") || strings.Contains(text, notesKey) {
		t.Errorf("folders %q, weir.yaml:\n%s", h.bundles(t), text)
	}
	h.weir(t, "undo", "--yes").want(t, exitOK)

	document := filepath.Join(t.TempDir(), "server.json")
	const published = `{"$schema":"https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json","name":"io.github.me/far","description":"far away","version":"1.0.0",` +
		`"remotes":[{"type":"streamable-http","url":"https://far.example.com/mcp","headers":[{"name":"X-Key","isRequired":true,"isSecret":true}]}]}`
	if err := os.WriteFile(document, []byte(published), 0o600); err != nil {
		t.Fatal(err)
	}
	h.weir(t, "import", document, "--yes", "--set", "FAR_X_KEY=abcdefgh12345678").want(t, exitOK, "io.github.me/far")
	if text := h.files(t)[conf]; !strings.Contains(text, "https://far.example.com/mcp") || strings.Contains(text, "abcdefgh12345678") {
		t.Errorf("weir.yaml:\n%s", text)
	}
	h.weir(t, "undo", "--yes").want(t, exitOK)
	after := h.files(t)
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s is not as before", name)
		}
	}
	if _, left := after[conf]; left || len(h.bundles(t)) > 0 {
		t.Errorf("undo left weir.yaml or the folders %q", h.bundles(t))
	}
}
