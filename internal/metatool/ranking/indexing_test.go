package ranking

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// largeSnapshot is a snapshot that takes until ready is closed.
type largeSnapshot struct {
	name     string
	small    bool
	ready    chan struct{}
	prepared *preparedNames
}

// preparedNames are the names of snapshots in the order in which Prepare was called.
type preparedNames struct {
	mu  sync.Mutex // guards all
	all []string
}

func (p *preparedNames) names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all)
}

func (s *largeSnapshot) Pending() bool { return !s.small }

func (s *largeSnapshot) Prepare() {
	s.prepared.mu.Lock()
	s.prepared.all = append(s.prepared.all, s.name)
	s.prepared.mu.Unlock()
	if !s.small {
		<-s.ready
	}
}

// Of many changes during the indexing of a large server, only the last one is indexed after it.
func TestIndexing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x indexing
		var done preparedNames
		ready := make(chan struct{})
		large := func(name string) *largeSnapshot { return &largeSnapshot{name: name, ready: ready, prepared: &done} }
		x.prepare(large("first"))
		synctest.Wait()
		for _, name := range []string{"second", "third", "fourth"} {
			x.prepare(large(name))
		}
		synctest.Wait()
		if got := done.names(); !slices.Equal(got, []string{"first"}) {
			t.Errorf("at once: %v", got)
		}
		close(ready)
		synctest.Wait()
		if got := done.names(); !slices.Equal(got, []string{"first", "fourth"}) {
			t.Errorf("in the end: %v", got)
		}
		x.prepare(&largeSnapshot{name: "small", small: true, prepared: &done})
		if got := done.names(); !slices.Equal(got, []string{"first", "fourth", "small"}) {
			t.Errorf("a small one is prepared by its caller: %v", got)
		}
		x.prepare(large("again"))
		x.close()
		x.prepare(large("too late"))
		synctest.Wait()
		if got := done.names(); slices.Contains(got, "too late") {
			t.Errorf("after the end: %v", got)
		}
	})
}

// A small snapshot takes the place of a large one that waits: that one is not current any more.
func TestIndexingOfReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x indexing
		var done preparedNames
		ready := make(chan struct{})
		x.prepare(&largeSnapshot{name: "first", ready: ready, prepared: &done})
		synctest.Wait()
		x.prepare(&largeSnapshot{name: "second", ready: ready, prepared: &done})
		x.prepare(&largeSnapshot{name: "third", small: true, prepared: &done})
		close(ready)
		x.close()
		if got := done.names(); !slices.Equal(got, []string{"first", "third"}) {
			t.Errorf("%v", got)
		}
	})
}

// Of small changes that come one after the other, the first is prepared by its caller and one in settle after it, the
// last one among them.
func TestIndexingOfManySmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x indexing
		var done preparedNames
		for i := range 1000 {
			x.prepare(&largeSnapshot{name: fmt.Sprint(i), small: true, prepared: &done})
			time.Sleep(time.Millisecond)
		}
		time.Sleep(settle)
		got := done.names()
		if len(got) < 10 || len(got) > 12 || got[0] != "0" || got[len(got)-1] != "999" {
			t.Errorf("prepared: %v", got)
		}
		x.prepare(&largeSnapshot{name: "later", small: true, prepared: &done})
		x.prepare(&largeSnapshot{name: "too late", small: true, prepared: &done})
		x.close()
		if got := done.names(); got[len(got)-1] == "too late" {
			t.Errorf("after the end: %v", got)
		}
	})
}
