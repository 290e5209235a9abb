package ranking

import (
	"log/slog"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
)

// TestWordsAlone: without an endpoint a Ranking asks nobody, and all of it works.
func TestWordsAlone(t *testing.T) {
	t.Parallel()
	r, err := New(&config.Config{}, nil, func(text string) string { return text }, slog.New(slog.DiscardHandler))
	if err != nil || r.Options().Embedder != nil {
		t.Fatalf("%+v, %v", r, err)
	}
	r.Start(nil)
	r.Changed()
	r.Close()
	r.Close()
}
