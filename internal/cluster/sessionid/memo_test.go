package sessionid

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
	"github.com/weir-mcp/weir/mcp"
)

// told is a Handler that keeps what it was asked.
type told struct {
	mu  sync.Mutex // guards all
	all []string
	err error
}

func (h *told) Serve(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, r.Method+" "+string(r.Params))
	if r.Method == "logging/setLevel" && h.err == nil {
		r.Session.SetLogLevel(rawjson.Text(rawjson.Get(r.Params, "level")))
	}
	return json.RawMessage("{}"), h.err
}

func (h *told) since() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := strings.Join(h.all, "\n")
	h.all = nil
	return all
}

// kept is a process with a session of its own, or with one that it adopts.
type kept struct {
	t *testing.T
	*Keeper
	next *told
	s    *mcp.Session
	id   string
}

func newKept(t *testing.T, d store.Docs, s *mcp.Session) *kept {
	t.Helper()
	next := &told{}
	k := &kept{t, ids(t, d).At("/mcp").Around(next, nil), next, s, ""}
	k.do("initialize", `{}`, true)
	k.id = k.Name(s)
	k.next.since()
	return k
}

func (k *kept) do(method, params string, ok bool) {
	k.t.Helper()
	_, err := k.Serve(k.t.Context(), &mcp.Request{ID: "1", Method: method, Params: json.RawMessage(params), Version: mcp.V20250618, Session: k.s, Peer: mcp.NoPeer})
	if (err == nil) != ok {
		k.t.Errorf("%s %s: %v", method, params, err)
	}
}

// again returns the next process with the session, nil if it is not adopted, and what its Handler was
// asked for it.
func (k *kept) again(d store.Docs) (*kept, string) {
	k.t.Helper()
	next := &told{}
	n := &kept{k.t, ids(k.t, d).At("/mcp").Around(next, nil), next, nil, k.id}
	var err error
	if n.s, err = n.Adopt(k.t.Context(), k.id, "ann"); err != nil || n.s == nil {
		return nil, ""
	}
	n.Restore(k.t.Context(), n.s)
	return n, next.since()
}

// TestRestore: an adopted session has its log level, its subscriptions and its age, each time. What was
// refused is not made again.
func TestRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := store.NewMemory(store.MemoryOptions{})
		k := newKept(t, docs, session("{}"))
		born := time.Now()
		for doc, err := range docs.List(t.Context(), "s.") {
			t.Errorf("a session costs a document: %v, %v", doc, err)
		}
		k.do("logging/setLevel", `{"level":"debug"}`, true)
		k.do("logging/setLevel", `{"level":"error"}`, true)
		for _, uri := range []string{"x:a", "x:b", "x:a", "x:c"} {
			k.do("resources/subscribe", `{"uri":"`+uri+`"}`, true)
		}
		k.do("resources/unsubscribe", `{"uri":"x:b"}`, true)
		k.next.err = errors.New("refused")
		k.do("resources/subscribe", `{"uri":"x:d"}`, false)
		time.Sleep(time.Hour)
		const want = "logging/setLevel {\"level\":\"error\"}\nresources/subscribe {\"uri\":\"x:a\"}\nresources/subscribe {\"uri\":\"x:c\"}"
		next, asked := k.again(docs)
		if asked != want || next.s.LogLevel() != "error" {
			t.Errorf("asked\n%s\nwant\n%s", asked, want)
		}
		if at, ok := Born(next.s); !ok || at.Unix() != born.Unix() {
			t.Errorf("born %v, was %v", at, born)
		}
		if _, asked = next.again(docs); asked != want {
			t.Errorf("the second time asked\n%s", asked)
		}
		if err := next.End(t.Context(), k.id); err != nil {
			t.Error(err)
		}
		next.do("logging/setLevel", `{"level":"info"}`, true) // on its way when the session ended
		if n, _ := k.again(docs); n != nil {
			t.Error("a session that was ended is adopted")
		}
	})
}

// TestLargeRecord: the record of one session is bounded. A subscription over the bound is an error, and
// the log is told once; what is kept stays.
func TestLargeRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := store.NewMemory(store.MemoryOptions{})
		k := newKept(t, docs, session("{}"))
		var log bytes.Buffer
		k.ids.log = slog.New(slog.NewTextHandler(&log, nil))
		long := strings.Repeat("x", 8<<10)
		n := 0
		for {
			uri := fmt.Sprintf("%d:%s", n, long)
			if _, err := k.Serve(t.Context(), &mcp.Request{ID: "1", Method: "resources/subscribe", Params: json.RawMessage(`{"uri":"` + uri + `"}`), Version: mcp.V20250618, Session: k.s, Peer: mcp.NoPeer}); err != nil {
				if kind, _ := mcp.KindOf(err); kind != mcp.KindOverloaded || !strings.Contains(err.Error(), "unsubscribe") {
					t.Errorf("over the bound: %v", err)
				}
				break
			}
			if n++; n > 100 {
				t.Fatal("there is no bound")
			}
		}
		if _, bytes := size(t, docs); n != 15 || bytes > recordBytes+1024 {
			t.Errorf("%d subscriptions in %d bytes", n, bytes)
		}
		k.do("resources/subscribe", `{"uri":"another:`+long+`"}`, false)
		if lines := strings.Count(log.String(), "\n"); lines != 1 {
			t.Errorf("the log has %d lines: %s", lines, &log)
		}
		k.do("resources/unsubscribe", `{"uri":"0:`+long+`"}`, true)
		k.do("resources/subscribe", `{"uri":"another:`+long+`"}`, true)
		if _, asked := k.again(docs); strings.Count(asked, "subscribe") != n {
			t.Errorf("%d are made again, want %d", strings.Count(asked, "subscribe"), n)
		}
	})
}

