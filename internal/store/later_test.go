package store_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

// halfway is a store whose Follow fails after it has told of the documents, as long as it is on.
type halfway struct {
	*storetest.Faults
	on atomic.Bool
}

func (h *halfway) Follow(what string, f func(store.Doc)) (func(), error) {
	stop, err := h.Faults.Follow(what, f)
	if err == nil && h.on.Load() {
		stop()
		return nil, store.ErrUnavailable
	}
	return stop, err
}

// TestFollowLater: a follow begins when the store answers, and tells nothing of attempts that have failed.
func TestFollowLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := &halfway{Faults: &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{})}}
		set := func(key string) uint64 {
			t.Helper()
			rev, err := docs.Docs.Set(t.Context(), key, []byte("x"), 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			return rev
		}
		early := set("a.early")
		set("a.there")
		told := map[string]uint64{}
		docs.Cut(true)
		stop, began, err := store.FollowLater(docs, "a.", func(d store.Doc) { told[d.Key] = d.Rev })
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		docs.on.Store(true)
		docs.Cut(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(told) > 0 {
			t.Errorf("told of %v by attempts that failed", told)
		}
		if err := docs.Docs.Delete(t.Context(), "a.early", early); err != nil {
			t.Fatal(err)
		}
		docs.on.Store(false)
		<-began
		synctest.Wait()
		if len(told) != 1 || told["a.there"] == 0 {
			t.Errorf("told of %v, and not of a.there alone", told)
		}
		set("a.later")
		synctest.Wait()
		if told["a.later"] == 0 {
			t.Errorf("not told of a later change: %v", told)
		}
		stop()
		set("a.last")
		synctest.Wait()
		if told["a.last"] != 0 {
			t.Error("told of a change after the end")
		}
		if _, _, err := store.FollowLater(docs, "no key", func(store.Doc) {}); err == nil {
			t.Error("no error for what is no key")
		}
		docs.Cut(true)
		stop, began, err = store.FollowLater(docs, "a.", func(store.Doc) {})
		if err != nil {
			t.Fatal(err)
		}
		stop()
		select {
		case <-began:
			t.Error("begun without a store")
		default:
		}
	})
}
