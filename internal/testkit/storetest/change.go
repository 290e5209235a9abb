package storetest

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// Change tests that changes of one document by many parties count once each, whatever fails on the
// way. The store has no document "change.count".
func Change(t *testing.T, d store.Docs) {
	const workers = 8
	ctx := t.Context()
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			own := byte('a' + i)
			doc, err := store.Change(ctx, d, "change.count", func(now store.Doc) ([]byte, time.Duration, error) {
				if slices.Contains(now.Value, own) {
					return nil, 0, store.ErrKeep // an earlier attempt was applied
				}
				return append(slices.Clone(now.Value), own), 0, nil
			})
			if err != nil || doc.Rev == 0 || !slices.Contains(doc.Value, own) {
				t.Errorf("%c: %+v, %v", own, doc, err)
			}
		})
	}
	all.Wait()
	refused := errors.New("refused")
	doc, err := store.Change(ctx, d, "change.count", func(now store.Doc) ([]byte, time.Duration, error) { return nil, 0, refused })
	if !errors.Is(err, refused) || len(doc.Value) != workers {
		t.Errorf("%q, %v, want %d changes and the function's error", doc.Value, err, workers)
	}
	testSeen(t, d, doc)
	for range 2 { // the second finds none
		doc, err = store.Change(ctx, d, "change.count", func(now store.Doc) ([]byte, time.Duration, error) { return nil, 0, nil })
		if err != nil || doc.Rev != 0 {
			t.Errorf("a removal: %+v, %v", doc, err)
		}
	}
}

// testSeen tests that a change with a document that was seen counts once, whether that is the newest one or not.
func testSeen(t *testing.T, d store.Docs, newest store.Doc) {
	for i, seen := range []store.Doc{newest, newest, {Key: newest.Key}} { // the second time it is an older one
		add := []byte{byte('0' + i)}
		doc, err := store.ChangeSeen(t.Context(), d, seen, func(now store.Doc) ([]byte, time.Duration, error) {
			if bytes.Contains(now.Value, add) {
				return nil, 0, store.ErrKeep
			}
			return append(slices.Clone(now.Value), add...), 0, nil
		})
		if err != nil || !bytes.Equal(doc.Value, append(slices.Clone(newest.Value), "012"[:i+1]...)) {
			t.Errorf("change %d of a document that was seen: %q, %v", i, doc.Value, err)
		}
	}
	refused, calls := errors.New("refused"), 0
	doc, err := store.ChangeSeen(t.Context(), d, newest, func(now store.Doc) ([]byte, time.Duration, error) {
		calls++
		return nil, 0, refused
	})
	if !errors.Is(err, refused) || doc.Rev <= newest.Rev || calls < 2 {
		t.Errorf("a refusal that rests on an older document: %+v, %v after %d calls", doc, err, calls)
	}
}
