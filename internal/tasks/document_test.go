package tasks

import (
	"context"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// TestDocument: a document is written over another node's change of it, and not again once it was removed, here or by
// another node.
func TestDocument(t *testing.T) {
	t.Parallel()
	docs := store.NewMemory(store.MemoryOptions{})
	key := func(handle string) string { return keyPrefix + handle }
	save := func(d *document, handle, value string, shared bool) {
		t.Helper()
		err := d.save(docs, handle, shared, func() ([]byte, time.Duration, error) { return []byte(value), time.Hour, nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	read := func(handle string) (string, uint64) {
		t.Helper()
		doc, err := docs.Get(context.Background(), key(handle))
		if err != nil {
			t.Fatal(err)
		}
		return string(doc.Value), doc.Rev
	}
	var d document
	save(&d, "a", "1", true)
	_, rev := read("a")
	if _, err := docs.Set(t.Context(), key("a"), []byte("2"), rev, time.Hour); err != nil {
		t.Fatal(err)
	}
	save(&d, "a", "3", true)
	if got, _ := read("a"); got != "3" {
		t.Errorf("after the change of another node it is %q", got)
	}
	d.remove(docs, "a")
	save(&d, "a", "4", true)
	if got, rev := read("a"); rev != 0 {
		t.Errorf("a removed document is %q", got)
	}
	for _, shared := range []bool{true, false} {
		var d document
		handle := map[bool]string{true: "ours", false: "mine"}[shared]
		save(&d, handle, "1", shared)
		_, rev := read(handle)
		if err := docs.Delete(t.Context(), key(handle), rev); err != nil {
			t.Fatal(err)
		}
		save(&d, handle, "2", shared)
		if got, _ := read(handle); (got == "2") == shared {
			t.Errorf("of several nodes %t: after another removed it the document is %q", shared, got)
		}
		if d.gone != shared {
			t.Errorf("of several nodes %t: gone %t", shared, d.gone)
		}
	}
	if err := (&document{}).save(docs, "late", false, func() ([]byte, time.Duration, error) { return []byte("x"), 0, nil }); err != nil {
		t.Error(err)
	}
	if _, rev := read("late"); rev != 0 {
		t.Error("a task without time left was written")
	}
}
