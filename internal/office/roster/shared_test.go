package roster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

// alone is a Node without others.
type alone struct{}

func (alone) Inc() string                                 { return "aaaaaa" }
func (alone) Fenced() <-chan struct{}                     { return nil }
func (alone) Gone(inc string) bool                        { return inc != "aaaaaa" }
func (alone) Watch(string) (<-chan struct{}, func())      { return nil, func() {} }
func (alone) Suspect(context.Context, string) (dead bool) { return false }

// counted counts the writes of a store, each of which takes a moment.
type counted struct {
	store.Docs
	writes atomic.Int64
}

func (c *counted) Set(ctx context.Context, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error) {
	c.writes.Add(1)
	time.Sleep(time.Millisecond)
	return c.Docs.Set(ctx, key, value, rev, ttl)
}

// TestOneWrite: changes of one office at the same time are one write.
func TestOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := &counted{Docs: store.NewMemory(store.MemoryOptions{})}
		s := NewShared(Options{Docs: docs, Bus: store.NewMemoryBus(), Node: alone{}, Name: "test"})
		defer s.Close()
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				_, _, err := s.Change(t.Context(), "o", func(o *Office) (bool, error) {
					_, err := o.Join(computer(fmt.Sprint("c", i), "aaaaaa", uint64(i)), Terms{Max: 1000})
					return err == nil, err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		_, o, err := s.Get(t.Context(), "o")
		if err != nil || len(o.Computers) != 200 {
			t.Fatalf("%v %v", o, err)
		}
		if n := docs.writes.Load(); n > 4 {
			t.Errorf("%d writes for 200 changes at once", n)
		}
	})
}

// TestUnknownOutcome: a write that was made although the store did not say so counts once, and the others of
// its batch get their own answers.
func TestUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var count atomic.Int64
		docs := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{}), Next: func() storetest.Fault {
			if count.Add(1)%3 == 2 {
				return storetest.ApplyThenFail
			}
			return storetest.None
		}}
		s := NewShared(Options{Docs: docs, Bus: store.NewMemoryBus(), Node: alone{}, Name: "test"})
		defer s.Close()
		for i := range 20 {
			m := computer(fmt.Sprint("c", i), "aaaaaa", uint64(i))
			_, o, err := s.Change(t.Context(), "o", func(o *Office) (bool, error) {
				before := o.Computers[m.Name]
				_, err := o.Join(m, Terms{Max: 1000})
				return o.Computers[m.Name] != before, err
			})
			if err != nil || len(o.Computers) != i+1 || !o.Computers[m.Name].Is(m) {
				t.Fatalf("%d: %v %v", i, o, err)
			}
		}
	})
}
