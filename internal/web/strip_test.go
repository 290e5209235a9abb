package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/store"
)

// TestForgedHeaders: the headers with which nodes tell each other who calls, from where and over how many nodes are
// dropped from requests of clients, however their names are written.
func TestForgedHeaders(t *testing.T) {
	node, err := cluster.Start(t.Context(), cluster.Options{Docs: store.NewMemory(store.MemoryOptions{}), Bus: store.NewMemoryBus(), Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Close(context.Background()) })
	f := &Server{cluster: node}
	seen := make(chan http.Header, 1)
	var routes http.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header })
	f.routes.Store(&routes)
	public := httptest.NewServer(f)
	defer public.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, public.URL+"/mcp", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Weir-As", "weir-from", "WEIR-TO", "Weir-Hops", "weir-addr", "Weir-Owner", "Weir-Unreached", "Weir-Idempotency-Key"} {
		r.Header[name] = []string{"forged", "twice"}
	}
	r.Header.Set("Idempotency-Key", "k")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	h := <-seen
	for name := range h {
		if strings.HasPrefix(name, "Weir-") {
			t.Errorf("the header %s arrives", name)
		}
	}
	if h.Get("Idempotency-Key") != "k" {
		t.Error("a header of the client is missing")
	}
}
