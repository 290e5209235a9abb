package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/telemetry"
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
