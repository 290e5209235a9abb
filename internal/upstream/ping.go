package upstream

import (
	"context"
	"time"

	"github.com/weir-mcp/weir/mcp"
)

// pingEvery is the interval of pings to an idle HTTP server. Without them weir would not notice
// that the server is gone.
const (
	pingEvery   = time.Minute
	pingTimeout = 15 * time.Second
)

// ping drops the connection to an HTTP server that fails to answer twice.
func (s *slot) ping(ctx context.Context, l *link) {
	method := "ping"
	if l.hello.Modern {
		method = "server/discover"
	}
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for missed := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if used, quiet := s.calls.quiet(); !quiet || time.Since(used) < pingEvery && missed == 0 {
			continue
		}
		_, err := l.Call(ctx, pingTimeout, method, nil, nil)
		switch {
		case err == nil, mcp.IsAnswer(err):
			missed = 0
		case ctx.Err() != nil:
			return
		case missed == 0:
			missed++
		default:
			s.calls.lose(l, err)
			return
		}
	}
}
