package web

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
	"github.com/weir-mcp/weir/s2sp/plane"
)

// TestNearSaysWhetherItRan: a message for a connection at a node that lives and cannot be reached did not arrive, and
// the answer says so.
func TestNearSaysWhetherItRan(t *testing.T) {
	docs, bus := store.NewMemory(store.MemoryOptions{}), store.NewMemoryBus()
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

// TestRowsOfANodeThatLives: a request for rows that breaks off on its way to their node, or on its way back, is no word
// that they are gone: while the node lives, the reader may try again.
func TestRowsOfANodeThatLives(t *testing.T) {
	docs, bus := store.NewMemory(store.MemoryOptions{}), store.NewMemoryBus()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	join := func(name, url string) *cluster.Node {
		n, err := cluster.Start(t.Context(), cluster.Options{Docs: docs, Bus: bus, Name: name, URL: url})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close(context.Background()) })
		return n
	}
	owner := join("owner", "http://"+l.Addr().String())
	asked := make(chan struct{}, 1)
	link := owner.Serve(l, nil, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(func() { link.Shutdown(context.Background()) })
	entry := join("entry", "http://entry")
	ask := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		nearRows(entry, slog.New(slog.DiscardHandler), http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodPost, plane.Path+owner.Inc()+"-"+strings.Repeat("a", 43), nil))
		return w
	}
	w := ask()
	if len(asked) != 1 {
		t.Fatalf("the node of the rows was not asked: %d %s", w.Code, w.Body)
	}
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "2" || !strings.Contains(w.Body.String(), "try again") {
		t.Errorf("its node lives: %d %v %s", w.Code, w.Header(), w.Body)
	}
	link.Shutdown(t.Context())
	owner.Close(t.Context())
	if w = ask(); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "its node is gone") {
		t.Errorf("its node has ended: %d %s", w.Code, w.Body)
	}
}

// TestOffersOfANodeApart: a node that has lost its INC, and whose next one the store does not know yet, offers no URL:
// the other nodes would say that its node is gone.
func TestOffersOfANodeApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{})}
		n, err := cluster.Start(t.Context(), cluster.Options{Docs: docs, Bus: store.NewMemoryBus(), Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close(t.Context())
		offers := func(why string, want int) {
			t.Helper()
			w := httptest.NewRecorder()
			next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
			knownOffers(n, next).ServeHTTP(w, httptest.NewRequest(http.MethodPost, OfferPath+"art_x", nil))
			if w.Code != want || want == http.StatusServiceUnavailable && w.Header().Get("Retry-After") != "2" {
				t.Errorf("%s: %d %v %s", why, w.Code, w.Header(), w.Body)
			}
		}
		inc := n.Inc()
		offers("in the cluster", http.StatusOK)
		docs.Cut(true)
		time.Sleep(5 * time.Second)
		offers("with an INC that the others know", http.StatusOK)
		time.Sleep(20 * time.Second)
		if n.Inc() == inc {
			t.Fatal("the node was not fenced")
		}
		offers("with an INC that no other node knows", http.StatusServiceUnavailable)
		docs.Cut(false)
		time.Sleep(5 * time.Second)
		offers("in the cluster again", http.StatusOK)
	})
}
