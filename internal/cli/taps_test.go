package cli

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// tapped serves a handler and writes down all bytes of the requests to it.
func tapped(t *testing.T, next http.Handler) (base string, seen *lockedBuffer) {
	t.Helper()
	seen = &lockedBuffer{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dump, err := httputil.DumpRequest(r, true)
		if err != nil {
			t.Error(err)
		}
		_, _ = seen.Write(dump)
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv.URL, seen
}

// TestTokensOfCallersStayHere calls servers over every transport for a caller with a token: no request to
// a server, no environment and no message has a byte sequence of the token.
func TestTokensOfCallersStayHere(t *testing.T) {
	t.Parallel()
	const token = "token-of-the-caller-0123456789"
	server := sdk.NewServer(&sdk.Implementation{Name: "tap", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "echo"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "hello"}}}, nil, nil
	})
	get := func(*http.Request) *sdk.Server { return server }
	seen := map[string]*lockedBuffer{}
	at := map[string]string{}
	for name, handler := range map[string]http.Handler{
		"sessions": sdk.NewStreamableHTTPHandler(get, nil), "stateless": sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{Stateless: true}),
		"agent": sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{Stateless: true}), "own": sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{Stateless: true}),
		"sse": sdk.NewSSEHandler(get, nil),
	} {
		at[name], seen[name] = tapped(t, handler)
	}
	behind := writeConfig(t, "weir.yaml", "listen: 127.0.0.1:0\nmcpServers: {fake: {command: \"%FAKE%\"}}\n")
	inner := start(t, behind, "serve", "--config", behind) // it speaks both eras
	to, err := url.Parse(inner.base)
	if err != nil {
		t.Fatal(err)
	}
	at["weir"], seen["weir"] = tapped(t, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: -1})

	files := t.TempDir()
	config := writeConfig(t, "weir.yaml", "listen: 127.0.0.1:0\nauth: {tokens: [{name: ann, sha256: "+fmt.Sprintf("%x", sha256.Sum256([]byte(token)))+"}]}\n"+
		"credentials: {store: \"file:"+filepath.Join(files, "creds")+"\", keys: [0123456789abcdef]}\n"+
		"mcpServers:\n  sessions: {url: \""+at["sessions"]+"\"}\n  stateless: {url: \""+at["stateless"]+"\"}\n  sse: {url: \""+at["sse"]+"\", type: sse}\n"+
		"  agent: {url: \""+at["agent"]+"\", agent: true}\n  weir: {url: \""+at["weir"]+"/mcps/fake/mcp\"}\n"+
		"  own: {url: \""+at["own"]+"\", credentials: user, headers: {X-Key: \"${user:own}\"}}\n"+
		"  stdio: {command: sh, args: [-c, \"env > "+files+"/env; tee "+files+"/in | %FAKE%\"]}\n")
	env := []string{"XDG_STATE_HOME=" + t.TempDir(), "XDG_CONFIG_HOME=" + t.TempDir(), "DBUS_SESSION_BUS_ADDRESS=disabled:", "WEIR_TOKEN=" + token}
	piped(t, "key-of-ann\n", env, "credentials", "set", "own", "--config", config, "--as", "ann").want(t, exitOK)
	s := startWith(t, env[:3], config, "serve", "--config", config)
	asked := append(env, "WEIR_URL="+s.base+"/mcp")
	for name := range strings.FieldsSeq("sessions stateless sse agent own weir stdio") {
		args := "{}"
		if name == "weir" || name == "stdio" {
			args = `{"text":"hello"}`
		}
		piped(t, "", asked, "call", name+":echo", "--json", args).want(t, exitOK, "hello")
		for _, body := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":` + args + `}}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":` + args + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		} {
			version := "2025-11-25"
			if strings.Contains(body, "2026") {
				version = "2026-07-28"
			}
			_, answer := exchange(t, http.MethodPost, s.base+"/mcps/"+name+"/mcp", body, "Authorization", "Bearer "+token, "Content-Type", "application/json",
				"Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", version, "Mcp-Method", "tools/call", "Mcp-Name", "echo")
			if !strings.Contains(answer, "hello") {
				t.Errorf("%s in %s: %s", name, version, answer)
			}
		}
	}
	for _, file := range []string{"env", "in"} {
		data, err := os.ReadFile(filepath.Join(files, file))
		if err != nil {
			t.Fatal(err)
		}
		seen["stdio "+file] = &lockedBuffer{}
		_, _ = seen["stdio "+file].Write(data)
	}
	for name, tap := range seen {
		switch text := tap.String(); {
		case text == "":
			t.Errorf("%s has got nothing", name)
		case strings.Contains(text, token) || strings.Contains(text, token[9:]):
			t.Errorf("%s has got the token of a caller", name)
		case name == "own" && !strings.Contains(text, "key-of-ann"):
			t.Error("the server has not got the credential of the caller")
		}
	}
}
