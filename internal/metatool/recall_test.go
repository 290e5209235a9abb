package metatool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
	"github.com/weir-mcp/weir/mcp"
)

// TestRecall: what a principal was shown, and its calls, are there after a restart, a second late at
// most; sessions at several endpoints share one document.
func TestRecall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := store.NewMemory(store.MemoryOptions{})
		c, _ := catalog.New(catalog.Limits{}).With(primitive.Listing{Upstream: "a", Namespace: "a"})
		join := func() (*recalls, *sessionState, *sessionState) {
			m := &recalls{docs: docs}
			t.Cleanup(m.close)
			ledger := &dispatch.Ledger{}
			var all []*sessionState
			for range 2 {
				s := mcp.NewSession("", "ann")
				st := newSessionState(s)
				st.ledger = ledger
				m.join(&mcp.Request{Version: mcp.V20260728, Session: s}, st)
				all = append(all, st)
			}
			return m, all[0], all[1]
		}
		_, one, other := join()
		one.mu.Lock()
		one.offerLocked("a:x")
		one.mu.Unlock()
		other.mu.Lock()
		other.offerLocked("a:y")
		other.mu.Unlock()
		first := one.arrange(c, []catalog.Card{{ID: "a:x", Kind: primitive.KindTool, Description: "as it was"}}, true)
		one.ledger.Resume(3, marking(other))
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		// The process is killed: nothing more is written.
		_, one, other = join()
		for _, st := range []*sessionState{one, other} {
			if ids := st.offeredIDs(c); len(ids) != 2 || !slices.Contains(ids, "a:x") || !slices.Contains(ids, "a:y") {
				t.Errorf("offered: %v", ids)
			}
		}
		if n := one.ledger.Calls(); n != 3 {
			t.Errorf("%d calls, want 3", n)
		}
		again := one.arrange(c, []catalog.Card{{ID: "a:b", Kind: primitive.KindTool}, {ID: "a:x", Kind: primitive.KindTool, Description: "another query"}}, false)
		ids := []string{}
		for _, card := range again.cards {
			ids = append(ids, card.ID)
		}
		if got := strings.Join(ids, " "); got != "a:x "+cacheBreakpointID+" a:b" || again.cards[0].Description != first.cards[0].Description || !again.scored[0] {
			t.Errorf("after a restart: %s, %+v", got, again.cards)
		}
	})
}

// TestRecallsEnd: nothing stays in memory of sessions that have ended, whether the store keeps it, has it
// already, or does not answer.
func TestRecallsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{})}
		m := &recalls{docs: docs}
		t.Cleanup(m.close)
		use := func(principal string) *mcp.Session {
			s := mcp.NewSession("", principal)
			st := newSessionState(s)
			m.join(&mcp.Request{Version: mcp.V20260728, Session: s}, st)
			st.mu.Lock()
			st.offerLocked("a:x")
			st.mu.Unlock()
			m.mark(st)
			return s
		}
		left := func() int {
			m.mu.Lock()
			defer m.mu.Unlock()
			return len(m.of) + len(m.dirty)
		}
		for range 2 { // the second time, the store has it already
			use("ann").Close()
			time.Sleep(2 * time.Second)
			if n := left(); n > 0 {
				t.Errorf("%d documents stay", n)
			}
		}
		docs.Cut(true)
		for n := range 2 * maxRecallsDirty {
			use(fmt.Sprint("p", n)).Close()
		}
		if n := left(); n > 2*maxRecallsDirty+2 {
			t.Errorf("%d documents wait for a store that does not answer", n)
		}
		time.Sleep(time.Minute)
		docs.Cut(false)
		time.Sleep(time.Minute)
		if n := left(); n > 0 {
			t.Errorf("%d documents stay after a while without the store", n)
		}
	})
}

// TestRestore: definitions are compared with the first ones of an earlier process. The first listing of
// this one is no change by itself.
func TestRestore(t *testing.T) {
	of := func(description string) *catalog.Catalog {
		c, _ := catalog.New(catalog.Limits{}).With(primitive.Listing{Upstream: "a", Namespace: "a", Tools: []json.RawMessage{
			json.RawMessage(`{"name":"x","description":"` + description + `","inputSchema":{"type":"object"}}`),
		}})
		return c
	}
	s := NewState()
	defer s.Close(context.Background())
	s.Restore(map[string]*catalog.Catalog{"a": of("first")})
	if n := len(s.Changes()); n != 0 {
		t.Errorf("%d changes before a listing", n)
	}
	second := of("second")
	if fresh := s.Refresh(second); len(fresh) != 0 {
		t.Errorf("the first listing: %v", fresh)
	}
	if all := s.Changes(); len(all) != 1 || all[0].Change != catalog.EntryChanged {
		t.Errorf("since the first process: %v", all)
	}
	if fresh := s.Refresh(second.Without("a")); len(fresh) != 0 {
		t.Errorf("an absence: %v", fresh)
	}
}

// TestRecallOfSessions: a session of the legacy era that is new asks the store nothing, and one that
// ends with the process keeps nothing.
func TestRecallOfSessions(t *testing.T) {
	docs := store.NewMemory(store.MemoryOptions{})
	m := &recalls{docs: docs}
	defer m.close()
	s := mcp.NewSession("id", "ann")
	st := newSessionState(s)
	m.join(&mcp.Request{Version: mcp.V20251125, Session: s}, st)
	if st.recall != nil {
		t.Error("a session without a kept id has a recall")
	}
	st.remember()
}

// marking returns what a ledger calls for a session.
func marking(st *sessionState) func() { return func() { st.remember() } }
