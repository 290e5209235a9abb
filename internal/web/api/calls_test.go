package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
)

// TestExchangeIsRecorded: the audit log has who read the arguments and the result of a call.
func TestExchangeIsRecorded(t *testing.T) {
	w := newWorld(t)
	one := call("ann", "many:tool_01")
	one.Exchange = &telemetry.Exchange{Arguments: []byte(`{"a":1}`), Result: []byte(`{}`)}
	w.book.KeepExchanges(true)
	w.book.Observe(one)
	w.book.Observe(call("ann", "many:tool_02")) // nothing of it is kept
	var told []string
	a := New(Options{Look: w.look(&w.book), Key: worldKey, Operated: func(_ context.Context, kind audit.Kind, _, _, _, detail string) {
		told = append(told, string(kind)+" "+detail)
	}})
	t.Cleanup(a.Close)
	for i, status := range []int{http.StatusOK, http.StatusNotFound} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8088"+Path+"calls/"+w.book.ID(uint64(i))+"/exchange", nil)
		r.Header.Set("Authorization", "Bearer "+worldKey)
		r.RemoteAddr = "127.0.0.1:4000"
		rec := httptest.NewRecorder()
		a.ServeHTTP(rec, r)
		if rec.Code != status {
			t.Errorf("call %d: %d %s, want %d", i, rec.Code, rec.Body, status)
		}
	}
	if want := []string{"role reads the arguments and the result of call " + w.book.ID(0)}; !slices.Equal(told, want) {
		t.Errorf("recorded %q, want %q", told, want)
	}
}

// TestCallsOfPrincipal: an operator filters by principal, and other viewers find their own calls alone.
func TestCallsOfPrincipal(t *testing.T) {
	w := newWorld(t)
	for _, principal := range []string{"ann", "bob", "ann"} {
		w.book.Observe(call(principal, "many:tool_01"))
	}
	c := w.serve(t)
	for target, want := range map[string]int{"calls?principal=ann": 2, "calls?principal=bob": 0, "calls?principal=eve": 0} {
		status, out := ask(t, c, "ann", target)
		if calls, _ := out["calls"].([]any); status != http.StatusOK || len(calls) != want {
			t.Errorf("%s: status %d, %d calls, want %d", target, status, len(calls), want)
		}
	}
}

// TestLatencies: the durations of a server are those of the calls that the viewer may see.
func TestLatencies(t *testing.T) {
	w := newWorld(t)
	for i := range 100 {
		one := call("ann", "many:tool_01")
		one.Upstream, one.Duration = "up0001", time.Duration(i+1)*time.Millisecond
		w.book.Observe(one)
	}
	other := call("bob", "many:tool_01")
	other.Upstream, other.Duration = "up0001", time.Hour
	w.book.Observe(other)
	cached := call("ann", "many:tool_01")
	cached.Upstream, cached.Attempts = "up0002", 0 // its server was not asked
	w.book.Observe(cached)
	c := w.serve(t)
	_, out := ask(t, c, "ann", "overview")
	ups := out["upstreams"].([]any)
	if up := ups[1].(map[string]any); up["p50_ms"] != 50.0 || up["p95_ms"] != 95.0 {
		t.Errorf("up0001: %v and %v ms", up["p50_ms"], up["p95_ms"])
	}
	if up := ups[2].(map[string]any); up["p50_ms"] != nil {
		t.Errorf("up0002: %v ms", up["p50_ms"])
	}
	if _, one := ask(t, c, "ann", "servers/up0001"); one["p95_ms"] != 95.0 {
		t.Errorf("the server itself: %v ms", one["p95_ms"])
	}
}
