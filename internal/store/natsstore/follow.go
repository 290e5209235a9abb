package natsstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-mcp/weir/internal/store"
)

const (
	// readAgain is how often follows read what they may have missed.
	readAgain = time.Minute
	// readRetry is the wait after such a read failed, or messages were lost during it.
	readRetry = time.Second
	// readLost is the wait after messages were lost, of which there are many in a row.
	readLost = 100 * time.Millisecond
	// readTimeout bounds each request of such a read: a read of many documents over a network takes longer.
	readTimeout = 12 * time.Second
)

// headerSequence is the revision in a message that tells of a change.
const headerSequence = "Nats-Sequence"

// A follow tells f of the documents of a key or a prefix. The stream's leader sends each change to
// whom it may concern (republish), at most once and without a consumer. What is lost is read again:
// after each new connection and once a minute, all changes since the last such read.
type follow struct {
	docs *Docs
	what string
	f    func(store.Doc)

	stopped atomic.Bool

	mu sync.Mutex // guards below, and is held during calls of f
	// floor is the sequence up to which everything has been read. Older messages are late.
	floor uint64
	known map[string]uint64 // the revisions of documents that f knows
	gone  map[string]uint64 // the sequences above floor at which others went
}

// Follow implements store.Docs.
func (d *Docs) Follow(keyOrPrefix string, f func(store.Doc)) (stop func(), err error) {
	if err := store.CheckFollow(keyOrPrefix); err != nil {
		return nil, err
	}
	w := &follow{docs: d, what: keyOrPrefix, f: f, known: map[string]uint64{}, gone: map[string]uint64{}}
	// The server knows of the subscription before it reads: both go the same way.
	unsubscribe, err := d.lanes.subscribe(d.changes+w.filter(), w.message)
	if err != nil {
		return nil, err
	}
	if err := w.read(d.ctx); err != nil {
		w.stopped.Store(true)
		unsubscribe()
		return nil, err
	}
	w.mu.Lock()
	if len(w.known) == 0 && !w.isPrefix() {
		f(store.Doc{Key: keyOrPrefix})
	}
	w.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.follows[w] = struct{}{}
	if !d.reading {
		d.reading = true
		d.reads.Go(d.readForEver)
	}
	return func() {
		d.mu.Lock()
		delete(d.follows, w)
		d.mu.Unlock()
		w.stopped.Store(true)
		unsubscribe()
	}, nil
}

func (w *follow) isPrefix() bool { return strings.HasSuffix(w.what, ".") }

// filter is the part of subjects after their prefix.
func (w *follow) filter() string {
	if w.isPrefix() {
		return w.what + ">"
	}
	return w.what
}

// message takes a change that the server tells of.
func (w *follow) message(m *nats.Msg) {
	key, ok := strings.CutPrefix(m.Subject, w.docs.changes)
	seq, err := strconv.ParseUint(m.Header.Get(headerSequence), 10, 64)
	if !ok || err != nil {
		return // of a stranger on the subject
	}
	w.see(store.Doc{Key: key, Rev: seq, Value: m.Data}, isMarker(m.Header))
}

// see tells f of a state that is newer than the one that it knows. The Rev of a document that has
// gone is the Rev of its marker.
func (w *follow) see(d store.Doc, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known, there := w.known[d.Key]
	if w.stopped.Load() || d.Rev <= max(w.floor, known, w.gone[d.Key]) {
		return
	}
	if !gone {
		delete(w.gone, d.Key)
		w.known[d.Key] = d.Rev
		w.f(d)
		return
	}
	delete(w.known, d.Key)
	w.gone[d.Key] = d.Rev
	if there {
		w.f(store.Doc{Key: d.Key})
	}
}

// read sees all that has changed since the last read: what is there, what has left a marker, and what
// has gone with its marker. It is for one goroutine at a time.
func (w *follow) read(ctx context.Context) error {
	filter := w.docs.prefix + w.filter()
	info, err := again(ctx, readTimeout, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		return w.docs.stream.Info(ctx, jetstream.WithSubjectFilter(filter))
	})
	if err != nil {
		return failure(err)
	}
	w.mu.Lock()
	seq := w.floor
	w.mu.Unlock()
	for {
		m, err := again(ctx, readTimeout, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
			return w.docs.stream.GetMsg(ctx, seq+1, jetstream.WithGetMsgSubject(filter))
		})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		} else if err != nil {
			return failure(err)
		}
		seq = m.Sequence
		w.see(store.Doc{Key: m.Subject[len(w.docs.prefix):], Rev: seq, Value: m.Data}, isMarker(m.Header))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped.Load() {
		return nil
	}
	last := info.State.LastSeq
	for key, rev := range w.known {
		if _, there := info.State.Subjects[w.docs.prefix+key]; rev <= last && !there {
			delete(w.known, key)
			w.f(store.Doc{Key: key})
		}
	}
	w.floor = max(w.floor, last)
	maps.DeleteFunc(w.gone, func(_ string, seq uint64) bool { return seq <= w.floor })
	return nil
}

// readForEver reads again what follows may have missed, one after the other, until Close.
func (d *Docs) readForEver() {
	connected := d.conn.StatusChanged(nats.CONNECTED)
	defer d.conn.RemoveStatusListener(connected)
	timer := time.NewTimer(readAgain)
	defer timer.Stop()
	due := time.Now().Add(readAgain)
	for {
		select {
		case <-d.ctx.Done():
			return
		case _, open := <-connected:
			if !open {
				connected = nil // the connection has been closed for good
			}
		case <-d.slow:
			if time.Until(due) > readLost { // losses without an end do not put the read off
				due = time.Now().Add(readLost)
				timer.Reset(readLost)
			}
			continue
		case <-timer.C:
		}
		next, lost := readAgain, d.lanes.dropped()
		if err := d.readAll(); err != nil || d.lanes.dropped() != lost {
			next = readRetry
		}
		due = time.Now().Add(next)
		timer.Reset(next)
	}
}

func (d *Docs) readAll() (err error) {
	d.mu.Lock()
	follows := slices.Collect(maps.Keys(d.follows))
	d.mu.Unlock()
	for _, w := range follows {
		if err := w.read(d.ctx); err != nil {
			return fmt.Errorf("read %s again: %w", w.what, err)
		}
	}
	return nil
}
