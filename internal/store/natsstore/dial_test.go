package natsstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/store/natsstore"
)

// TestDialRefuses: a URL that cannot be read is said at once, without its password.
func TestDialRefuses(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, s := range map[string]natsstore.Servers{
		"a host": {URLs: []string{"nats://ann:pass-word@a b:4222"}},
		"a port": {URLs: []string{"nats://ann:pass-word@127.0.0.1:1", "nats://ann:pass-word@127.0.0.1:port"}},
	} {
		conn, err := natsstore.Dial(ctx, s)
		if err == nil {
			conn.Close()
			t.Errorf("%s: connected", name)
		} else if strings.Contains(err.Error(), "pass-word") {
			t.Errorf("%s: a password in %v", name, err)
		}
	}
	if ctx.Err() != nil {
		t.Error("it tried until the end")
	}
	// Servers that are not there are waited for.
	short, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if _, err := natsstore.Dial(short, natsstore.Servers{URLs: []string{"nats://127.0.0.1:1"}}); err == nil || short.Err() == nil {
		t.Errorf("it gave up: %v", err)
	}
}
