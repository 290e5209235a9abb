package search

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// fakeEmbedder knows what some words are about. It embeds a text as the sum of its words' subjects.
type fakeEmbedder struct {
	mu    sync.Mutex // guards below
	texts []string   // all that were asked
	fail  error
	bad   [][]float32 // answered as it is, if not nil
}

var subjects = map[string][]float32{
	"ship": {9, 0, 0}, "vessel": {9, 1, 0}, "ferry": {8, 0, 1},
	"plant": {0, 9, 0}, "flower": {1, 9, 0}, "money": {0, 0, 9},
}

func (f *fakeEmbedder) Embed(_ context.Context, texts []string) ([][]float32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.texts = append(f.texts, texts...)
	if f.fail != nil || f.bad != nil {
		return f.bad, f.fail
	}
	out := make([][]float32, len(texts))
	for i, text := range texts {
		out[i] = []float32{1, 1, 1}
		for _, w := range words(text) {
			for j, x := range subjects[w] {
				out[i][j] += x
			}
		}
	}
	return out, nil
}

// asked returns how many texts were asked since the last time.
func (f *fakeEmbedder) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.texts)
	f.texts = nil
	return n
}

func TestEmbedding(t *testing.T) {
	e := &fakeEmbedder{}
	lexical := New(Options{}).With("a", named("ferry_times", "plant_care")).With("b", named("money_count"))
	plain := New(Options{Embedder: e}).With("a", named("ferry_times", "plant_care")).With("b", named("money_count"))
	if hits, err := plain.SearchContext(t.Context(), "vessel", nil, 3); len(hits) > 0 || err != nil || e.asked() > 0 {
		t.Errorf("without vectors: %v, %v", hits, err)
	}
	ix, err := plain.Embed(t.Context())
	if err != nil || e.asked() != 3 {
		t.Fatalf("%v", err)
	}
	hits, err := ix.SearchContext(t.Context(), "vessel", nil, 3)
	if err != nil || len(hits) == 0 || hits[0].ID != "ferry_times" {
		t.Errorf("vessel: %v, %v", hits, err)
	}
	if !reflect.DeepEqual(ix.Search("plant", 3), lexical.Search("plant", 3)) {
		t.Error("Search differs with an Embedder")
	}
	if hits, err := lexical.SearchContext(t.Context(), "plant", nil, 3); err != nil || !reflect.DeepEqual(hits, lexical.Search("plant", 3)) {
		t.Errorf("SearchContext differs without an Embedder: %v, %v", hits, err)
	}
	if again, err := lexical.Embed(t.Context()); again != lexical || err != nil {
		t.Errorf("Embed without an Embedder: %v", err)
	}
	if again, err := ix.Embed(t.Context()); again != ix || err != nil {
		t.Errorf("Embed with nothing to do: %v", err)
	}
	e.asked()

	if x := ix.ExplainDoc(t.Context(), "vessel", nil, Doc{ID: "ferry_times", Name: "ferry_times"}); !x.Embedded || x.Rank != 1 || x.Score != hits[0].Score || x.Cosine <= 0 || x.Cosine > 1.0001 {
		t.Errorf("explained with vectors: %+v", x)
	}
	e.asked()

	// A refresh embeds what changed, also when it was refreshed twice before it came to that.
	changed := ix.With("a", named("ferry_times", "flower_care")).With("a", named("ferry_times", "flower_shop", "ship_list"))
	if changed, err = changed.Embed(t.Context()); err != nil || e.asked() != 2 {
		t.Errorf("a refresh asked for other texts than the two that are new: %v", err)
	}
	if hits, err := changed.SearchContext(t.Context(), "vessel", nil, 2); err != nil || len(hits) != 2 || hits[0].ID != "ship_list" {
		t.Errorf("vessel after the refresh: %v, %v", hits, err)
	}
}

// TestAdopt: what was embedded while documents of others changed is used, and a failure keeps what went before it.
func TestAdopt(t *testing.T) {
	e := &fakeEmbedder{}
	before := New(Options{Embedder: e}).With("a", named("ferry_times")).With("b", named("plant_care"))
	done, err := before.Embed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e.asked()
	// Meanwhile one has changed, one has come, and one has stayed.
	now := before.With("b", named("flower_care")).With("c", named("money_count")).Adopt(done)
	now, err = now.Embed(t.Context())
	if err != nil || e.asked() != 2 {
		t.Errorf("asked for other texts than the two that are new: %v", err)
	}
	if hits, err := now.SearchContext(t.Context(), "vessel", nil, 1); err != nil || len(hits) != 1 || hits[0].ID != "ferry_times" {
		t.Errorf("vessel: %v, %v", hits, err)
	}
	if again := now.Adopt(done); again != now {
		t.Error("there was nothing to adopt")
	}
	lexical := New(Options{}).With("a", named("ferry_times"))
	if lexical.Adopt(done) != lexical || before.Adopt(lexical) != before {
		t.Error("vectors come from, or go to, an index without an Embedder")
	}

	fails := &failingAfter{fakeEmbedder: e, calls: 1}
	part, err := New(Options{Embedder: fails}).With("a", named("ferry_times")).With("b", named("plant_care")).Embed(t.Context())
	if !errors.Is(err, ErrEmbedding) {
		t.Errorf("failed with %v", err)
	}
	fails.calls, fails.texts = 100, nil
	if _, err := part.Embed(t.Context()); err != nil || fails.asked() != 1 {
		t.Errorf("what had been embedded before the failure is asked for again: %v", err)
	}
}

// failingAfter fails after a number of calls.
type failingAfter struct {
	*fakeEmbedder
	calls int
}

func (f *failingAfter) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if f.calls--; f.calls < 0 {
		return nil, errors.New("no more")
	}
	return f.fakeEmbedder.Embed(ctx, texts)
}

func TestEmbeddingErrors(t *testing.T) {
	e := &fakeEmbedder{}
	base := New(Options{Embedder: e}).With("a", named("ferry_times"))
	ix, err := base.Embed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	tests := []struct {
		name string
		e    *fakeEmbedder
		want string
	}{
		{"failure", &fakeEmbedder{fail: boom}, "boom"},
		{"too few", &fakeEmbedder{bad: [][]float32{}}, "0 vectors for 1 texts"},
		{"no direction", &fakeEmbedder{bad: [][]float32{{0, 0, 0}}}, "no direction"},
		{"empty", &fakeEmbedder{bad: [][]float32{{}}}, "no direction"},
		{"another length", &fakeEmbedder{bad: [][]float32{{1, 2}}}, "of 2"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			broken := &Index{tuning: ix.tuning, segments: ix.segments, whole: ix.whole, embedder: test.e, queries: test.e}
			hits, err := broken.SearchContext(t.Context(), "ferry", nil, 1)
			if len(hits) != 1 || !errors.Is(err, ErrEmbedding) || test.name != "another length" && !strings.Contains(err.Error(), test.want) {
				t.Errorf("search: %v, %v", hits, err)
			}
			more := broken.With("b", named("ship_list"))
			same, err := more.Embed(t.Context())
			if same != more || !errors.Is(err, ErrEmbedding) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("embed: %v", err)
			}
			if got := ids(t, same, "ship", 1); len(got) != 1 {
				t.Errorf("after a failure %q is found", got)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (&Index{tuning: ix.tuning, segments: base.segments, whole: base.whole, embedder: &fakeEmbedder{fail: boom}}).Embed(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
