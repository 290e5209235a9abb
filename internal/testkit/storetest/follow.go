package storetest

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// wait polls until ok, and fails the test if that takes longer than real stores need.
func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

// A view is the state of a follower.
type view struct {
	t       *testing.T
	mu      sync.Mutex // guards below
	docs    map[string]string
	revs    map[string]uint64
	stopped bool
}

// see checks that states of a document become newer.
func (v *view) see(d store.Doc) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.stopped {
		v.t.Errorf("%s came after the end", d.Key)
	}
	switch {
	case d.Rev == 0:
		if d.Value != nil {
			v.t.Errorf("%s is gone and has the value %q", d.Key, d.Value)
		}
		delete(v.docs, d.Key)
		return
	case d.Rev <= v.revs[d.Key]:
		v.t.Errorf("%s: revision %d came after %d", d.Key, d.Rev, v.revs[d.Key])
	}
	v.docs[d.Key], v.revs[d.Key] = string(d.Value), d.Rev
}

func (v *view) is(want map[string]string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Equal(v.docs, want)
}

func follow(t *testing.T, d store.Docs, what string) (*view, func()) {
	t.Helper()
	v := &view{t: t, docs: map[string]string{}, revs: map[string]uint64{}}
	stop, err := d.Follow(what, v.see)
	if err != nil {
		t.Fatal(err)
	}
	return v, stop
}

// Follow tests that writer's changes reach followers at reader. Both may be one. The store has no
// documents whose keys start with "f.".
func Follow(t *testing.T, writer, reader store.Docs) {
	ctx := t.Context()
	set := func(key, value string, rev uint64, ttl time.Duration) uint64 {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) { // busy servers elect again
			now, err := writer.Set(ctx, key, []byte(value), rev, ttl)
			if err == nil {
				return now
			}
			if doc, failed := writer.Get(ctx, key); failed == nil && doc.Rev > rev && string(doc.Value) == value {
				return doc.Rev // an earlier attempt was made
			}
			if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrConflict) || time.Now().After(end) {
				t.Fatal(err)
			}
		}
	}
	get := func(key string) store.Doc {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			doc, err := writer.Get(ctx, key)
			if err == nil {
				return doc
			}
			if !errors.Is(err, store.ErrUnavailable) || time.Now().After(end) {
				t.Fatal(err)
			}
		}
	}
	one := set("f.a.1", "1", 0, 0)
	set("f.a.2", "2", 0, 0)
	set("f.ab.3", "other", 0, 0)
	all, stopAll := follow(t, reader, "f.a.")
	if !all.is(map[string]string{"f.a.1": "1", "f.a.2": "2"}) {
		t.Errorf("at the beginning: %v", all.docs)
	}
	key, stopKey := follow(t, reader, "f.a.1")
	defer stopKey()
	if !key.is(map[string]string{"f.a.1": "1"}) {
		t.Errorf("at the beginning of one key: %v", key.docs)
	}
	var absent []store.Doc
	stopAbsent, err := reader.Follow("f.none", func(d store.Doc) { absent = append(absent, d) })
	if err != nil || len(absent) != 1 || absent[0].Rev != 0 || absent[0].Key != "f.none" {
		t.Errorf("a key that is not there: %v, %v", absent, err)
	}
	stopAbsent()

	two := set("f.a.1", "1.1", one, 0)
	three := set("f.a.3", "", 0, 0) // an empty value is one
	wait(t, "changes", func() bool { return all.is(map[string]string{"f.a.1": "1.1", "f.a.2": "2", "f.a.3": ""}) })
	wait(t, "a change of one key", func() bool { return key.is(map[string]string{"f.a.1": "1.1"}) })

	if err := writer.Delete(ctx, "f.a.1", two); err != nil {
		t.Fatal(err)
	}
	wait(t, "a document that was deleted", func() bool { return all.is(map[string]string{"f.a.2": "2", "f.a.3": ""}) && key.is(nil) })
	set("f.a.3", "short", three, time.Second)
	set("f.a.1", "again", 0, 0)
	wait(t, "a document that is there again", func() bool { return key.is(map[string]string{"f.a.1": "again"}) })
	wait(t, "a document that has ended", func() bool { return all.is(map[string]string{"f.a.1": "again", "f.a.2": "2"}) })

	want := map[string]string{"f.a.1": "again", "f.a.2": "2"}
	rev := uint64(0)
	for i := range 200 {
		k := fmt.Sprintf("f.a.n%d", i%20)
		if i < 20 {
			set(k, "first", 0, 0)
		} else {
			rev = set(k, fmt.Sprint(i), get(k).Rev, 0)
		}
		want[k] = fmt.Sprint(i)
	}
	wait(t, "the last of many changes", func() bool { return all.is(want) })
	all.mu.Lock()
	if all.revs["f.a.n19"] != rev {
		t.Errorf("the revision is %d, want %d", all.revs["f.a.n19"], rev)
	}
	all.mu.Unlock()

	stopAll()
	time.Sleep(10 * time.Millisecond) // a call that was under way
	all.mu.Lock()
	all.stopped = true
	all.mu.Unlock()
	set("f.a.late", "x", 0, 0)
	set("f.a.1", "last", get("f.a.1").Rev, 0)
	wait(t, "the other goes on", func() bool { return key.is(map[string]string{"f.a.1": "last"}) })
	for _, what := range []string{"", "f..", "f.*", ">", "f.>", strings.Repeat("k", 300)} {
		if _, err := reader.Follow(what, func(store.Doc) {}); err == nil {
			t.Errorf("%.20q can be followed", what)
		}
	}
}
