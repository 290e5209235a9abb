package streamable

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// openPatience is how long a new client waits for its GET stream.
const openPatience = 250 * time.Millisecond

// listening is the GET stream of a legacy server, which carries messages that belong to no call:
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#listening-for-messages-from-the-server
type listening struct {
	c *Client
	// answered is closed when the stream is open, or was refused for the first time.
	answered chan struct{}
}

// wait returns when the server has answered the GET stream. While it is not open, servers drop their
// questions on it, even during the very first call. Some servers answer with their first event only;
// wait gives up after openPatience.
func (l *listening) wait(ctx context.Context) {
	timer := time.NewTimer(openPatience)
	defer timer.Stop()
	select {
	case <-l.answered:
	case <-timer.C:
	case <-ctx.Done():
	case <-l.c.ctx.Done():
	}
}

// run keeps the stream open until the client is closed, the session is lost, or the server refuses
// the stream.
func (l *listening) run() {
	c := l.c
	var pos position
	offered := false
	for first := true; ; first = false {
		resp, err := c.open(c.ctx, pos.lastID)
		if first {
			close(l.answered)
		}
		switch {
		case c.ctx.Err() != nil:
			if resp != nil {
				resp.Body.Close()
			}
			return
		case err == nil:
			offered = true
			_, err = c.read(c.ctx, resp.Body, &pos, func(data []byte, block *memory.Block) bool {
				if block != nil && block.InFile() {
					data = bytes.Clone(data) // the handler may keep it for any time
				}
				block.Release()
				l.receive(data)
				return false
			})
			resp.Body.Close()
			if errors.Is(err, ErrEventTooLarge) || errors.As(err, new(*memory.Error)) || errors.Is(err, errEventID) {
				pos.lastID = "" // the same event would come again
			}
		case offered && notFound(err) && c.wire.Load().session != "":
			c.opts.Logger.Info("the session is lost", "peer", c.who, "err", c.sessionLost())
			return
		case !mayPass(err) || (!offered && pos.attempts >= maxAttempts):
			c.opts.Logger.Debug("no GET stream", "peer", c.who, "err", err)
			return
		default:
			pos.attempts++
		}
		select {
		case <-c.done:
			return
		default:
		}
		if sleep(c.ctx, pos.delay()) != nil {
			return
		}
	}
}

// serve answers a request of the server that came on the stream. The goroutine belongs to the client.
func (l *listening) serve(m jsonrpc.Message) {
	c := l.c
	ctx, done, err := c.serving.begin(c.ctx, m.ID)
	if err != nil {
		c.refuse(m, err)
		return
	}
	if !c.spawn(func() { c.serve(ctx, c.opts.Handler, m, done) }) {
		done()
	}
}

// receive takes an event of the stream. It ignores responses: a server answers on the stream of the
// request.
func (l *listening) receive(data []byte) {
	ignored := func([]byte, error) bool { return false }
	l.c.each(data, ignored, func(m jsonrpc.Message) bool {
		if m.Method != "" {
			l.c.message(nil, m)
		}
		return true
	})
}
