package streamable_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/streamable"
)

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// The headers of 2026-07-28 must say what the body says.
func TestServerHeaderRules(t *testing.T) {
	hs, _ := startServer(t, streamable.ServerOptions{})
	tests := []struct {
		name   string
		method string
		params string // without _meta
		header http.Header
		status int
		code   string // "" for a result
	}{
		{"method", "tools/list", "", http.Header{"Mcp-Method": {"tools/list"}}, 200, ""},
		{"method in lower case header", "tools/list", "", http.Header{"mcp-method": {"tools/list"}}, 200, ""},
		{"method with spaces around", "tools/list", "", http.Header{"Mcp-Method": {"  tools/list "}}, 200, ""},
		{"no method", "tools/list", "", http.Header{}, 400, "-32020"},
		{"empty method", "tools/list", "", http.Header{"Mcp-Method": {""}}, 400, "-32020"},
		{"other method", "tools/list", "", http.Header{"Mcp-Method": {"prompts/list"}}, 400, "-32020"},
		{"method in other case", "tools/list", "", http.Header{"Mcp-Method": {"TOOLS/LIST"}}, 400, "-32020"},
		{"method twice", "tools/list", "", http.Header{"Mcp-Method": {"tools/list", "tools/list"}}, 400, "-32020"},
		{"name", "tools/call", `"name":"echo"`, http.Header{"Mcp-Name": {"echo"}}, 200, ""},
		{"name with spaces around", "tools/call", `"name":"echo"`, http.Header{"Mcp-Name": {"  echo "}}, 200, ""},
		{"name in base64", "tools/call", `"name":"echo"`, http.Header{"Mcp-Name": {"=?base64?ZWNobw==?="}}, 200, ""},
		{"name with an escape in the body", "tools/call", `"name":"\u0065cho"`, http.Header{"Mcp-Name": {"echo"}}, 200, ""},
		{"no name", "tools/call", `"name":"echo"`, http.Header{}, 400, "-32020"},
		{"other name", "tools/call", `"name":"echo"`, http.Header{"Mcp-Name": {"other"}}, 400, "-32020"},
		{"other name in base64", "tools/call", `"name":"echo"`, http.Header{"Mcp-Name": {"=?base64?b3RoZXI=?="}}, 400, "-32020"},
		{"no base64", "tools/call", `"name":"echo"`, http.Header{"Mcp-Name": {"=?base64?***?="}}, 400, "-32020"},
		{"name twice", "tools/call", `"name":"echo"`, http.Header{"Mcp-Name": {"echo", "echo"}}, 400, "-32020"},
		{"name in the header alone", "tools/call", "", http.Header{"Mcp-Name": {"echo"}}, 400, "-32020"},
		{"name nowhere", "tools/call", "", http.Header{}, 200, "-32602"},
		{"name that is no string", "tools/call", `"name":7`, http.Header{"Mcp-Name": {"7"}}, 400, "-32020"},
		{"prompt name", "prompts/get", `"name":"p"`, http.Header{"Mcp-Name": {"q"}}, 400, "-32020"},
		{"resource uri", "resources/read", `"uri":"a:b","name":"x"`, http.Header{"Mcp-Name": {"a:b"}}, 404, "-32601"},
		{"other resource uri", "resources/read", `"uri":"a:b","name":"x"`, http.Header{"Mcp-Name": {"x"}}, 400, "-32020"},
		{"a subscription for who takes no stream", "subscriptions/listen", `"notifications":{}`, http.Header{"Accept": {"application/json"}}, 406, "-32600"},
		{"name where none is asked for", "tools/list", "", http.Header{"Mcp-Method": {"tools/list"}, "Mcp-Name": {"x"}}, 200, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2026-07-28"}}
			if test.method != "tools/list" {
				header.Set("Mcp-Method", test.method)
			}
			for k, v := range test.header {
				header[k] = v
			}
			params := modernMeta
			if test.params != "" {
				params = test.params + "," + params
			}
			resp := post(t, hs.URL, header, fmt.Sprintf(`{"jsonrpc":"2.0","id":"i","method":%q,"params":{%s}}`, test.method, params))
			body, _ := io.ReadAll(resp.Body)
			if code := string(rawjson.GetPath(body, "error", "code")); resp.StatusCode != test.status || code != test.code {
				t.Errorf("%d %s, want %d with code %q", resp.StatusCode, body, test.status, test.code)
			}
			if id := string(rawjson.Get(body, "id")); id != `"i"` {
				t.Errorf("id = %s, want that of the request", id)
			}
		})
	}
}

