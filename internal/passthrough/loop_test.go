package passthrough_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/mcp"
)

// TestLoop: an upstream whose URL is its own route here is told as that at once,
// and one whose URL is the route of another is not taken for it.
func TestLoop(t *testing.T) {
	_, at := serveFake(t, fakemcp.Config{})
	var around atomic.Pointer[map[string]passthrough.Upstream]
	e := start(t, func(_ *config.Server, o *passthrough.Options) {
		find := o.Find
		o.Find = func(name string) (passthrough.Upstream, bool) {
			if u, ok := (*around.Load())[name]; ok {
				return u, true
			}
			return find(name)
		}
	}, &config.Server{Name: "fake", URL: at + "/mcp", Type: mcpserver.TransportHTTP})
	target, err := url.Parse(e.url + "/mcps/")
	if err != nil {
		t.Fatal(err)
	}
	up := func(name string) passthrough.Upstream {
		return &fixed{target: passthrough.Target{URL: target.JoinPath(name, "mcp"), Version: mcp.V20251125, Timeout: 10 * time.Second,
			Header: http.Header{"Authorization": {"Bearer alice"}}}}
	}
	around.Store(&map[string]passthrough.Upstream{"a b": up("a b"), "alias": up("fake")})
	res := e.post("/mcps/a%20b/mcp", initRequest)
	want := `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Failed to reach agent: upstream \"a b\" leads back to this weir: its URL must be the agent's own, and not a route here","data":{"kind":"upstream_unavailable"}}}`
	if res.status != http.StatusBadGateway || res.body != want {
		t.Errorf("a loop: %d %s", res.status, res.body)
	}
	res = e.do(e.request(t.Context(), http.MethodGet, "/mcps/a%20b/task?taskId=1", ""))
	if res.status != http.StatusBadGateway || !strings.Contains(res.body, "leads back to this weir") {
		t.Errorf("a task of a loop: %d %s", res.status, res.body)
	}
	res = e.post("/mcps/alias/mcp", initRequest, "Via", "1.1 proxy.example")
	if res.status != http.StatusOK || !strings.Contains(res.body, `"protocolVersion":"2025-11-25"`) {
		t.Errorf("the route of another: %d %s", res.status, res.body)
	}
}

// TestLoopMark: what passes on the way stays in Via, in order, and a gateway in
// front of all upstreams refuses what was sent from here.
func TestLoopMark(t *testing.T) {
	var via atomic.Value
	loops := passthrough.NewLoops()
	e := inFront(t, func(w http.ResponseWriter, r *http.Request) {
		via.Store(r.Header["Via"])
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
	}, func(_ *passthrough.Target, o *passthrough.Options) { o.Loops = loops })
	e.post(mcpPath, initRequest, "Via", "1.1 proxy.example")
	got, _ := via.Load().([]string)
	if len(got) != 2 || got[0] != "1.1 proxy.example" || !strings.HasPrefix(got[1], "1.1 weir-") || !strings.HasSuffix(got[1], ".fake") {
		t.Fatalf("Via: %q", got)
	}
	for _, c := range []struct {
		via    string
		status int
	}{{"", 200}, {"1.1 proxy.example", 200}, {got[1], 502}, {"1.1 proxy.example, " + got[1] + " , 1.1 other", 502}} {
		rec := httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(initRequest))
		req.Header.Set("Via", c.via)
		loops.Pass(rec, req)
		if rec.Code != c.status || c.status != 200 && !strings.HasPrefix(rec.Body.String(), `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,`) {
			t.Errorf("Via %q: %d %s", c.via, rec.Code, rec.Body)
		}
	}
}
