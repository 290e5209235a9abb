package mcp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

func (c *Conn) writeLoop() {
	defer c.wg.Done()
	batcher, _ := c.stream.(batchStream)
	var batch [][]byte
	var flushed chan struct{}
	for {
		batch = batch[:0]
		if flushed != nil && len(c.out) == 0 {
			close(flushed)
			flushed = nil
		}
		select {
		case <-c.ctx.Done():
			return
		case flushed = <-c.flush:
			continue
		case msg := <-c.out:
			batch = append(batch, msg)
		}
		for size := len(batch[0]); batcher != nil && size < 64<<10 && len(batch) < 64; {
			select {
			case msg := <-c.out:
				batch = append(batch, msg)
				size += len(msg)
				continue
			default:
			}
			break
		}
		var err error
		if len(batch) == 1 || batcher == nil {
			err = c.stream.Write(batch[0])
		} else {
			err = batcher.WriteAll(batch)
		}
		if err != nil {
			// A child that dies closes its stdin first and its stdout a moment later. The reader
			// then knows the reason, so let it report that.
			select {
			case <-c.ctx.Done():
			case <-time.After(time.Second):
				c.fail(c.lost(err))
			}
			return
		}
	}
}

// send queues a message for the writer.
func (c *Conn) send(ctx context.Context, msg []byte) error {
	select {
	case c.out <- msg:
		return nil
	default:
	}
	select {
	case c.out <- msg:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ctx.Done():
		return c.Err()
	}
}

// offer is send for goroutines that must not wait. If the queue is full, the message waits in a
// goroutine of its own; if too many wait already, it is dropped.
func (c *Conn) offer(msg []byte) {
	select {
	case c.out <- msg:
		return
	default:
	}
	if c.late.Add(1) > maxLate {
		c.late.Add(-1)
		c.opts.Logger.Warn("dropped an answer: too many wait to be sent", "peer", c.opts.Name)
		return
	}
	c.wg.Go(func() {
		defer c.late.Add(-1)
		_ = c.send(c.ctx, msg)
	})
}

// Notify implements Peer.
func (c *Conn) Notify(ctx context.Context, method string, params json.RawMessage) error {
	if err := c.Err(); err != nil {
		return err
	}
	return c.send(ctx, jsonrpc.AppendNotification(make([]byte, 0, len(method)+len(params)+48), method, params))
}
