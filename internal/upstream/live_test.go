package upstream

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog"
)

func listingOf(upstream string, tools ...string) catalog.Listing {
	l := catalog.Listing{Upstream: upstream, Namespace: upstream}
	for _, name := range tools {
		l.Tools = append(l.Tools, json.RawMessage(`{"name":"`+name+`","description":"x","inputSchema":{"type":"object"}}`))
	}
	return l
}

func TestLive(t *testing.T) {
	var prepared, changed atomic.Int64
	var told []string // no lock: one call at a time
	live := NewLive(catalog.New(catalog.Limits{}), LiveOptions[*catalog.Catalog]{
		Prepare: func(*catalog.Catalog) { prepared.Add(1) }, Changed: func(_ *catalog.Catalog, upstreams []string) {
			changed.Add(1)
			told = append(told, upstreams...)
		},
	})
	live.Update(listingOf("a", "one", "two", "two"))
	before := live.Snapshot()
	live.Update(listingOf("b", "three"))
	live.Update(listingOf("a", "one"))
	if got := live.Snapshot().Len(); got != 2 || before.Len() != 2 || len(before.Of("b")) != 0 {
		t.Errorf("%d entries now, %d before", got, before.Len())
	}
	reports := live.Reports()
	if len(reports) != 2 || reports[0].Upstream != "a" || reports[0].Tools != 1 || reports[1].Upstream != "b" {
		t.Errorf("%+v", reports)
	}
	live.Remove("a")
	live.Remove("never there")
	if _, ok := live.Report("a"); ok || live.Snapshot().Len() != 1 {
		t.Error("a is still there")
	}
	if n := changed.Load(); n != 5 || prepared.Load() != n {
		t.Errorf("%d changes, %d prepared", n, prepared.Load())
	}
	if got := strings.Join(told, ", "); got != "a, b, a, a, never there" {
		t.Errorf("the changes were of %s", got)
	}
}

// What is wrong with a listing is told once, not with each refresh, and again when it
// has been away.
func TestLiveTellsOnce(t *testing.T) {
	var log strings.Builder
	live := NewLive(catalog.New(catalog.Limits{}), LiveOptions[*catalog.Catalog]{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	list := func(upstream string, names ...string) {
		l := catalog.Listing{Upstream: upstream, Namespace: "x"}
		for _, name := range names {
			l.Tools = append(l.Tools, json.RawMessage(`{"name":"`+name+`","description":"d","inputSchema":{},"_meta":{"version":"1"}}`))
		}
		live.Update(l)
	}
	told := func(want int) {
		t.Helper()
		if n := strings.Count(log.String(), "level=WARN"); n != want {
			t.Errorf("%d warnings, want %d:\n%s", n, want, log.String())
		}
	}
	list("one", "a b")
	told(0)
	list("two", "a_b", "c")
	told(1)
	for range 3 {
		list("one", "a b")
		list("two", "a_b", "c")
	}
	told(1)
	if text := log.String(); !strings.Contains(text, "x:a_b@1") || !strings.Contains(text, "finding=id_collision") {
		t.Error(text)
	}
	list("three", "d", "d")
	told(2)
	list("three", "d")
	list("three", "d", "d")
	told(3)
}

// Many upstreams at once: each is in the snapshot when its Update returns, and a
// reader always sees whole listings.
func TestLiveConcurrently(t *testing.T) {
	live := NewLive(catalog.New(catalog.Limits{}), LiveOptions[*catalog.Catalog]{})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			for i := range 8 {
				if n := len(live.Snapshot().Of(fmt.Sprintf("u%d", i))); n != 0 && n != 3 {
					t.Errorf("half a listing: %d", n)
					return
				}
			}
		}
	})
	for i := range 8 {
		wg.Go(func() {
			name := fmt.Sprintf("u%d", i)
			for round := range 20 {
				live.Update(listingOf(name, fmt.Sprint("a", round), "b", "c"))
				if n := len(live.Snapshot().Of(name)); n != 3 {
					t.Errorf("%s has %d entries after its update", name, n)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	readers.Wait()
	if n := live.Snapshot().Len(); n != 24 {
		t.Errorf("%d entries", n)
	}
}
