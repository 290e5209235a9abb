package cli

import (
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/text/visible"
)

// TestGuardsUnicode: what the official client reads and runs of a server that hides text, at the
// server's own URL.
func TestGuardsUnicode(t *testing.T) {
	t.Parallel()
	const said = "Reads a file.\u202e\U000E0049\x1b[8m"
	for guard, want := range map[string]struct{ hides, runs bool }{"": {true, true}, "flag": {true, true}, "strip": {false, true}, "refuse": {false, false}} {
		files := newRugPuller(t, "files\u200b")
		files.offer("read_file", said, true)
		files.offer("list_files", "Lists files.", true)
		config := "mcpServers: {files: {url: " + files.url + "}}\n"
		if guard != "" {
			config += "guards: {unicode: " + guard + "}\n"
		}
		s := serve(t, config)
		s.await("files", func(h gateway.Health) bool { return h.Upstreams["files"].Tools == 2 })
		session := sdkSession(t, strings.TrimSuffix(s.url, "/mcp")+"/mcps/files/mcp")
		if got := session.InitializeResult().Instructions; (visible.Find(got) != 0) != want.hides || !strings.HasPrefix(got, "Use files") {
			t.Errorf("%q: the instructions are %+q", guard, got)
		}
		all, err := session.ListTools(t.Context(), nil)
		if err != nil || len(all.Tools) != 2 {
			t.Fatalf("%q: %+v, %v", guard, all, err)
		}
		for _, tool := range all.Tools {
			if tool.Name == "read_file" && ((visible.Find(tool.Description) != 0) != want.hides || !strings.HasPrefix(tool.Description, "Reads a file.")) {
				t.Errorf("%q: the description is %+q", guard, tool.Description)
			}
		}
		for tool, runs := range map[string]bool{"read_file": want.runs, "list_files": true} {
			r, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: map[string]any{}})
			if ran := err == nil && !r.IsError; ran != runs {
				t.Errorf("%q: %s ran: %v (%v)", guard, tool, ran, err)
			}
			if !runs && (err == nil || !strings.Contains(err.Error(), "guards.unicode is refuse")) {
				t.Errorf("%q: %s: %v", guard, tool, err)
			}
		}
	}
}
