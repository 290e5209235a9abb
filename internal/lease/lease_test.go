package lease

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

func TestMain(m *testing.M) { leak.Main(m) }

// world is a store, and a holder whose names are a1, a2 and so on.
type world struct {
	docs   *store.Memory
	faults *storetest.Faults
	events []string
	names  int
	next   func() storetest.Fault // of each request; nil for none
	log    bytes.Buffer           // read while the holder waits
}

func (w *world) hold() *Holder {
	w.docs = store.NewMemory(store.MemoryOptions{})
	w.faults = &storetest.Faults{Docs: w.docs, Next: w.next, Wait: time.Millisecond}
	return Hold(Options{
		Docs: w.faults, Prefix: "l.", Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
		Name:  func(context.Context) string { w.names++; return fmt.Sprint("a", w.names) },
		Value: func(name string) []byte { return []byte(name) },
		Held:  func() { w.events = append(w.events, "held") },
		Lost:  func(name string) { w.events = append(w.events, "lost "+name) },
	})
}

// TestLost: a holder that does not reach the store loses its lease after 15 s, five seconds before others find its
// document gone, and holds another one when the store is back.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		h := w.hold()
		defer h.Close(t.Context())
		synctest.Wait()
		other := Hold(Options{Docs: w.docs, Prefix: "l.", Name: func(context.Context) string { return "b" }, Value: func(string) []byte { return nil }})
		defer other.Close(t.Context())
		time.Sleep(time.Minute)
		if name := h.Name(); name != "a1" {
			t.Fatalf("it holds %q", name)
		}
		gone := func() bool {
			gone, err := other.Gone(t.Context(), "a1")
			if err != nil {
				t.Fatal(err)
			}
			return gone
		}
		w.faults.Cut(true)
		began := time.Now()
		for h.Name() != "" {
			if gone() {
				t.Fatal("others find it gone while it holds its lease")
			}
			time.Sleep(50 * time.Millisecond)
		}
		lost := time.Since(began)
		synctest.Wait()
		if _, end, found := strings.Cut(w.log.String(), "level=ERROR"); !found || !strings.Contains(end, store.ErrUnavailable.Error()) {
			t.Errorf("the log does not say why the lease was lost: %s", w.log.String())
		}
		for !gone() {
			time.Sleep(50 * time.Millisecond)
		}
		if ended := time.Since(began); lost > FenceAfter+100*time.Millisecond || lost < FenceAfter-RenewEvery-time.Second || ended-lost < 4*time.Second {
			t.Errorf("lost after %v, gone after %v", lost, ended)
		}
		time.Sleep(time.Minute)
		w.faults.Cut(false)
		time.Sleep(time.Second)
		if name := h.Name(); name != "a2" {
			t.Errorf("it holds %q", name)
		}
		synctest.Wait()
		if want := []string{"held", "lost a1", "held"}; !slices.Equal(w.events, want) {
			t.Errorf("events %q", w.events)
		}
	})
}

// TestDeleted: a holder whose document others have deleted has lost its lease with the next renewal.
func TestDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		h := w.hold()
		defer h.Close(t.Context())
		synctest.Wait()
		doc, err := w.docs.Get(t.Context(), "l.a1")
		if err == nil {
			err = w.docs.Delete(t.Context(), doc.Key, doc.Rev)
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(RenewEvery + time.Second)
		if name := h.Name(); name != "a2" {
			t.Errorf("it holds %q", name)
		}
	})
}

// TestFaults: renewals that fail one after the other do not end a lease.
func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kinds := []storetest.Fault{storetest.Drop, storetest.ApplyThenFail, storetest.ConflictFalsely, storetest.None, storetest.Drop, storetest.None}
		var works atomic.Bool
		n := 0
		w := &world{next: func() storetest.Fault {
			if n++; works.Load() {
				return storetest.None
			}
			return kinds[(n*n+n/3)%len(kinds)]
		}}
		h := w.hold()
		time.Sleep(2 * time.Second)
		for range 200 {
			time.Sleep(time.Second)
			if doc, err := w.docs.Get(t.Context(), "l.a1"); err != nil || doc.Rev == 0 || h.Name() != "a1" {
				t.Fatalf("%+v, %v, %q", doc, err, h.Name())
			}
		}
		works.Store(true)
		h.Close(t.Context())
		if doc, _ := w.docs.Get(t.Context(), "l.a1"); doc.Rev != 0 || h.Name() != "" {
			t.Error("it is still there after Close")
		}
	})
}

// TestSole: a holder without others holds at once, and all others are gone.
func TestSole(t *testing.T) {
	h := Sole("a")
	self, _ := h.Gone(t.Context(), "a")
	other, _ := h.Gone(t.Context(), "b")
	if h.Name() != "a" || self || !other {
		t.Errorf("%q, gone: %v, others gone: %v", h.Name(), self, other)
	}
	h.Close(t.Context())
}
