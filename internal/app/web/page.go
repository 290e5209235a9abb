package web

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"crypto/rand"

	"github.com/weir-mcp/weir/internal/app"
	"github.com/weir-mcp/weir/internal/text"
)

//go:embed page.html
var pageSource string

// A snippet is a text to copy into a client's configuration.
type snippet struct{ Name, Where, Text string }

// pageData is the data of page.html.
type pageData struct {
	Nonce, Version, URL, Mode, Config string
	Uptime                            string
	Tokens                            bool
	Upstreams                         []app.UpstreamHealth // empty if tokens are required
	Snippets                          []snippet
	Tools                             int
	Console                           bool
}

// servePage answers / with a page for browsers and a few facts as JSON for programs. It answers 404
// for other paths.
func (f *Server) servePage(w http.ResponseWriter, r *http.Request, tokens bool) {
	if r.URL.Path != "/" {
		app.WriteJSON(w, http.StatusNotFound, map[string]string{"error": "not found", "mcp": f.publicURL(), "page": "/"})
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		app.WriteJSON(w, http.StatusMethodNotAllowed, map[string]string{"error": "method not allowed: MCP is at " + f.publicURL(), "mcp": f.publicURL()})
		return
	}
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		app.WriteJSON(w, http.StatusOK, map[string]string{"name": app.ServerName, "version": f.engine.Version, "mcp": f.publicURL(), "health": "/healthz"})
		return
	}
	h := f.engine.Health()
	data := pageData{
		Nonce: rand.Text(), Version: h.Version, URL: f.publicURL(), Mode: h.Mode, Tokens: tokens, Console: f.engine.Config().Console,
		Uptime: text.Since(time.Duration(h.Uptime * float64(time.Second))), Snippets: snippets(f.publicURL(), tokens),
	}
	if !tokens {
		data.Config = h.Config
		data.Upstreams = h.List()
		for _, u := range data.Upstreams {
			data.Tools += u.Tools
		}
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Content-Security-Policy", fmt.Sprintf("default-src 'none'; style-src 'nonce-%[1]s'; script-src 'nonce-%[1]s'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", data.Nonce))
	if err := f.page.Execute(w, data); err != nil {
		f.log.Debug("the page was not sent", "err", err)
	}
}

// publicURL returns the URL that clients use.
func (f *Server) publicURL() string {
	if public := f.engine.Config().PublicURL; public != "" {
		return strings.TrimSuffix(strings.TrimSuffix(public, "/"), "/mcp") + "/mcp"
	}
	return f.base + "/mcp"
}

// snippets returns the texts to paste into common clients.
func snippets(url string, tokens bool) []snippet {
	remote := map[string]any{"type": "http", "url": url}
	code := "claude mcp add --transport http weir " + url
	cursor := map[string]any{"url": url}
	args := []string{"-y", "mcp-remote", url}
	if tokens {
		headers := map[string]string{"Authorization": "Bearer YOUR_TOKEN"}
		remote["headers"], cursor["headers"] = headers, headers
		code += ` --header "Authorization: Bearer YOUR_TOKEN"`
		args = append(args, "--header", "Authorization: Bearer YOUR_TOKEN")
	}
	indent := func(v any) string {
		out, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return ""
		}
		return string(out)
	}
	return []snippet{
		{"Claude Code", "in a shell", code},
		{"VS Code", ".vscode/mcp.json", indent(map[string]any{"servers": map[string]any{"weir": remote}})},
		{"Cursor", "~/.cursor/mcp.json", indent(map[string]any{"mcpServers": map[string]any{"weir": cursor}})},
		{"Claude Desktop and others that start commands", "mcpServers", indent(map[string]any{"mcpServers": map[string]any{"weir": map[string]any{"command": "npx", "args": args}}})},
	}
}
