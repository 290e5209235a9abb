package streamable_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/mcp"
)

// anotherStart gives a session a name at one Server and goes on with it at another one, which has the
// same store.
func anotherStart(t *testing.T, h mcp.Handler, f func(t *testing.T, a *agent)) {
	t.Helper()
	docs := store.NewMemory(store.MemoryOptions{})
	var id string
	inBubble(t, lasting(t, docs, h), func(t *testing.T, a *agent) {
		a.initialize(mcp.V20251125)
		id = a.session
	})
	inBubble(t, lasting(t, docs, h), func(t *testing.T, a *agent) {
		a.session, a.version = id, mcp.V20251125
		f(t, a)
	})
}

// TestOwnStreamOfBefore: a client that resumes the own stream of before a restart gets each message
// that was sent since.
func TestOwnStreamOfBefore(t *testing.T) {
	h := serverOf(map[string]toolFunc{"note": func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		_ = r.Session.Peer().Notify(ctx, "notifications/message", json.RawMessage(`{"n":1}`))
		return json.RawMessage(`{"content":[]}`), nil
	}})
	for _, last := range []string{"", "g_0", "g_57", "g.ABCDEFGH_57"} {
		anotherStart(t, h, func(t *testing.T, a *agent) {
			a.ask(callOf(1, "note"))
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			var header []string
			if last != "" {
				header = []string{"Last-Event-ID", last}
			}
			var ids, got []string
			read := func() {
				resp := a.send(ctx, "GET", "", header...)
				defer resp.Body.Close()
				if resp.StatusCode != 200 {
					t.Fatalf("%q: %d", last, resp.StatusCode)
				}
				in := events(resp)
				for len(got) == 0 {
					ev, err := in.Next()
					if err != nil {
						break
					}
					ids = append(ids, ev.ID)
					if len(ev.Data) > 0 {
						got = append(got, string(ev.Data))
					}
				}
			}
			read()
			if len(got) != 1 || !strings.Contains(got[0], `{"n":1}`) {
				t.Fatalf("%q: %q with ids %q", last, got, ids)
			}
			got, header = nil, []string{"Last-Event-ID", ids[0]}
			read()
			if len(got) != 1 || !strings.Contains(got[0], `{"n":1}`) {
				t.Errorf("%q: a second time with %q: %q", last, ids[0], got)
			}
			synctest.Wait()
		})
	}
}

// TestCallStreamOfBefore: an event id of a call before a restart leads to no other call. If it names its request, that
// is answered.
func TestCallStreamOfBefore(t *testing.T) {
	h := serverOf(map[string]toolFunc{"slow": func(context.Context, *mcp.Request) (json.RawMessage, error) {
		time.Sleep(3 * time.Second)
		return json.RawMessage(`{"content":[],"rows":1}`), nil
	}})
	anotherStart(t, h, func(t *testing.T, a *agent) {
		done := make(chan string, 1)
		go func() { _, body := a.ask(callOf(7, "slow")); done <- body }()
		time.Sleep(2 * time.Second)
		for _, last := range []string{"c1_9", "c1.ABCDEFGH_0", "gone_1", "c1-x_1", "c1-01_1", "c-7_1"} {
			resp := a.send(t.Context(), "GET", "", "Last-Event-ID", last)
			resp.Body.Close()
			if resp.StatusCode != 400 {
				t.Errorf("%s: %d, want 400", last, resp.StatusCode)
			}
		}
		for last, request := range map[string]string{"c1-8_9": "8", "c1-0.ABCDEFGH_0": "0", "c1-7_2": "7"} { // of before, all of them
			resp := a.send(t.Context(), "GET", "", "Last-Event-ID", last)
			ev, err := events(resp).Next()
			resp.Body.Close()
			if err != nil || string(rawjson.Get(ev.Data, "id")) != request || rawjson.Text(rawjson.GetPath(ev.Data, "error", "data", "kind")) != "node_gone" {
				t.Errorf("%s: %s %v, want an answer to the request %s", last, ev.Data, err, request)
			}
		}
		if body := <-done; !strings.Contains(body, `"rows":1`) {
			t.Errorf("the call has %q", body)
		}
		synctest.Wait()
	})
}

// endedMeanwhile is Docs in which a session is ended right after the first question for it.
type endedMeanwhile struct {
	store.Docs
	asked atomic.Bool
	end   func()
}

func (d *endedMeanwhile) Get(ctx context.Context, key string) (store.Doc, error) {
	doc, err := d.Docs.Get(ctx, key)
	if !d.asked.Swap(true) {
		d.end()
	}
	return doc, err
}

// TestEndedWhileItIsMadeAnew: a session that another request ends while it is made anew does not live
// on.
func TestEndedWhileItIsMadeAnew(t *testing.T) {
	memory := store.NewMemory(store.MemoryOptions{})
	h := serverOf(map[string]toolFunc{"seen": seen})
	var id string
	inBubble(t, lasting(t, memory, h), func(t *testing.T, a *agent) {
		a.initialize(mcp.V20251125)
		id = a.session
	})
	ended := 0
	docs := &endedMeanwhile{Docs: memory}
	inBubble(t, lasting(t, docs, h), func(t *testing.T, a *agent) {
		a.session, a.version = id, mcp.V20251125
		docs.end = func() {
			resp := a.send(t.Context(), "DELETE", "")
			if ended++; resp.StatusCode != 204 {
				t.Errorf("DELETE: %s", resp.Status)
			}
		}
		for range 2 {
			if status, body := a.ask(callOf(1, "seen")); status != 404 || ended != 1 {
				t.Errorf("%d %s, ended %d times", status, body, ended)
			}
		}
	})
}
