package mcp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

func (c *Conn) writeLoop() {
	defer c.wg.Done()
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
		for size := len(batch[0]); c.batcher != nil && size < 64<<10 && len(batch) < 64; {
			select {
			case msg := <-c.out:
				batch = append(batch, msg)
				size += len(msg)
				continue
			default:
			}
			break
		}
		if err := c.write(batch); err != nil {
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

// write writes messages that the writer has taken from out.
func (c *Conn) write(batch [][]byte) (err error) {
	c.writing.Lock()
	if len(batch) == 1 || c.batcher == nil {
		err = c.stream.Write(batch[0])
	} else {
		_, err = c.batcher.WriteAll(batch, true)
	}
	c.writing.Unlock()
	c.unsent.Add(-int64(len(batch)))
	return err
}

// send writes a message, if no other waits and the other side takes it at once. Otherwise it queues
// the message for the writer. To write here saves waking the writer.
func (c *Conn) send(ctx context.Context, msg []byte) error {
	if c.writeNow(msg) || c.enqueue(msg) {
		return nil
	}
	c.unsent.Add(1)
	select {
	case c.out <- msg:
		return nil
	case <-ctx.Done():
		c.unsent.Add(-1)
		return ctx.Err()
	case <-c.ctx.Done():
		c.unsent.Add(-1)
		return c.Err()
	}
}

// enqueue queues a message for the writer, unless the queue is full.
func (c *Conn) enqueue(msg []byte) bool {
	c.unsent.Add(1)
	select {
	case c.out <- msg:
		return true
	default:
		c.unsent.Add(-1)
		return false
	}
}

// writeNow writes a message without waiting. It fails while earlier messages are unsent. An error of
// the stream is left to the writer, which meets it again.
func (c *Conn) writeNow(msg []byte) bool {
	if c.batcher == nil || !c.unsent.CompareAndSwap(0, 1) {
		return false
	}
	defer c.unsent.Add(-1)
	c.writing.Lock() // free: the writer counts its messages until it has left
	defer c.writing.Unlock()
	c.single[0] = msg
	done, err := c.batcher.WriteAll(c.single[:], false)
	c.single[0] = nil
	return done && err == nil
}

// offer is send for goroutines that must not wait. If the queue is full, the message waits in a
// goroutine of its own; if too many wait already, it is dropped.
func (c *Conn) offer(msg []byte) {
	if c.enqueue(msg) {
		return
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
