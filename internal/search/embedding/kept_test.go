package embedding_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/weir-mcp/weir/internal/search/embedding"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

// counting is an Embedder that counts the texts that it was asked for.
type counting struct {
	asked int
	dim   int
}

func (c *counting) Embed(_ context.Context, texts []string) ([][]float32, error) {
	c.asked += len(texts)
	var out [][]float32
	for _, text := range texts {
		v := make([]float32, c.dim)
		v[0], v[1] = float32(len(text)), 0.25
		out = append(out, v)
	}
	return out, nil
}

// TestKept: a new process asks for the vectors of new texts alone, and another model for all.
func TestKept(t *testing.T) {
	docs := store.NewMemory(store.MemoryOptions{})
	var texts []string
	for i := range 500 {
		texts = append(texts, fmt.Sprintf("tool %d", i))
	}
	of := embedding.Config{URL: "http://a/v1", Model: "m"}
	embed := func(of embedding.Config, d embedding.Docs, texts []string) int {
		t.Helper()
		next := &counting{dim: 3}
		k := embedding.NewKept(next, d, of)
		for batch := range slices.Chunk(texts, 64) {
			got, err := k.Embed(t.Context(), batch)
			if err != nil || len(got) != len(batch) {
				t.Fatal(len(got), err)
			}
			for i, v := range got {
				if len(v) != 3 || v[0] != float32(len(batch[i])) || v[1] != 0.25 {
					t.Fatalf("%q has %v", batch[i], v)
				}
			}
		}
		if err := k.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		return next.asked
	}
	if n := embed(of, docs, texts); n != 500 {
		t.Errorf("%d texts were asked for, want 500", n)
	}
	if n := embed(of, docs, append(slices.Clone(texts), "new", "newer")); n != 2 {
		t.Errorf("after a restart %d texts were asked for, want 2", n)
	}
	if n := embed(embedding.Config{URL: "http://a/v1", Model: "other"}, docs, texts); n != 500 {
		t.Errorf("another model: %d, want 500", n)
	}
	if n := embed(of, docs, texts); n != 500 {
		t.Errorf("vectors of a model that was replaced are still there: %d", n)
	}
	cut := &storetest.Faults{Docs: docs}
	cut.Cut(true)
	k := embedding.NewKept(&counting{dim: 3}, cut, of)
	if got, err := k.Embed(t.Context(), texts[:10]); err != nil || len(got) != 10 {
		t.Errorf("without the store: %d, %v", len(got), err)
	}
	if err := k.Flush(t.Context()); err == nil {
		t.Error("a loss is not reported")
	}
}

// TestKeptBound: shards stay within their bound; the newest vectors stay.
func TestKeptBound(t *testing.T) {
	docs := store.NewMemory(store.MemoryOptions{})
	next := &counting{dim: 4000}
	for round := range 3 {
		k := embedding.NewKept(next, docs, embedding.Config{})
		for i := range 5000 {
			if _, err := k.Embed(t.Context(), []string{fmt.Sprintf("%d %d", round, i)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := k.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for doc, err := range docs.List(t.Context(), "v.") {
		if err != nil || len(doc.Value) > store.MaxValue {
			t.Fatalf("%s has %d bytes: %v", doc.Key, len(doc.Value), err)
		}
	}
	next.asked = 0
	k := embedding.NewKept(next, docs, embedding.Config{})
	for i := range 5000 {
		if _, err := k.Embed(t.Context(), []string{fmt.Sprintf("2 %d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if next.asked > 500 {
		t.Errorf("%d of the 5000 newest vectors are gone", next.asked)
	}
}
