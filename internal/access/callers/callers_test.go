package callers_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/access/callers"
	"github.com/weir-mcp/weir/internal/access/dpop"
	"github.com/weir-mcp/weir/internal/store/backend"
)

// TestProofsOfTwoNodes: a proof that one node has taken opens no other node of the same store.
func TestProofsOfTwoNodes(t *testing.T) {
	s := backend.Memory()
	defer s.Close()
	a, b := callers.Proofs(s, true), callers.Proofs(s, true)
	k := dpop.NewKey()
	r := httptest.NewRequest(http.MethodPost, "https://weir.example/mcp", nil)
	if err := k.Sign(r, "token", "", time.Now()); err != nil {
		t.Fatal(err)
	}
	want := dpop.Expect{Method: http.MethodPost, URL: "https://weir.example/mcp", Token: "token", Thumbprint: k.Thumbprint()}
	if _, err := a.Check(t.Context(), r.Header, want); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Check(t.Context(), r.Header, want); err == nil {
		t.Error("another node takes the proof again")
	}
}
