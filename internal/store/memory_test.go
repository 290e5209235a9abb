package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

// TestMemory: the store in memory keeps the contract, also behind faults that do nothing.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storetest.Contract(t, &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{})})
	})
}

// TestMemoryFollow: changes reach followers, also behind faults that do nothing.
func TestMemoryFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := store.NewMemory(store.MemoryOptions{})
		storetest.Follow(t, docs, &storetest.Faults{Docs: docs})
	})
}

// TestChange: changes count once, although writes fail, are lost and are applied without an answer.
func TestChange(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			f := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{}), Wait: 100 * time.Millisecond, Next: func() storetest.Fault {
				if random.IntN(2) == 0 {
					return storetest.None
				}
				return storetest.Fault(random.IntN(int(storetest.ConflictFalsely) + 1))
			}}
			storetest.Change(t, f)
			f.Cut(true)
			began := time.Now()
			_, err := store.Change(t.Context(), f, "k", func(store.Doc) ([]byte, time.Duration, error) { return nil, 0, store.ErrKeep })
			if took := time.Since(began); !errors.Is(err, store.ErrUnavailable) || took < 11*time.Second || took > 13*time.Second {
				t.Errorf("without the store: %v after %v", err, took)
			}
		})
	}
}

// TestMemoryBus: messages in one process keep the contract, also behind faults that do nothing.
func TestMemoryBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := store.NewMemoryBus()
		storetest.Bus(t, bus, &storetest.BusFaults{Bus: bus})
	})
}

// TestMemoryBlobs: blobs in memory keep the contract, also behind faults that do nothing.
func TestMemoryBlobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blobs := store.NewMemoryBlobs()
		storetest.Blobs(t, &storetest.BlobFaults{Blobs: blobs}, blobs, 1<<20)
		storetest.BlobBound(t, blobs)
	})
}

// TestFaults: each fault does what it says.
func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var next storetest.Fault
		f := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{}), Next: func() storetest.Fault { return next }, Wait: time.Minute}
		set := func(fault storetest.Fault, want error) {
			t.Helper()
			next = fault
			if _, err := f.Set(t.Context(), "k."+string('a'+rune(fault)), nil, 0, 0); !errors.Is(err, want) {
				t.Errorf("fault %d: %v, want %v", fault, err, want)
			}
		}
		set(storetest.None, nil)
		set(storetest.Drop, store.ErrUnavailable)
		set(storetest.ApplyThenFail, store.ErrUnavailable)
		set(storetest.ConflictFalsely, store.ErrConflict)
		began := time.Now()
		set(storetest.Delay, nil)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("the delay was %v", took)
		}
		next = storetest.None
		there := 0
		for _, err := range f.List(t.Context(), "k.") {
			if err != nil {
				t.Error(err)
			}
			there++
		}
		if there != 3 {
			t.Errorf("%d of the changes were done, want 3", there)
		}
		f.Cut(true)
		set(storetest.None, store.ErrUnavailable)
		if _, err := f.Get(t.Context(), "k.a"); !errors.Is(err, store.ErrUnavailable) {
			t.Error(err)
		}
	})
}

// TestBusAndBlobFaults: each fault does what it says.
func TestBusAndBlobFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := storetest.None
		next := func() storetest.Fault { return fault }
		bus := &storetest.BusFaults{Bus: store.NewMemoryBus(), Next: next, Wait: time.Second}
		asked := 0
		stop, err := bus.Listen("s", func(m store.Message) {
			asked++
			if m.Reply != nil {
				_ = m.Reply(nil, nil)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		blobs := &storetest.BlobFaults{Blobs: store.NewMemoryBlobs(), Next: next, Wait: time.Second}
		for _, c := range []struct {
			fault  storetest.Fault
			cut    bool
			failed bool
			took   time.Duration
			asked  int // the questions that were heard
			kept   bool
		}{
			{fault: storetest.None, asked: 1, kept: true},
			{fault: storetest.Delay, took: time.Second, asked: 1, kept: true},
			{fault: storetest.Drop, failed: true, took: 5 * time.Second},
			{fault: storetest.ApplyThenFail, failed: true, asked: 1, kept: true},
			{fault: storetest.None, cut: true, failed: true, kept: true},
		} {
			fault, asked = c.fault, 0
			bus.Cut(c.cut)
			began, got := time.Now(), make(chan error, 1)
			bus.Ask("s", nil, nil, 5*time.Second, func(_ store.Message, err error) { got <- err })
			err := <-got
			synctest.Wait()
			if (err != nil) != c.failed || time.Since(began) != c.took || asked != c.asked {
				t.Errorf("a question with %+v: %v after %v, heard %d times", c, err, time.Since(began), asked)
			}
			if c.cut {
				continue
			}
			err = blobs.Put(t.Context(), "b", strings.NewReader("text"), 0)
			fault = storetest.None
			_, missing := blobs.Open(t.Context(), "b")
			if (err != nil) != c.failed || (missing == nil) != c.kept {
				t.Errorf("a blob with %+v: %v, then %v", c, err, missing)
			}
			_ = blobs.Delete(t.Context(), "b")
		}
		stop()
	})
}

// TestMemoryKeepTogether: changes that come while others are kept are kept together. Reads do not wait for
// that, and see changes when they are kept.
func TestMemoryKeepTogether(t *testing.T) {
	enter, gate, failed := make(chan int), make(chan error), errors.New("the disk is full")
	m := store.NewMemory(store.MemoryOptions{MaxBytes: 1000, Keep: func(changes []store.Kept) error {
		enter <- len(changes)
		return <-gate
	}})
	var all sync.WaitGroup
	set := func(key string, size int, want error) {
		all.Go(func() {
			if _, err := m.Set(t.Context(), key, make([]byte, size), 0, 0); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", key, err, want)
			}
		})
	}
	set("a", 10, nil)
	if n := <-enter; n != 1 {
		t.Errorf("%d changes are kept first", n)
	}
	for i := range 10 {
		set(fmt.Sprint("b", i), 10, nil)
	}
	if doc, err := m.Get(t.Context(), "a"); err != nil || doc.Rev != 0 {
		t.Errorf("it is read before it is kept: %+v, %v", doc, err)
	}
	time.Sleep(50 * time.Millisecond) // all ten wait
	gate <- nil
	if n := <-enter; n != 10 {
		t.Errorf("%d changes are kept together", n)
	}
	set("b0", 10, store.ErrConflict)
	set("full", 900, store.ErrFull)
	gate <- nil
	all.Wait()
	for _, want := range []error{failed, nil} { // a change that failed takes no room
		set("c", 500, want)
		<-enter
		gate <- want
		all.Wait()
	}
}
