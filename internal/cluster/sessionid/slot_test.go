package sessionid

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/mcp"
)

// size returns the documents of all sessions and their bytes.
func size(t *testing.T, d store.Docs) (documents, bytes int) {
	t.Helper()
	for doc, err := range d.List(t.Context(), "s.") {
		if err != nil {
			t.Fatal(err)
		}
		documents++
		bytes += len(doc.Value)
	}
	return documents, bytes
}

// inOneSlot returns a function that makes ids of sessions of ann which share a slot.
func inOneSlot() func() string {
	n := 0
	return func() string {
		for {
			n++
			if own := fmt.Sprint("session-", n); strings.HasSuffix(placeOf("ann", own, 0).key, ".a") {
				return own
			}
		}
	}
}

// of returns a session with an id, born now.
func of(own, principal string) *mcp.Session {
	s := mcp.NewSession(own, principal)
	s.SetVersion(mcp.V20250618)
	return s
}

// TestManyEnds: a principal that ends sessions without pause has a bounded number of documents, none of
// its ended sessions works again, and sessions of other principals and younger ones stay.
func TestManyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := store.NewMemory(store.MemoryOptions{})
		e := ids(t, docs).At("/mcp")
		next := inOneSlot()
		stays := e.Name(of(next(), "bob"))
		var ended []string
		for n := range 2 * slotRecords {
			if n%4 == 0 {
				time.Sleep(time.Second)
			}
			id := e.Name(of(next(), "ann"))
			if err := e.End(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			ended = append(ended, id)
		}
		if n, bytes := size(t, docs); n > 1 || bytes > slotRecords*80 {
			t.Errorf("%d documents of %d bytes", n, bytes)
		}
		time.Sleep(time.Second)
		young := e.Name(of(next(), "ann"))
		later := ids(t, docs).At("/mcp")
		for n, id := range ended {
			if s, err := later.Adopt(t.Context(), id, "ann"); s != nil || err != nil {
				t.Fatalf("the ended session %d is adopted: %v", n, err)
			}
		}
		for id, principal := range map[string]string{stays: "bob", young: "ann"} {
			if s, err := later.Adopt(t.Context(), id, principal); s == nil || err != nil {
				t.Errorf("a session of %s is not adopted: %v", principal, err)
			}
		}
		time.Sleep(life + time.Hour)
		if n, _ := size(t, docs); n != 0 {
			t.Errorf("%d documents outlive their sessions", n)
		}
	})
}

// TestManySubscriptions: sessions that subscribe and never end are bounded, too. The youngest keep what
// they have, and the oldest are not adopted without it.
func TestManySubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := store.NewMemory(store.MemoryOptions{})
		next := inOneSlot()
		at := func() place { return placeOf("ann", next(), time.Now().Unix()) }
		i := ids(t, docs)
		long := strings.Repeat("x", 8000)
		const sessions = 24
		var places []place
		for range sessions {
			time.Sleep(time.Second)
			p := at()
			places = append(places, p)
			err := i.change(t.Context(), p, func(r *record) bool { r.Resources = append(r.Resources, long); return true })
			if err != nil {
				t.Fatal(err)
			}
		}
		if n, bytes := size(t, docs); n != 1 || bytes > slotBytes {
			t.Errorf("%d documents of %d bytes", n, bytes)
		}
		for n, want := range map[int]bool{0: false, sessions / 2: false, sessions - 1: true, sessions - 6: true} {
			r, err := i.get(t.Context(), places[n])
			if err != nil || r.Ended == want || want != slices.Contains(r.Resources, long) {
				t.Errorf("session %d: ended %v, %d subscriptions, %v", n, r.Ended, len(r.Resources), err)
			}
		}
		// One session may have more than a slot of several takes.
		p := at()
		for range 12 {
			if err := i.change(t.Context(), p, func(r *record) bool { r.Resources = append(r.Resources, long); return true }); err != nil {
				t.Fatal(err)
			}
		}
		if r, err := i.get(t.Context(), p); err != nil || len(r.Resources) != 12 {
			t.Errorf("%d subscriptions, %v", len(r.Resources), err)
		}
	})
}

// TestEndsAtOnce: sessions of one slot that end at the same moment all end.
func TestEndsAtOnce(t *testing.T) {
	i := ids(t, store.NewMemory(store.MemoryOptions{}))
	next := inOneSlot()
	var places []place
	for range 40 {
		places = append(places, placeOf("ann", next(), time.Now().Unix()))
	}
	var wg sync.WaitGroup
	for _, p := range places {
		wg.Go(func() {
			if err := i.change(t.Context(), p, func(r *record) bool { r.Ended = true; return true }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, p := range places {
		if r, err := i.get(t.Context(), p); err != nil || !r.Ended {
			t.Error(r, err)
		}
	}
}
