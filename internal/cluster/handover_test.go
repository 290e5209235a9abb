package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// TestInherit: what a node has left of a session is there for each request until one of them has made the session
// anew: the first one may have been given up. It is not there twice.
func TestInherit(t *testing.T) {
	type leftKey struct{}
	docs := store.NewMemory(store.MemoryOptions{})
	n, err := Start(t.Context(), Options{Docs: docs, Bus: store.NewMemoryBus(), Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close(context.Background())
	here, makes := false, false
	front := n.Sessions(Endpoint{
		Path: "/mcp", ID: func(r *http.Request) string { return r.Header.Get("Session") },
		Owner: func(_, id string) (inc, key string, ok bool) { return "gone00", "s." + id, true },
		Here:  func(string) bool { return here }, Forget: func(string) {}, ForgetAll: func() {}, MaxBody: 1 << 20,
		Leave: func(string) (key, state string) { return "", "" },
		Handed: func(ctx context.Context, state string) context.Context {
			return context.WithValue(ctx, leftKey{}, state)
		},
		Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			state, _ := r.Context().Value(leftKey{}).(string)
			here = makes
			_, _ = io.WriteString(w, state)
		}),
	})
	left, err := json.Marshal(owner{V: 1, Inc: "gone00", State: "sealed"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := docs.Set(t.Context(), "s.x", left, 0, time.Hour); err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range 4 {
		makes = i == 1 // the first request is given up before
		if i == 3 {
			here = false // the session was idle
		}
		got = append(got, call(front, "x").Body.String())
	}
	if want := []string{"sealed", "sealed", "", ""}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if s := n.sessions["/mcp"]; len(s.left) != 0 || s.size != 0 {
		t.Errorf("%d bytes of %d sessions are kept", s.size, len(s.left))
	}
}

// TestStreamOfAnUnreachableNode: a stream whose node lives and cannot be reached is opened without events, and ends.
func TestStreamOfAnUnreachableNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs, bus := store.NewMemory(store.MemoryOptions{}), store.NewMemoryBus()
		start := func(name string) *Node {
			n, err := Start(t.Context(), Options{Docs: docs, Bus: bus, Name: name, URL: "http://" + name + ":1", Dial: func(context.Context, string, string) (net.Conn, error) {
				return nil, errors.New("refused")
			}})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		a, b := start("a"), start("b")
		synctest.Wait()
		front := a.Sessions(Endpoint{
			Path: "/mcp", ID: func(r *http.Request) string { return r.Header.Get("Session") },
			Owner: func(_, id string) (inc, key string, ok bool) { return b.Inc(), "s." + id, true },
			Here:  func(string) bool { return false }, Forget: func(string) {}, ForgetAll: func() {}, MaxBody: 1 << 20,
			Next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") }),
		})
		r := httptest.NewRequest(http.MethodGet, "/mcp", nil)
		r.Header.Set("Session", "x")
		r.Header.Set("Accept", "text/event-stream")
		w := httptest.NewRecorder()
		began := time.Now()
		front.ServeHTTP(w, r)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/event-stream" || !strings.HasPrefix(w.Body.String(), ": ") || time.Since(began) > time.Minute {
			t.Errorf("%d %v %s after %v", w.Code, w.Header(), w.Body, time.Since(began))
		}
		a.Close(t.Context())
		b.Close(t.Context())
		time.Sleep(2 * time.Minute) // idle connections end
	})
}
