package cluster

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/net/guard"
)

// Times of a stream that is opened later.
const (
	laterCheck = time.Second      // how often it looks whether the store answers
	laterSign  = 15 * time.Second // how often proxies and the client see that the connection lives
)

// opensLater answers a client that opens the stream of a session while the node of the session cannot be found or
// reached: with a stream without events. It ends soon after the store has answered this node again, which is 3 seconds
// at a store that works, and the client opens the next one. It returns false for all other requests.
//
// An error in its place would end the session for most clients: clients of the Go SDK give it up after one refusal of
// a stream, others receive nothing of it after two. A stream that ends is opened again by all of them.
func (x *exchange) opensLater() bool {
	if x.r.Method != http.MethodGet || !strings.Contains(x.r.Header.Get("Accept"), "text/event-stream") {
		return false
	}
	n := x.s.n
	before := n.count.renewals.Load()
	ctx, end := guard.Lasting(x.r.Context())
	defer end()
	h := x.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	rc := http.NewResponseController(x.w)
	_ = rc.SetReadDeadline(time.Time{})
	defer func() { _ = rc.SetWriteDeadline(time.Time{}) }()
	for sign := time.Now(); ; {
		if !time.Now().Before(sign) {
			sign = sign.Add(laterSign)
			_ = rc.SetWriteDeadline(time.Now().Add(link.WriteLimit))
			if _, err := x.w.Write([]byte(": the stream of this session is opened later\n\n")); err != nil || rc.Flush() != nil {
				return true
			}
		}
		if pause(ctx, laterCheck) != nil {
			return true
		}
		if n.count.renewals.Load() != before {
			_ = pause(ctx, time.Duration(rand.Int64N(int64(spreadTime)))) // not all clients at once
			return true
		}
	}
}
