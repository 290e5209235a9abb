package store_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/storetest"
)

// TestMemory: the store in memory keeps the contract, also behind faults that do nothing.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { storetest.Contract(t, &storetest.Faults{Docs: store.NewMemory()}) })
}

// TestMemoryFollow: changes reach followers, also behind faults that do nothing.
func TestMemoryFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := store.NewMemory()
		storetest.Follow(t, docs, &storetest.Faults{Docs: docs})
	})
}

// TestChange: changes count once, although writes fail, are lost and are applied without an answer.
func TestChange(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			f := &storetest.Faults{Docs: store.NewMemory(), Wait: 100 * time.Millisecond, Next: func() storetest.Fault {
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

// TestMemoryBus: messages in one process keep the contract.
func TestMemoryBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := store.NewMemoryBus()
		storetest.Bus(t, bus, bus)
	})
}

// TestMemoryBlobs: blobs in memory keep the contract.
func TestMemoryBlobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blobs := store.NewMemoryBlobs()
		storetest.Blobs(t, blobs, blobs, 1<<20)
		storetest.BlobBound(t, blobs)
	})
}

// TestFaults: each fault does what it says.
func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var next storetest.Fault
		f := &storetest.Faults{Docs: store.NewMemory(), Next: func() storetest.Fault { return next }, Wait: time.Minute}
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
