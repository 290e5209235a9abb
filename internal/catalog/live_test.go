package catalog

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

func TestLive(t *testing.T) {
	var prepared, changed atomic.Int64
	var told []string // no lock: one call at a time
	live := NewLive(New(Limits{}), LiveOptions[*Catalog]{
		Prepare: func(*Catalog) { prepared.Add(1) }, Changed: func(_ *Catalog, upstreams []string) {
			changed.Add(1)
			told = append(told, upstreams...)
		},
	})
	live.Update(listingOf("a", []string{"one", "two", "two"}))
	before := live.Snapshot()
	live.Update(listingOf("b", []string{"three"}))
	live.Update(listingOf("a", []string{"one"}))
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
	live := NewLive(New(Limits{}), LiveOptions[*Catalog]{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	list := func(upstream string, names ...string) {
		l := primitive.Listing{Upstream: upstream, Namespace: "x"}
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
	live := NewLive(New(Limits{}), LiveOptions[*Catalog]{})
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
				live.Update(listingOf(name, []string{fmt.Sprint("a", round), "b", "c"}))
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
