package web

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/store"
)

// TestNearSaysWhetherItRan: a message for a connection at a node that lives and cannot be reached did not arrive, and
// the answer says so.
func TestNearSaysWhetherItRan(t *testing.T) {
	docs, bus := store.NewMemory(), store.NewMemoryBus()
	join := func(name string) *cluster.Node {
		n, err := cluster.Start(t.Context(), cluster.Options{
			Docs: docs, Bus: bus, Name: name, URL: "http://" + name,
			Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close(context.Background()) })
		return n
	}
	owner := join("owner")
	entry := join("entry")
	h := near(entry, slog.New(slog.DiscardHandler), func(r *http.Request) string { return r.URL.Query().Get("sid") }, http.NotFoundHandler())
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/messages?sid="+cluster.NewID(owner), nil))
	var answer struct {
		Error struct {
			Data struct {
				Kind, Node string
				MaybeRan   *bool `json:"maybe_ran"`
			}
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusBadGateway {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if d := answer.Error.Data; d.Kind != "node_gone" || d.Node != owner.Inc() || d.MaybeRan == nil || *d.MaybeRan {
		t.Errorf("%s", w.Body)
	}
}
