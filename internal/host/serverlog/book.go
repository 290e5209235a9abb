package serverlog

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Bounds of the kept lines of one server.
const (
	keptBytes = 256 << 10 // of texts, with lineCost for each line
	lineCost  = 64        // bytes of memory of a line in addition to its text
)

// A Line is one line that a server wrote, or a mark of weir.
type Line struct {
	Seq    uint64    `json:"seq"` // ascending over all servers
	Time   time.Time `json:"time"`
	Server string    `json:"server"`
	Text   string    `json:"text"`
	// Mark is set for a line of weir itself: a program starts, or has ended.
	Mark bool `json:"mark,omitempty"`
}

// Options are the settings of a Book.
type Options struct {
	// Redact removes secrets from a line. It is called concurrently. Nil removes nothing.
	Redact func(string) string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// A Book keeps the lines of all servers. It is safe for concurrent use.
type Book struct {
	redact func(string) string
	now    func() time.Time

	mu      sync.Mutex // guards below
	seq     uint64     // of the last line
	rings   map[string]*ring
	changed chan struct{} // closed with the next line; nil while no reader waits
}

// New returns a Book.
func New(o Options) *Book {
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Book{redact: o.Redact, now: o.Now, rings: map[string]*ring{}}
}

// add appends a line and drops the oldest ones that have no more room.
func (b *Book) add(server, text string, mark bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq++
	r := b.rings[server]
	if r == nil {
		r = &ring{}
		b.rings[server] = r
	}
	r.add(Line{Seq: b.seq, Time: b.now().UTC(), Server: server, Text: text, Mark: mark})
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// Forget drops the lines of a server.
func (b *Book) Forget(server string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.rings, server)
}

// Lines returns lines after a number in their order, at most the newest n of them. It returns the
// lines of one server, or of all for "".
func (b *Book) Lines(server string, after uint64, n int) []Line {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []Line
	for name, r := range b.rings {
		if server == "" || name == server {
			out = append(out, r.after(after)...)
		}
	}
	slices.SortFunc(out, func(a, b Line) int { return cmp.Compare(a.Seq, b.Seq) })
	return out[max(0, len(out)-max(n, 0)):]
}

// Wait returns when there is a line after a number, of any server, or when ctx ends.
func (b *Book) Wait(ctx context.Context, after uint64) error {
	for {
		b.mu.Lock()
		there := b.seq > after
		if !there && b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Last returns the number of the newest line, 0 if there is none.
func (b *Book) Last() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seq
}

// A ring holds the newest lines of one server, the oldest first.
type ring struct {
	lines []Line
	bytes int
}

func (r *ring) add(l Line) {
	r.lines = append(r.lines, l)
	r.bytes += len(l.Text) + lineCost
	drop := 0
	for r.bytes > keptBytes && drop < len(r.lines)-1 {
		r.bytes -= len(r.lines[drop].Text) + lineCost
		r.lines[drop] = Line{} // its text is garbage now, before the slice is copied
		drop++
	}
	r.lines = r.lines[drop:]
}

// after returns the lines after a number. The caller must not keep them.
func (r *ring) after(seq uint64) []Line {
	i, _ := slices.BinarySearchFunc(r.lines, seq+1, func(l Line, seq uint64) int { return cmp.Compare(l.Seq, seq) })
	return r.lines[i:]
}
