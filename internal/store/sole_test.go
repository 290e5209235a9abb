package store_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

// TestSole: a write whose outcome is not known is found, repeated or reported, and never counts twice.
func TestSole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var next []storetest.Fault
		docs := store.NewMemory(store.MemoryOptions{})
		f := &storetest.Faults{Docs: docs, Wait: time.Second, Next: func() storetest.Fault {
			if len(next) == 0 {
				return storetest.None
			}
			fault := next[0]
			next = next[1:]
			return fault
		}}
		s := store.NewSole(f, "k", 0)
		for i, faults := range [][]storetest.Fault{
			{}, {storetest.ApplyThenFail}, {storetest.Drop}, {storetest.ConflictFalsely}, {storetest.ApplyThenFail, storetest.Drop, storetest.Drop},
		} {
			next = faults
			value := string('a' + rune(i))
			if err := s.Write(t.Context(), []byte(value), 0); err != nil {
				t.Errorf("write %d: %v", i, err)
			}
			if doc, err := docs.Get(t.Context(), "k"); err != nil || string(doc.Value) != value || !s.There() {
				t.Errorf("write %d left %q, %v", i, doc.Value, err)
			}
		}
		f.Cut(true)
		if err := s.Write(t.Context(), []byte("z"), 0); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("a write without the store: %v", err)
		}
		f.Cut(false)
		next = []storetest.Fault{storetest.ApplyThenFail}
		if err := s.Remove(t.Context()); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("a removal that was made and not confirmed: %v", err)
		}
		if err := s.Remove(t.Context()); err != nil {
			t.Errorf("a removal of what is gone: %v", err)
		}
		if doc, err := docs.Get(t.Context(), "k"); err != nil || doc.Rev != 0 {
			t.Errorf("left %+v, %v", doc, err)
		}
	})
}
