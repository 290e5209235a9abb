package cluster

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// TestSolo: the only node of a gateway answers what a node of a cluster is asked, and has what it claims.
func TestSolo(t *testing.T) {
	docs := store.NewMemory(store.MemoryOptions{})
	n := Solo(docs)
	if n.Inc() != "" || len(n.Peers()) != 0 || !n.Ready() || Apart(n) || Worse(n) || Silence(n) != 0 || n.Gone("") || !n.Gone("abcdef") {
		t.Errorf("INC %q, %d peers, ready %t", n.Inc(), len(n.Peers()), n.Ready())
	}
	if joined, err := Joined(n); !joined || err != nil {
		t.Errorf("joined %t, %v", joined, err)
	}
	if owner, err := Owner(t.Context(), n, ""); owner != "" || err != nil {
		t.Errorf("its own: %q, %v", owner, err)
	}
	if _, err := Owner(t.Context(), n, "abcdef"); !errors.Is(err, ErrGone) || !n.Suspect(t.Context(), "abcdef") {
		t.Errorf("of another node: %v", err)
	}
	if id := NewID(n); id == "" || strings.Contains(id, idMark) || IncOf(id) != "" {
		t.Errorf("the id %q names a node", id)
	}
	for range 2 {
		claim, err := n.Claim(t.Context(), "c.one", true)
		if err != nil {
			t.Fatal(err)
		}
		if err := claim.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	w := httptest.NewRecorder()
	n.Sessions(Endpoint{Path: "/mcp", Next: next}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/mcp", nil))
	if w.Code != http.StatusTeapot {
		t.Errorf("a session: status %d", w.Code)
	}
	if Retire(t.Context(), n) || n.Draining() {
		t.Error("another node would take its work")
	}
	kept, err := n.Claim(t.Context(), "c.two", false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	n.Close(ctx)
	select {
	case <-kept.Lost():
	default:
		t.Error("a claim outlasts its node")
	}
}
