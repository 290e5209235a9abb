package dataplane

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/config"
)

// TestOffersLastAsTheConfigurationSays: as it does now, not as it did at the start.
func TestOffersLastAsTheConfigurationSays(t *testing.T) {
	store, err := artifact.Open(artifact.Options{TokenTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	held, err := store.Put(t.Context(), "ann", "application/json", "", []byte(`[{"a":1},{"a":2}]`))
	if err != nil {
		t.Fatal(err)
	}
	p := newPlane(&Data{Results: store}, &Needs{
		Audited: func(_ *artifact.Local, next http.Handler) http.Handler { return next },
		Config:  func() *config.Config { return &config.Config{Artifacts: config.Artifacts{TokenTTL: time.Minute}} }, Log: slog.New(slog.DiscardHandler),
	})
	p.SetBase("http://127.0.0.1:1")
	_, expires, err := p.Offer(t.Context(), "ann", held.Handle)
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(expires); left <= 0 || left > time.Minute {
		t.Errorf("it lasts %v, want a minute", left)
	}
}
