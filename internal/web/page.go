package web

import (
	"cmp"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/text"
)

//go:embed page.html
var pageSource string

var page = sync.OnceValue(func() *template.Template { return template.Must(template.New("page").Parse(pageSource)) })

// pageValues are the values of page.html.
type pageValues struct {
	Nonce, Version, URL, Mode, Uptime string
	Tokens, Local, Console            bool
	Snippets                          []snippet

	// Callers without a token see these.
	Config, Shown string
	Tools         int
	Servers       []pageServer
}

type pageServer struct {
	Name, State, Note, Transport string
	Tools                        int
}

// A snippet is a text to copy into a client's configuration.
type snippet struct{ Name, Where, Text string }

// servePage answers / with a page for browsers and a few facts as JSON for programs. It answers 404
// for other paths.
func (f *Server) servePage(w http.ResponseWriter, r *http.Request, tokens bool) {
	if r.URL.Path != "/" {
		httpserver.WriteJSON(w, http.StatusNotFound, map[string]string{"error": "not found", "mcp": f.publicURL(), "page": "/"})
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		httpserver.WriteJSON(w, http.StatusMethodNotAllowed, map[string]string{"error": "method not allowed: MCP is at " + f.publicURL(), "mcp": f.publicURL()})
		return
	}
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		httpserver.WriteJSON(w, http.StatusOK, map[string]string{"name": part.ServerName, "version": f.gateway.Run.Version, "mcp": f.publicURL(), "health": "/healthz"})
		return
	}
	h := f.gateway.Health()
	nonce := rand.Text()
	data := pageValues{
		Nonce: nonce, Version: h.Version, URL: f.publicURL(), Mode: h.Mode, Tokens: tokens, Local: !tokens && onThisMachine(f.publicURL()), Console: f.gateway.Config().Console.Enabled,
		Uptime: text.Since(time.Duration(h.Uptime * float64(time.Second))), Snippets: snippets(f.publicURL(), tokens),
	}
	if !tokens {
		data.Config, data.Shown = h.Config, shownIn(h.Mode)
		for _, u := range h.List() {
			data.Servers = append(data.Servers, pageServer{u.Name, u.State, cmp.Or(u.Error, u.Note), u.Transport, u.Tools})
			data.Tools += u.Tools
		}
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Content-Security-Policy", fmt.Sprintf("default-src 'none'; style-src 'nonce-%[1]s'; script-src 'nonce-%[1]s'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", nonce))
	if err := page().Execute(w, data); err != nil {
		f.log.Debug("the page was not sent", "err", err)
	}
}

// shownIn describes how a client sees the tools in a mode.
func shownIn(mode string) string {
	switch config.Mode(mode) {
	case config.ModeProxy:
		return "A client sees each of them without its schema, which tool_hydrate gives, and tool_execute."
	case config.ModePlain:
		return "A client sees each of them, with its schema."
	case config.ModeAuto:
		return "A client sees each of them while all definitions are small, else tool_browse, tool_execute and tool_view in their place."
	}
	return "A client sees three instead: tool_browse finds, tool_execute runs, tool_view reads more of a long result. Where servers have resources or prompts, four more do the same for these."
}

// publicURL returns the URL that clients use.
func (f *Server) publicURL() string {
	if public := f.gateway.Config().PublicURL; public != "" {
		return strings.TrimSuffix(strings.TrimSuffix(public, "/"), "/mcp") + "/mcp"
	}
	return f.base + "/mcp"
}

// onThisMachine reports whether a URL names a gateway on the machine of its reader, which weir attach
// and weir connect find by themselves.
func onThisMachine(public string) bool {
	u, err := url.Parse(public)
	return err == nil && address.Loopback(u.Hostname())
}

// snippets returns the texts to paste into common clients. A client that starts commands reaches a
// gateway on its own machine by weir attach; a gateway elsewhere needs a bridge from npm.
func snippets(at string, tokens bool) []snippet {
	remote := map[string]any{"type": "http", "url": at}
	code := "claude mcp add --transport http weir " + at
	cursor := map[string]any{"url": at}
	command, args := "npx", []string{"-y", "mcp-remote", at}
	if !tokens && onThisMachine(at) {
		command, args = "weir", []string{"attach"}
	}
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
		{"Claude Desktop and others that start commands", "mcpServers", indent(map[string]any{"mcpServers": map[string]any{"weir": map[string]any{"command": command, "args": args}}})},
	}
}
