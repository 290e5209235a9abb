package otlphttp

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestPublicAddress: without TLS nothing is sent to a public address, whatever a name resolves to.
func TestPublicAddress(t *testing.T) {
	transport := transportFor("http")
	for at, want := range map[string]bool{"203.0.113.9:4318": false, "8.8.8.8:4318": true, "[2001:4860:4860::8888]:80": true} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		conn, err := transport.DialContext(ctx, "tcp", at)
		cancel()
		if conn != nil {
			conn.Close()
		}
		if errors.Is(err, ErrPublic) != want {
			t.Errorf("%s: %v", at, err)
		}
	}
	if transport.Proxy != nil || transportFor("https").Proxy == nil {
		t.Error("a proxy would resolve the name itself")
	}
}
