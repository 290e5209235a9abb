package web

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestLinger: a server that ends waits for clients that may call again, and no longer than they are
// connected.
func TestLinger(t *testing.T) {
	for _, c := range []struct {
		name          string
		leaves, takes time.Duration // leaves 0: stays connected
	}{
		{"one that stays", 0, lingerBusy},
		{"one that leaves", lingerBusy / 2, lingerBusy / 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f Server
				counting(&f.conns)(nil, http.StateNew)
				counting(&f.conns)(nil, http.StateActive)
				counting(&f.conns)(nil, http.StateIdle)
				if c.leaves > 0 {
					time.AfterFunc(c.leaves, func() { counting(&f.conns)(nil, http.StateClosed) })
				}
				start := time.Now()
				f.linger(t.Context(), lingerBusy)
				if took := time.Since(start); took < c.takes || took > c.takes+lingerStep {
					t.Errorf("it took %v, want %v", took, c.takes)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		var f Server
		start := time.Now()
		f.linger(t.Context(), lingerBusy)
		if took := time.Since(start); took != 0 {
			t.Errorf("without a connection it took %v", took)
		}
		counting(&f.conns)(nil, http.StateNew)
		ctx, cancel := context.WithTimeout(t.Context(), lingerBusy/2)
		defer cancel()
		f.linger(ctx, lingerBusy)
		if took := time.Since(start); took != lingerBusy/2 {
			t.Errorf("it outlived its context: %v", took)
		}
	})
}
