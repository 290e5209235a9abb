package passthrough_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/passthrough"
)

// What is no message is told before whether there is such an agent.
func TestFormatComesBeforeTheAgent(t *testing.T) {
	e := inFront(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was forwarded") }, nil)
	for _, c := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"jsonrpc":"2.0","id":7,"method":`, 400, `"id":null,"error":{"code":-32700`},
		{`nonsense`, 400, `"id":null,"error":{"code":-32700`},
		{"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"\xff\"}", 400, `"id":7,"error":{"code":-32700`},
		{`{"id":7,"method":"x"}`, 400, `"id":7,"error":{"code":-32600`},
		{`[1]`, 400, `"code":-32600`},
		{`[`, 400, `"code":-32700`},
		{`{"jsonrpc":"2.0","id":7,"method":"x"}`, 404, `"id":7,"error":{"code":-32601,"message":"Agent 'none' not found"`},
		{`{"jsonrpc":"2.0","method":"notifications/x"}`, 404, `"id":null,"error":{"code":-32601`},
		{`[{"jsonrpc":"2.0","id":7,"method":"x"}]`, 404, `"code":-32601`},
	} {
		if res := e.post("/mcps/none/mcp", c.body); res.status != c.status || !strings.Contains(res.body, c.want) {
			t.Errorf("%q: %d %s, want %d with %s", c.body, res.status, res.body, c.status, c.want)
		}
	}
}

// A body over the bound is answered with the id that stands in it.
func TestTooLargeHasItsID(t *testing.T) {
	for name, agent := range map[string]string{"forwarded": mcpPath, "unknown": "/mcps/none/mcp"} {
		e := inFront(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was forwarded") }, func(_ *passthrough.Target, o *passthrough.Options) { o.MaxBody = 1000 })
		status, code := 413, "-32600"
		if agent != mcpPath {
			status, code = 404, "-32601"
		}
		rest := `,"method":"tools/call","params":{"a":"` + strings.Repeat("x", 100_000) + `"}}`
		for body, id := range map[string]string{
			`{"jsonrpc":"2.0","id":"big"` + rest:                            `"big"`,
			`{"jsonrpc":"2.0"` + strings.TrimSuffix(rest, "}") + `,"id":7}`: "7",
		} {
			for _, announced := range []bool{true, false} {
				req := e.request(t.Context(), "POST", agent, body)
				if !announced {
					req.ContentLength = -1
				}
				if res := e.do(req); res.status != status || !strings.Contains(res.body, `"id":`+id+`,"error":{"code":`+code) {
					t.Errorf("%s, announced %v, id %s: %d %s", name, announced, id, res.status, res.body)
				}
			}
		}
	}
}

// A request without a token is refused before its body is read, but for the id.
func TestUnauthorizedHasItsID(t *testing.T) {
	e := inFront(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was forwarded") }, func(_ *passthrough.Target, o *passthrough.Options) {
		o.Guard = guard.New(guard.Options{Authenticate: guard.ByName(func(string) (string, bool) { return "", false })})
	})
	body := `{"method":"tools/call","params":{"name":"x"},"jsonrpc":"2.0","id":"last"}`
	if res := e.post(mcpPath, body); res.status != 401 || !strings.Contains(res.body, `"id":"last"`) {
		t.Errorf("%d %s", res.status, res.body)
	}
}