// Which errors of a handler are failures of HTTP, too.
func TestServerErrorStatus(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		modern int // legacy is 200 always
		code   string
	}{
		{"header of a tool's param", mcp.Errorf(mcp.KindHeaderMismatch, "x"), 400, "-32020"},
		{"missing capability", mcp.Errorf(mcp.KindMissingCapability, "x"), 400, "-32021"},
		{"unsupported version", mcp.UnsupportedVersion("x"), 400, "-32022"},
		{"unknown method", mcp.MethodNotFound("x"), 404, "-32601"},
		{"what an upstream said", &jsonrpc.Error{Code: -32021, Message: "x"}, 400, "-32021"},
		{"params", mcp.Errorf(mcp.KindInvalidParams, "x"), 200, "-32602"},
		{"another error of an upstream", &jsonrpc.Error{Code: 42, Message: "x"}, 200, "42"},
		{"overloaded upstream", mcp.Errorf(mcp.KindOverloaded, "x"), 200, "-32005"},
		{"internal", fmt.Errorf("secret"), 200, "-32603"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			hs, _ := startServer(t, streamable.ServerOptions{Sessionless: true, Handler: mcp.HandlerFunc(func(context.Context, *mcp.Request) (json.RawMessage, error) {
				return nil, test.err
			})})
			for _, legacy := range []bool{true, false} {
				header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
				params, want := `{}`, 200
				if !legacy {
					header["Mcp-Protocol-Version"], header["Mcp-Method"] = []string{"2026-07-28"}, []string{"tools/list"}
					params, want = "{"+modernMeta+"}", test.modern
				}
				resp := post(t, hs.URL, header, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":`+params+`}`)
				body, _ := io.ReadAll(resp.Body)
				if code := string(rawjson.GetPath(body, "error", "code")); resp.StatusCode != want || code != test.code || strings.Contains(string(body), "secret") {
					t.Errorf("legacy %v: %d %s, want %d with code %s", legacy, resp.StatusCode, body, want, test.code)
				}
			}
		})
	}
}

// A call that needs more scopes is a failure of HTTP in both eras, and names them where clients look.
func TestServerInsufficientScope(t *testing.T) {
	s := streamable.NewServer(streamable.ServerOptions{Sessionless: true, Handler: mcp.HandlerFunc(func(context.Context, *mcp.Request) (json.RawMessage, error) {
		return nil, guard.InsufficientScope([]string{"repo:write"}, "the call needs the scope repo:write")
	})})
	g := guard.New(guard.Options{Authenticate: guard.ByName(func(b string) (string, bool) { return b, true }), Challenge: func(*http.Request) (string, []string) { return "https://w/m", nil }})
	hs := httptest.NewServer(g.Wrap(s))
	defer hs.Close()
	for _, modern := range []bool{true, false} {
		header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Authorization": {"Bearer ann"}}
		params := `{}`
		if modern {
			header["Mcp-Protocol-Version"], header["Mcp-Method"] = []string{"2026-07-28"}, []string{"tools/list"}
			params = "{" + modernMeta + "}"
		}
		resp := post(t, hs.URL, header, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":`+params+`}`)
		body, _ := io.ReadAll(resp.Body)
		if got := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != 403 || got != `Bearer resource_metadata="https://w/m", scope="repo:write", error="insufficient_scope"` {
			t.Errorf("modern %t: %d, %q", modern, resp.StatusCode, got)
		}
		if scope := rawjson.GetPath(body, "error", "data", "scopes"); string(scope) != `["repo:write"]` {
			t.Errorf("modern %t: %s", modern, body)
		}
	}
	// The other messages of a batch have answers of their own: one of them decides no status.
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Authorization": {"Bearer ann"}, "Mcp-Protocol-Version": {"2025-03-26"}}
	resp := post(t, hs.URL, header, `[{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`)
	body, err := io.ReadAll(resp.Body)
	if got := resp.Header.Get("WWW-Authenticate"); err != nil || resp.StatusCode != 200 || got != "" || strings.Count(string(body), `"insufficient_scope"`) < 1 {
		t.Errorf("a batch: %d, %q, %s, %v", resp.StatusCode, got, body, err)
	}
}
