package ranking

import (
	"log/slog"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/store"
)

// TestWordsAlone: without an endpoint a Ranking asks nobody, and all of it works.
func TestWordsAlone(t *testing.T) {
	t.Parallel()
	r, err := New(&config.Config{}, Needs{
		Docs: store.NewMemory(store.MemoryOptions{}), Redact: func(text string) string { return text }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil || r.Options().Embedder != nil {
		t.Fatalf("%+v, %v", r, err)
	}
	r.Start(nil)
	r.Changed()
	r.Close(t.Context())
	r.Close(t.Context())
}

// TestLearnSwitch: search.learn counts at once, both ways, and search.embedding at a restart.
func TestLearnSwitch(t *testing.T) {
	t.Parallel()
	on, off := &config.Config{}, &config.Config{}
	on.Search.Learn = true
	r, err := New(on, Needs{Docs: store.NewMemory(store.MemoryOptions{}), Secret: make([]byte, 32), Redact: func(text string) string { return text }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r.Start(nil)
	switched := func(now, next *config.Config) {
		t.Helper()
		if apply := r.Configure(part.Reload{Now: now, Next: next}); apply == nil {
			t.Error("the change does nothing")
		} else {
			apply()
		}
	}
	if r.Configure(part.Reload{Now: on, Next: on}) != nil || r.Learned().Search(t.Context()) == nil {
		t.Error("it does not learn from the start")
	}
	switched(on, off)
	if r.Learned().Search(t.Context()) != nil {
		t.Error("it learns, and must not")
	}
	switched(off, on)
	if r.Learned().Search(t.Context()) == nil {
		t.Error("it does not learn again")
	}
	embedded := &config.Config{}
	embedded.Search = on.Search
	embedded.Search.Embedding.Model = "small"
	if applied, waits := Key.Counts(on, embedded); applied || !waits {
		t.Errorf("an endpoint: applied %v, waits %v", applied, waits)
	}
	if applied, waits := Key.Counts(on, off); !applied || waits {
		t.Errorf("learning: applied %v, waits %v", applied, waits)
	}
	r.Close(t.Context())
}
