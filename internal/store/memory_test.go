package store_test

import (
	"errors"
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
