package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// serveModern serves 2026-07-28 over HTTP, and nothing older: tools returns what
// is listed, call the error that a tools/call with these headers is refused with,
// "" for none.
func serveModern(t *testing.T, tools func() string, call func(http.Header) string) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err != nil || json.Unmarshal(body, &m) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		result, refusal := `"content":[]`, ""
		switch m.Method {
		case "initialize":
			refusal = `{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}`
		case "server/discover":
			result = `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}`
		case "tools/list":
			result = `"tools":[` + tools() + `]`
		default:
			refusal = call(r.Header)
		}
		if refusal != "" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, m.ID, refusal)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete",%s}}`, m.ID, result)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestToolsWithImpossibleHeaders: over modern HTTP, a tool whose schema asks for a
// header that cannot be is neither listed nor called, whoever asks (2026-07-28).
func TestToolsWithImpossibleHeaders(t *testing.T) {
	var calls atomic.Int32
	url := serveModern(t, func() string {
		return `{"name":"good","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}},` +
			`{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"no spaces"}}}}`
	}, func(http.Header) string {
		calls.Add(1)
		return ""
	})
	m, sink := manage(t, Options{}, &mcpserver.Server{Name: "s", Namespace: "s", URL: url, Type: mcpserver.TransportHTTP, Start: mcpserver.StartBoot})
	if err := m.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(sink.tools("s")); got != "[good]" {
		t.Errorf("listed: %s", got)
	}
	u, _ := m.Upstream("s")
	if _, err := u.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"good","arguments":{"a":"x"}}`), &mcp.Mux{}); err != nil {
		t.Error(err)
	}
	_, err := u.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"bad","arguments":{"a":"x"}}`), &mcp.Mux{})
	if k, _ := mcp.KindOf(err); err == nil || k != mcp.KindInvalidParams || !strings.Contains(err.Error(), `"bad" cannot be called`) {
		t.Errorf("called: %v", err)
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls reached the server", n)
	}
}

// TestRefusedHeaders: a call that a server refuses because it misses headers is
// made again once the tools are listed anew: they had not been listed yet, or have
// changed without a word (2026-07-28).
func TestRefusedHeaders(t *testing.T) {
	var wants atomic.Pointer[string] // the header that the tool wants
	var lists, runs atomic.Int32
	url := serveModern(t, func() string {
		lists.Add(1)
		return fmt.Sprintf(`{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":%q}}}}`, *wants.Load())
	}, func(h http.Header) string {
		if h.Get("Mcp-Param-"+*wants.Load()) != "x" {
			return `{"code":-32020,"message":"a header is missing"}`
		}
		runs.Add(1)
		return ""
	})
	first, second, never := "First", "Second", "no header"
	wants.Store(&first)
	m, _ := manage(t, Options{}, &mcpserver.Server{Name: "s", Namespace: "s", URL: url, Type: mcpserver.TransportHTTP, Start: mcpserver.StartBoot})
	if err := m.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	u, _ := m.Upstream("s")
	call := func(arguments string) error {
		_, err := u.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"t","arguments":`+arguments+`}`), &mcp.Mux{})
		return err
	}
	if err := call(`{"a":"x"}`); err != nil {
		t.Fatal(err)
	}
	listed := lists.Load()
	wants.Store(&second)
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			if err := call(`{"a":"x"}`); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	// Once for all calls, and perhaps already once more for the catalog.
	if n := lists.Load() - listed; n > 2 {
		t.Errorf("20 calls listed the tools %d times", n)
	}
	if n := runs.Load(); n != 21 {
		t.Errorf("%d calls were run", n)
	}

	// What new lists cannot mend is refused, and does not list again and again.
	listed = lists.Load()
	for range 20 {
		err := call(`{"a":"y"}`)
		var wire *jsonrpc.Error
		if !errors.As(err, &wire) || wire.Code != -32020 {
			t.Fatalf("refused: %v", err)
		}
	}
	if n := lists.Load() - listed; n > 2 {
		t.Errorf("20 refused calls listed the tools %d times", n)
	}

	u.lists.learned = u.lists.learned.Add(-firstRelist) // some time later, the tool cannot be called at all
	wants.Store(&never)
	if err := call(`{"a":"x"}`); err == nil || !strings.Contains(err.Error(), `"t" cannot be called`) {
		t.Errorf("called: %v", err)
	}
}

// TestRefusedHeadersOfPrincipal does not take what a server lists for one principal as the headers of all:
// the connection that lists learns them.
func TestRefusedHeadersOfPrincipal(t *testing.T) {
	t.Parallel()
	var wants atomic.Pointer[string] // the header that the tool wants
	url := serveModern(t, func() string {
		return fmt.Sprintf(`{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":%q}}}}`, *wants.Load())
	}, func(h http.Header) string {
		if h.Get("Mcp-Param-"+*wants.Load()) != "x" {
			return `{"code":-32020,"message":"a header is missing"}`
		}
		return ""
	})
	first, second := "First", "Second"
	wants.Store(&first)
	a := newAccounts()
	a.sign("ann", true) // lists
	a.sign("bob", true)
	var ofBob atomic.Int32 // lists
	transport := func(_ string, of Owner, base http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if of.Principal == "bob" && r.Header.Get("Mcp-Method") == "tools/list" {
				ofBob.Add(1)
			}
			return base.RoundTrip(r)
		})
	}
	cfg := perPrincipal("s")
	cfg.URL = url
	m, _ := manage(t, Options{Credentials: a, Transport: transport}, cfg)
	ready(t, m)
	u, bob := upstreamOf(t, m, "s"), agent("bob", "{}")
	call := func() error {
		_, err := u.Call(as(t.Context(), bob), "tools/call", json.RawMessage(`{"name":"t","arguments":{"a":"x"}}`), &mcp.Mux{})
		return err
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
	wants.Store(&second)
	var wire *jsonrpc.Error
	if err := call(); !errors.As(err, &wire) || wire.Code != -32020 {
		t.Errorf("refused: %v", err)
	}
	eventually(t, "a later call has the new headers", func() bool { return call() == nil })
	if n := ofBob.Load(); n != 0 {
		t.Errorf("the tools were listed %d times with the credential of bob", n)
	}
}
