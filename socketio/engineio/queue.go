package engineio

import (
	"sync"

	"github.com/weir-mcp/weir/internal/limit/memory"
)

// item is a frame in a queue. more means that the next item belongs to the same unit.
type item struct {
	Frame
	more bool
}

// queue holds frames to send. Session.mu guards it.
type queue struct {
	items  []item       // nil or from spareItems
	frames int          // in items and with the writer
	bytes  int          // of these frames
	hold   *memory.Hold // of bytes; nil: there are few
}

// reserve makes sure that the bytes of the queue and size more are counted, except for the first memory.Free of them.
// It reports whether there is room.
func (q *queue) reserve(size int, room *memory.Account) bool {
	if room == nil || q.hold == nil && q.bytes+size <= memory.Free {
		return true
	}
	if q.hold == nil {
		hold := room.Hold()
		q.hold = &hold
	}
	if q.hold.TryGrow(int64(q.bytes + size)) {
		return true
	}
	q.uncount()
	return false
}

// uncount returns the counted bytes when nothing is in the queue.
func (q *queue) uncount() {
	if q.hold != nil && q.bytes == 0 {
		q.hold.Release()
		q.hold = nil
	}
}

// spareItems pools unused arrays, so that an idle session holds none.
var spareItems = sync.Pool{New: func() any { return new([16]item) }}

// spare returns an array to the pool. Arrays that have grown are left to the garbage collector.
func spare(items []item) {
	if cap(items) == len([16]item{}) {
		items = items[:cap(items)]
		clear(items)
		spareItems.Put((*[16]item)(items))
	}
}

// add appends frames of size bytes as one unit.
func (q *queue) add(frames []Frame, size int) {
	q.makeRoom()
	for i, f := range frames {
		q.items = append(q.items, item{Frame: f, more: i < len(frames)-1})
	}
	q.frames += len(frames)
	q.bytes += size
}

// addControl appends a control packet without a bound: at most one of each kind is queued.
func (q *queue) addControl(f Frame) {
	q.makeRoom()
	q.items = append(q.items, item{Frame: f})
	q.frames++
	q.bytes += f.size()
}

func (q *queue) makeRoom() {
	if q.items == nil {
		q.items = spareItems.Get().(*[16]item)[:0]
	}
}

// take passes the items to a writer. They count until the writer calls sent.
func (q *queue) take() []item {
	if len(q.items) == 0 {
		return nil
	}
	batch := q.items
	q.items = nil
	return batch
}

// sent subtracts written frames from the counts.
func (q *queue) sent(frames, size int) {
	q.frames -= frames
	q.bytes -= size
	if q.frames < 0 { // the queue was dropped meanwhile
		q.frames, q.bytes = 0, 0
	}
	q.uncount()
}

func (q *queue) drop() {
	q.bytes = 0
	q.uncount()
	*q = queue{}
}

// takePayload encodes whole units as one poll of at most limit bytes. It splits a unit that fits
// into no poll. The payload counts in place of its frames until the caller calls sent with its frames and its length.
// Without room in the account for a payload that is larger than its frames, it returns ErrNoRoom and takes nothing.
func (q *queue) takePayload(limit int, room *memory.Account) (body []byte, frames int, err error) {
	n, total := 0, 0
	for n < len(q.items) {
		end, size := n, total
		for more := true; more && end < len(q.items); end++ {
			size += payloadSize(q.items[end].Frame)
			more = q.items[end].more
		}
		if end > maxPollPackets || size > limit {
			if n == 0 {
				n = min(end, maxPollPackets)
			}
			break
		}
		n, total = end, size
	}
	bytes, size := 0, 0
	for _, it := range q.items[:n] {
		bytes, size = bytes+payloadSize(it.Frame), size+it.size()
	}
	if !q.reserve(max(bytes-size, 0), room) {
		return nil, 0, ErrNoRoom
	}
	body = make([]byte, 0, bytes)
	for _, it := range q.items[:n] {
		body = appendPacket(body, it.Frame)
	}
	rest := len(q.items) - n
	copy(q.items, q.items[n:])
	clear(q.items[rest:])
	q.items = q.items[:rest]
	if rest == 0 {
		spare(q.items)
		q.items = nil
	}
	q.bytes += len(body) - size
	return body, n, nil
}
