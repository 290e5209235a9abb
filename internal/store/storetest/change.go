package storetest

import (
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
	for range 2 { // the second finds none
		doc, err = store.Change(ctx, d, "change.count", func(now store.Doc) ([]byte, time.Duration, error) { return nil, 0, nil })
		if err != nil || doc.Rev != 0 {
			t.Errorf("a removal: %+v, %v", doc, err)
		}
	}
}
