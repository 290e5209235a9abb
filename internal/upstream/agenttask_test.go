package upstream

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/internal/protocol/mcptask"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// foreignAgent is an agent server that knows no tasks of MCP.
type foreignAgent struct {
	status int    // of getTaskStatus; 0 is 200
	body   string // of getTaskStatus
	hang   chan struct{}

	mu   sync.Mutex // guards below
	seen []string
}

func (a *foreignAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/getTaskStatus") {
		a.mu.Lock()
		a.seen = append(a.seen, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("X-Key")+" for "+r.Header.Get("X-Principal"))
		a.mu.Unlock()
		if a.hang != nil {
			select {
			case <-a.hang:
			case <-r.Context().Done():
			}
			return
		}
		if a.status != 0 {
			w.WriteHeader(a.status)
		}
		fmt.Fprint(w, a.body)
		return
	}
	body, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Parse(body)
	switch {
	case r.Method != http.MethodPost || err != nil:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case m.ID == "":
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "initialize":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"a","version":"1"}}}`, m.ID)
	case m.Method == "tools/list":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}`, m.ID)
	default:
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown method"}}`, m.ID)
	}
}

// asPrincipal names the session of a connection in each request, as a signature does.
type asPrincipal struct {
	http.RoundTripper
	session *mcp.Session
}

func (p asPrincipal) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	if p.session != nil {
		out.Header.Set("X-Principal", p.session.Principal())
	}
	return p.RoundTripper.RoundTrip(out)
}

func startForeign(t *testing.T, a *foreignAgent, isAgent bool, timeout time.Duration) *Upstream {
	t.Helper()
	srv := httptest.NewServer(a)
	t.Cleanup(srv.Close)
	o := Options{Transport: func(_ string, of Owner, base http.RoundTripper) http.RoundTripper {
		return asPrincipal{base, of.Session}
	}}
	m, _ := manage(t, o, &mcpserver.Server{
		Name: "far", Namespace: "far", URL: srv.URL + "/x/mcp", Type: mcpserver.TransportHTTP, PerSession: true, Agent: isAgent, Timeout: timeout,
		Headers: map[string]strict.Secret{"X-Key": "k"}, MaxResponse: 4096,
	})
	ready(t, m)
	return upstreamOf(t, m, "far")
}

func TestAgentTask(t *testing.T) {
	t.Parallel()
	const running = `{"task":{"id":"t 1","status":"running"}}`
	for _, c := range []struct {
		name, method, body string
		status             int
		want               string
		code               int      // of a *jsonrpc.Error
		kind               mcp.Kind // of another error
	}{
		{name: "a task", method: mcptask.MethodGet, body: running, want: running},
		{name: "a cancelled task", method: mcptask.MethodCancel, body: running, want: running},
		{name: "cancelled without a body", method: mcptask.MethodCancel, status: 204},
		{name: "no such task", method: mcptask.MethodGet, status: 404, body: `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no such task"}}`, code: -32602},
		{name: "another page", method: mcptask.MethodGet, body: `<html>`, code: -32601},
		{name: "no page", method: mcptask.MethodGet, status: 404, body: `404`, code: -32601},
		{name: "nothing to cancel with", method: mcptask.MethodCancel, status: 405, code: -32601},
		{name: "no other request", method: mcptask.MethodResult, kind: mcp.KindMethodNotFound},
		{name: "it restarts", method: mcptask.MethodGet, status: 503, body: running, kind: mcp.KindUpstreamUnavailable},
		{name: "too many requests", method: mcptask.MethodGet, status: 429, kind: mcp.KindUpstreamUnavailable},
		{name: "too large", method: mcptask.MethodGet, body: strings.Repeat("x", 5000), kind: mcp.KindUpstreamProtocol},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := &foreignAgent{status: c.status, body: c.body}
			u := startForeign(t, a, true, 10*time.Second)
			s := agent("p", "{}")
			defer s.Close()
			got, err := u.Call(mcptask.WithOffer(as(t.Context(), s), mcptask.Offer{Agent: true}), c.method, mcptask.Params("t 1"), nil)
			verb := map[string]string{mcptask.MethodGet: "GET", mcptask.MethodCancel: "DELETE"}[c.method]
			if want := []string{verb + " /x/getTaskStatus?taskId=t+1 k for p"}; verb != "" && !slices.Equal(a.seen, want) {
				t.Errorf("asked %q, not %q", a.seen, want)
			}
			switch wire, failed := err.(*jsonrpc.Error); {
			case c.code != 0:
				if !failed || wire.Code != c.code {
					t.Errorf("%v", err)
				}
			case c.kind != 0:
				wantKind(t, err, c.kind)
			case err != nil || string(got) != c.want:
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}

func TestAgentTaskTimeout(t *testing.T) {
	t.Parallel()
	a := &foreignAgent{hang: make(chan struct{})}
	defer close(a.hang)
	u := startForeign(t, a, true, 200*time.Millisecond)
	_, err := u.Call(mcptask.WithOffer(t.Context(), mcptask.Offer{Agent: true}), mcptask.MethodGet, mcptask.Params("t"), nil)
	wantKind(t, err, mcp.KindUpstreamTimeout, "getTaskStatus")
}

// The tasks of a server that is no agent server, and those of MCP, are asked for as MCP does.
func TestAgentTaskOnlyWhereMeant(t *testing.T) {
	t.Parallel()
	for _, isAgent := range []bool{true, false} {
		a := &foreignAgent{body: `{"task":{"id":"t","status":"running"}}`}
		u := startForeign(t, a, isAgent, 10*time.Second)
		_, err := u.Call(mcptask.WithOffer(t.Context(), mcptask.Offer{Agent: !isAgent}), mcptask.MethodGet, mcptask.Params("t"), nil)
		if wire, ok := err.(*jsonrpc.Error); !ok || wire.Message != "unknown method" || len(a.seen) != 0 || u.TellsAgentTasks() != isAgent {
			t.Errorf("agent %t: %v, asked %q", isAgent, err, a.seen)
		}
	}
}
