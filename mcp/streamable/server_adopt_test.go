package streamable_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/cluster/sessionid"
	"github.com/weir-mcp/weir/internal/seal"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// lasting are options of a Server whose sessions are kept in a store.
func lasting(t *testing.T, d store.Docs, h mcp.Handler) streamable.ServerOptions {
	t.Helper()
	k, err := seal.NewKey(base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	if err != nil {
		t.Fatal(err)
	}
	kept := sessionid.New(k, d, nil).At("/mcp").Around(h, nil)
	return streamable.ServerOptions{Handler: kept, Sessions: kept}
}

// seen is a tool that says what it sees of its session.
func seen(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
	info, _ := r.Session.Client()
	return json.Marshal([]string{r.Session.ID(), r.Session.Principal(), r.Version, string(info)})
}

// TestServerAdopts: a session goes on at another Server with the same store, for its principal, until
// it is ended there.
func TestServerAdopts(t *testing.T) {
	docs := store.NewMemory(store.MemoryOptions{})
	for _, slow := range []bool{false, true} { // slow: the response to initialize is a stream
		h := serverOf(map[string]toolFunc{"seen": seen})
		first := h
		if slow {
			first = mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
				if r.Method == "initialize" {
					time.Sleep(3 * time.Second)
				}
				return h.Serve(ctx, r)
			})
		}
		var id, before string
		inBubble(t, lasting(t, docs, first), func(t *testing.T, a *agent) {
			a.initialize(mcp.V20250618)
			id = a.session
			_, before = a.ask(callOf(1, "seen"))
		})
		inBubble(t, lasting(t, docs, h), func(t *testing.T, a *agent) {
			bob := a.as("bob")
			bob.session, bob.version = id, mcp.V20250618
			if status, body := bob.ask(callOf(1, "seen")); status != 404 {
				t.Errorf("another principal: %d %s", status, body)
			}
			a.session, a.version = id, mcp.V20250618
			var all sync.WaitGroup
			for i := range 8 { // at once, each by its own id: they are of one session
				all.Go(func() {
					if status, body := a.ask(callOf(1+i, "seen")); status != 200 || strings.Replace(body, `"id":`+string('1'+rune(i)), `"id":1`, 1) != before {
						t.Errorf("after the restart: %d %s, want %s", status, body, before)
					}
				})
			}
			all.Wait()
			if status, body := a.ask(strings.Replace(callOf(1, "x"), "tools/call", "initialize", 1)); status != 200 || kindIn(body) != "invalid_request" {
				t.Errorf("a second handshake: %d %s", status, body)
			}
			if status := a.send(t.Context(), "DELETE", "").StatusCode; status != 204 {
				t.Errorf("DELETE: %d", status)
			}
			if status, _ := a.ask(callOf(1, "seen")); status != 404 {
				t.Errorf("after its end: %d", status)
			}
		})
		inBubble(t, lasting(t, docs, h), func(t *testing.T, a *agent) {
			a.session, a.version = id, mcp.V20250618
			if status, _ := a.ask(callOf(1, "seen")); status != 404 {
				t.Errorf("after its end, and another restart: %d", status)
			}
		})
	}
}

// TestServerAdoptsIdle: a session that was ended because it was idle goes on with its next request,
// also with a GET.
func TestServerAdoptsIdle(t *testing.T) {
	o := lasting(t, store.NewMemory(store.MemoryOptions{}), serverOf(map[string]toolFunc{"seen": seen}))
	o.SessionIdle = time.Minute
	inBubble(t, o, func(t *testing.T, a *agent) {
		a.initialize(mcp.V20251125)
		_, before := a.ask(callOf(1, "seen"))
		time.Sleep(2 * time.Minute)
		if status, body := a.ask(callOf(1, "seen")); status != 200 || body != before {
			t.Errorf("%d %s, want %s", status, body, before)
		}
		time.Sleep(2 * time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		resp := a.send(ctx, "GET", "")
		if resp.StatusCode != 200 {
			t.Errorf("GET: %d", resp.StatusCode)
		}
		cancel()
		resp.Body.Close()
		synctest.Wait()
	})
}

// TestServerStoreAway: while the store does not answer, sessions that are here go on, others are told
// to try again, and no end is confirmed.
func TestServerStoreAway(t *testing.T) {
	docs := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{})}
	o := lasting(t, docs, serverOf(map[string]toolFunc{"seen": seen}))
	o.SessionIdle = time.Minute
	inBubble(t, o, func(t *testing.T, a *agent) {
		away := a.as("ann")
		away.initialize(mcp.V20251125)
		time.Sleep(2 * time.Minute)
		a.initialize(mcp.V20251125)
		docs.Cut(true)
		if status, body := a.ask(callOf(1, "seen")); status != 200 {
			t.Errorf("a session that is here: %d %s", status, body)
		}
		if status, body := away.ask(callOf(1, "seen")); status != 503 || kindIn(body) != "store_unavailable" {
			t.Errorf("a session that is not: %d %s", status, body)
		}
		if resp := a.send(t.Context(), "DELETE", ""); resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "2" {
			t.Errorf("DELETE: %d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
		}
		if status, _ := a.ask(callOf(1, "seen")); status != 200 {
			t.Errorf("its end was not confirmed, and it has ended: %d", status)
		}
		docs.Cut(false)
		if status, body := away.ask(callOf(1, "seen")); status != 200 {
			t.Errorf("with the store again: %d %s", status, body)
		}
	})
}

// slowly is a Handler whose subscriptions take five seconds. It writes down what it has done.
type slowly struct {
	next mcp.Handler
	mu   sync.Mutex // guards done
	done []string
}

func (h *slowly) Serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	if !strings.HasPrefix(r.Method, "resources/") {
		return h.next.Serve(ctx, r)
	}
	if r.Method == "resources/subscribe" {
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = append(h.done, r.Method)
	return json.RawMessage("{}"), nil
}

// TestServerAdoptsFirst: no request of an adopted session overtakes what is restored, and what is
// restored does not depend on the patience of the first one.
func TestServerAdoptsFirst(t *testing.T) {
	docs := store.NewMemory(store.MemoryOptions{})
	const subscribe = `{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"x:a"}}`
	start := func() *slowly { return &slowly{next: serverOf(map[string]toolFunc{"seen": seen})} }
	var id string
	inBubble(t, lasting(t, docs, start()), func(t *testing.T, a *agent) {
		a.initialize(mcp.V20251125)
		id = a.session
		if status, body := a.ask(subscribe); status != 200 {
			t.Errorf("subscribe: %d %s", status, body)
		}
	})
	h := start()
	inBubble(t, lasting(t, docs, h), func(t *testing.T, a *agent) {
		a.session, a.version = id, mcp.V20251125
		first, giveUp := context.WithTimeout(t.Context(), time.Second)
		defer giveUp()
		var all sync.WaitGroup
		all.Go(func() {
			if resp := a.send(first, "POST", callOf(1, "seen")); resp != nil {
				resp.Body.Close()
				t.Error("the first request did not give up")
			}
		})
		synctest.Wait()
		all.Go(func() {
			if status, body := a.ask(strings.Replace(subscribe, "/subscribe", "/unsubscribe", 1)); status != 200 {
				t.Errorf("unsubscribe: %d %s", status, body)
			}
		})
		all.Wait()
	})
	if got := strings.Join(h.done, " "); got != "resources/subscribe resources/unsubscribe" {
		t.Errorf("done: %s", got)
	}
}
