package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// Contract tests an empty store. It sleeps for documents to end, so a store in memory is tested in
// the time of a bubble.
func Contract(t *testing.T, d store.Docs) {
	ctx := t.Context()
	set := func(key, value string, rev uint64, ttl time.Duration) uint64 {
		t.Helper()
		now, err := d.Set(ctx, key, []byte(value), rev, ttl)
		if err != nil || now == 0 || now == rev {
			t.Fatalf("Set %s over %d: revision %d, %v", key, rev, now, err)
		}
		return now
	}
	has := func(key, want string, rev uint64) {
		t.Helper()
		doc, err := d.Get(ctx, key)
		if err != nil || doc.Key != key || doc.Rev != rev || string(doc.Value) != want {
			t.Fatalf("Get %s: %+v, %v, want %q of revision %d", key, doc, err, want, rev)
		}
	}
	conflict := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, store.ErrConflict) {
			t.Fatalf("%s: %v, want a conflict", what, err)
		}
	}
	change := func(key string, rev uint64) error {
		_, err := d.Set(ctx, key, []byte("late"), rev, 0)
		return err
	}

	{ // compare and set
		has("a.x", "", 0)
		one := set("a.x", "1", 0, 0)
		has("a.x", "1", one)
		conflict("a second that must be the first", change("a.x", 0))
		two := set("a.x", "2", one, 0)
		conflict("an old revision", change("a.x", one))
		conflict("a revision that never was", change("a.x", two+100))
		conflict("a revision of what is not there", change("a.y", two))
		conflict("to delete an old revision", d.Delete(ctx, "a.x", one))
		conflict("to delete what is not there", d.Delete(ctx, "a.y", 0))
		has("a.x", "2", two)
		set("a.empty", "", 0, 0)
	}
	{ // deleted, and there again
		one := set("b.x", "1", 0, 0)
		if err := d.Delete(ctx, "b.x", one); err != nil {
			t.Fatal(err)
		}
		has("b.x", "", 0)
		conflict("over what was deleted", change("b.x", one))
		conflict("to delete twice", d.Delete(ctx, "b.x", one))
		again := set("b.x", "2", 0, 0)
		has("b.x", "2", again)
		conflict("a second that must be the first", change("b.x", 0))
	}
	testList(t, d)
	testRace(t, d)
	{ // time to live
		const short = 3 * time.Second // more than a busy machine takes for the next five requests
		first := set("c.short", "x", 0, short)
		lasting := set("c.renewed", "x", set("c.renewed", "y", 0, short), time.Hour)
		kept := set("c.kept", "x", set("c.kept", "y", 0, short), 0)
		has("c.short", "x", first)
		time.Sleep(short + time.Second)
		has("c.short", "", 0)
		has("c.renewed", "x", lasting)
		has("c.kept", "x", kept)
		conflict("over what has ended", change("c.short", first))
		has("c.short", "z", set("c.short", "z", 0, 0))
	}
	testBounds(t, d)
}

func testList(t *testing.T, d store.Docs) {
	ctx := t.Context()
	want := map[string]string{}
	for i := range 30 {
		key, value := fmt.Sprintf("l.one.k%d", i), fmt.Sprint(i)
		rev, err := d.Set(ctx, key, []byte(value), 0, 0)
		if err == nil && i%3 == 0 {
			err = d.Delete(ctx, key, rev)
		} else {
			want[key] = value
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []string{"l.two", "l.onemore.k", "l.two.k"} {
		if _, err := d.Set(ctx, other, nil, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]string{}
	for doc, err := range d.List(ctx, "l.one.") {
		if err != nil || doc.Rev == 0 || got[doc.Key] != "" {
			t.Fatalf("%+v, %v", doc, err)
		}
		got[doc.Key] = string(doc.Value)
	}
	if !maps.Equal(got, want) {
		t.Errorf("List: %v, want %v", got, want)
	}
	for range d.List(ctx, "l.one.") {
		break // a caller may stop
	}
	for doc, err := range d.List(ctx, "nothing.") {
		t.Errorf("%+v, %v", doc, err)
	}
}

// testRace lets changes of one document count up. Each that is confirmed counts once.
func testRace(t *testing.T, d store.Docs) {
	const workers, each = 8, 10
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for done := 0; done < each; {
				doc, err := d.Get(t.Context(), "r.count")
				if err == nil {
					_, err = d.Set(t.Context(), doc.Key, append(slices.Clone(doc.Value), '.'), doc.Rev, 0)
				}
				switch {
				case err == nil:
					done++
				case !errors.Is(err, store.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if doc, err := d.Get(t.Context(), "r.count"); err != nil || len(doc.Value) != workers*each {
		t.Errorf("%d changes are there, %d were confirmed; %v", len(doc.Value), workers*each, err)
	}
}

func testBounds(t *testing.T, d store.Docs) {
	ctx := t.Context()
	large := bytes.Repeat([]byte("x"), store.MaxValue)
	rev, err := d.Set(ctx, "z.large", large, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if doc, err := d.Get(ctx, "z.large"); err != nil || !bytes.Equal(doc.Value, large) {
		t.Errorf("%d bytes, %v", len(doc.Value), err)
	}
	if _, err := d.Set(ctx, "z.large", append(large, 'x'), rev, 0); !errors.Is(err, store.ErrFull) {
		t.Errorf("more than the bound: %v", err)
	}
	for _, key := range []string{"", ".", "a.", ".a", "a..b", "a b", "a.*", ">", "é", "a/b", string(bytes.Repeat([]byte("k"), 300))} {
		if _, err := d.Set(ctx, key, nil, 0, 0); err == nil {
			t.Errorf("%q is a key", key)
		}
		if _, err := d.Get(ctx, key); err == nil {
			t.Errorf("%q can be read", key)
		}
		if err := d.Delete(ctx, key, 1); err == nil {
			t.Errorf("%q can be deleted", key)
		}
	}
	for _, prefix := range []string{"", ".", "a", "a.*."} {
		for _, err := range d.List(ctx, prefix) {
			if err == nil {
				t.Errorf("%q is a prefix", prefix)
			}
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := d.Get(ended, "z.large"); err == nil {
		t.Error("a request whose caller has gone was answered")
	}
}