// TestRestoreFaults: a change is acknowledged when it is kept. Sessions that cannot be adopted, and
// requests without a session, keep nothing.
func TestRestoreFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var next []storetest.Fault
		d := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{}), Next: func() storetest.Fault {
			if len(next) == 0 {
				return storetest.None
			}
			fault := next[0]
			next = next[1:]
			return fault
		}}
		k := newKept(t, d, session("{}"))
		k.do("resources/subscribe", `{"uri":"x:a"}`, true)
		for _, fault := range []storetest.Fault{storetest.ApplyThenFail, storetest.Drop, storetest.ConflictFalsely} {
			next = []storetest.Fault{storetest.None, fault} // Get, Set
			uri := "x:" + string('b'+rune(fault))
			k.do("resources/subscribe", `{"uri":"`+uri+`"}`, true)
			if _, asked := k.again(d); strings.Count(asked, uri) != 1 {
				t.Errorf("fault %d: %s", fault, asked)
			}
		}
		d.Cut(true)
		k.next.since()
		k.do("resources/subscribe", `{"uri":"x:z"}`, false)
		if asked := k.next.since(); !strings.HasSuffix(asked, "resources/unsubscribe {\"uri\":\"x:z\"}") {
			t.Errorf("a subscription that is answered with an error stays: %s", asked)
		}
		k.do("resources/subscribe", `{"uri":"x:a"}`, true) // it is kept already
		k.do("ping", `{}`, true)
		k.next.since()
		k.do("resources/unsubscribe", `{"uri":"x:a"}`, false)
		if asked := k.next.since(); asked != "" {
			t.Errorf("a subscription that stays in the store ends: %s", asked)
		}
		d.Cut(false)
		k.do("resources/unsubscribe", `{"uri":"x:a"}`, true)
		if _, asked := k.again(d); strings.Contains(asked, "x:a") || strings.Contains(asked, "x:z") {
			t.Errorf("the next process makes %s", asked)
		}
		long := newKept(t, d, mcp.NewSession("", "ann"))
		long.s.SetClient(nil, []byte(`{"x":"`+strings.Repeat("long", 300)+`"}`))
		long.do("logging/setLevel", `{"level":"error"}`, true)
		k.s = mcp.NewSession("", "ann") // of one request
		k.do("logging/setLevel", `{"level":"error"}`, true)
		var keys []string
		for doc, err := range d.List(t.Context(), "s.") {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, doc.Key)
		}
		if len(keys) != 1 {
			t.Errorf("documents %q", keys)
		}
		if r, err := ids(t, d).get(t.Context(), placeOf("ann", long.s.ID(), time.Now().Unix())); err != nil || r.Level != "" {
			t.Errorf("a session that cannot be adopted has the record %+v, %v", r, err)
		}
	})
}

// TestLargeRecordAmongOthers: a session with many subscriptions neither loses them nor ends other
// sessions of its principal, which share its document.
func TestLargeRecordAmongOthers(t *testing.T) {
	ids := New(nil, store.NewMemory(store.MemoryOptions{}), nil)
	began := time.Now().Unix()
	at := func(n int) place { return place{"s.one.a", fmt.Sprint(n), began + int64(n)} }
	subscribe := func(n, bytes int) {
		t.Helper()
		uri := strings.Repeat("x", bytes)
		if err := ids.change(t.Context(), at(n), func(r *record) bool { r.Resources = append(r.Resources, uri); return true }); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 10 {
		subscribe(n, 10)
	}
	subscribe(5, slotBytes+1)
	subscribe(7, 10)
	for n := range 10 {
		if r, err := ids.get(t.Context(), at(n)); r.Ended || len(r.Resources) == 0 || err != nil {
			t.Errorf("session %d: ended %t, %d subscriptions, %v", n, r.Ended, len(r.Resources), err)
		}
	}
	subscribe(9, slotBytes) // two large ones have no room
	if r, err := ids.get(t.Context(), at(9)); r.Ended || len(r.Resources) != 2 || err != nil {
		t.Errorf("the newest session: ended %t, %d subscriptions, %v", r.Ended, len(r.Resources), err)
	}
	if doc, err := ids.docs.Get(t.Context(), at(0).key); err != nil || len(doc.Value) > slotBytes+recordBytes {
		t.Errorf("%d bytes, %v", len(doc.Value), err)
	}
}
