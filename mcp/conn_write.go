package mcp

import (
	"context"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
)

// dropUnsent gives back the room of messages that are not written any more.
func (c *Conn) dropUnsent() {
	for {
		select {
		case o := <-c.out:
			o.release()
		default:
			return
		}
	}
}

func (c *Conn) writeLoop() {
	defer c.wg.Done()
	defer c.dropUnsent()
	var batch [][]byte
	var rooms []*memory.Block
	var flushed chan struct{}
	for {
		batch, rooms = batch[:0], rooms[:0]
		if flushed != nil && len(c.out) == 0 {
			close(flushed)
			flushed = nil
		}
		select {
		case <-c.ctx.Done():
			return
		case flushed = <-c.flush:
			continue
		case o := <-c.out:
			batch, rooms = append(batch, o.msg), append(rooms, o.rooms...)
		}
		for size := len(batch[0]); c.batcher != nil && size < 64<<10 && len(batch) < 64; {
			select {
			case o := <-c.out:
				batch, rooms = append(batch, o.msg), append(rooms, o.rooms...)
				size += len(o.msg)
				continue
			default:
			}
			break
		}
		err := c.write(batch)
		clear(batch)
		for _, room := range rooms {
			room.Release()
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
func (c *Conn) send(ctx context.Context, o outgoing) error {
	if c.writeNow(o.msg) {
		o.release()
		return nil
	}
	if c.enqueue(o) {
		return nil
	}
	c.unsent.Add(1)
	select {
	case c.out <- o:
		c.afterEnd()
		return nil
	case <-ctx.Done():
		c.unsent.Add(-1)
		o.release()
		return ctx.Err()
	case <-c.ctx.Done():
		c.unsent.Add(-1)
		o.release()
		return c.Err()
	}
}

// afterEnd gives back the room of messages that were queued when the writer had left.
func (c *Conn) afterEnd() {
	if c.ctx.Err() != nil {
		c.dropUnsent()
	}
}

// enqueue queues a message for the writer, unless the queue is full.
func (c *Conn) enqueue(o outgoing) bool {
	c.unsent.Add(1)
	select {
	case c.out <- o:
		c.afterEnd()
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
func (c *Conn) offer(o outgoing) {
	if c.enqueue(o) {
		return
	}
	if c.late.Add(1) > maxLate {
		c.late.Add(-1)
		o.release()
		c.opts.Logger.Warn("dropped an answer: too many wait to be sent", "peer", c.opts.Name)
		return
	}
	c.wg.Go(func() {
		defer c.late.Add(-1)
		_ = c.send(c.ctx, o)
	})
}
