package listings

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/policy"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
	"github.com/weir-mcp/weir/internal/upstream"
)

// TestLateFirstDefinitions: what a server listed while the store was away counts as the first, and not what it lists when
// the store is there again.
func TestLateFirstDefinitions(t *testing.T) {
	t.Parallel()
	docs := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{})}
	manager := upstream.New(upstream.Options{})
	defer func() { _ = manager.Close(t.Context()) }()
	k := &Listings{firsts: map[string]bool{}, needs: Needs{
		Log: slog.New(slog.DiscardHandler), Config: func() *config.Config { return &config.Config{} }, Docs: docs, Servers: func() *upstream.Manager { return manager },
		Restore: metatool.NewState().Restore, Conceal: policy.NewSecrets(&config.Config{}, nil).Listing, Limits: func(*config.Config) catalog.Limits { return catalog.Limits{} },
	}}
	n := newListingStore(k)
	tell := func(about string) {
		tool := json.RawMessage(fmt.Sprintf(`{"name":"count","description":%q,"inputSchema":{"type":"object"}}`, about))
		n.settle(primitive.Listing{Upstream: "s", Namespace: "s", Tools: []json.RawMessage{tool}})
	}
	docs.Cut(true)
	tell("sheep")
	docs.Cut(false)
	tell("wolves")
	first, err := n.first(t.Context(), "s")
	if err != nil || first == nil || len(first.Tools) != 1 {
		t.Fatalf("%+v, %v", first, err)
	}
	var tool struct{ Description string }
	if err := json.Unmarshal(first.Tools[0], &tool); err != nil || tool.Description != "sheep" || len(n.late) > 0 {
		t.Errorf("the first definition is %q, %v; %d are late", tool.Description, err, len(n.late))
	}
}

// TestOddListings: a server that lists something else to each node is not listed for ever, and one whose definitions
// change now and then is listed at once.
func TestOddListings(t *testing.T) {
	t.Parallel()
	m := &nodeListing{server: "s", hash: "mine"}
	n := &listingStore{mine: map[string]*nodeListing{"l.s": m}, there: map[string]string{"l.s": "another"}}
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now, lists := began, 0
	for now.Sub(began) < 24*time.Hour {
		if m.due.IsZero() {
			m.due = m.next(now) // the other node has answered with another listing
		}
		now = m.due
		todo, _ := n.take(now)
		lists += len(todo)
	}
	if lists < 20 || lists > 170 {
		t.Errorf("%d lists in a day", lists)
	}
	for range 3 {
		now = now.Add(time.Hour)
		if next := m.next(now); next != now {
			t.Errorf("after a quiet hour, the next listing waits for %v", next.Sub(now))
		}
		m.due = now
		if todo, _ := n.take(now); len(todo) != 1 || m.pause != relistPause {
			t.Errorf("%v, then a pause of %v", todo, m.pause)
		}
	}
	m.due = now.Add(time.Second)
	n.there["l.s"] = m.hash
	if todo, _ := n.take(now.Add(time.Minute)); len(todo) != 0 || !m.due.IsZero() {
		t.Errorf("what all nodes list is listed again: %v", todo)
	}
}
