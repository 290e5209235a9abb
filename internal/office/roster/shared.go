package roster

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

const (
	// emptyTTL is the life of the document of an office without members.
	emptyTTL = 10 * time.Minute
	// maxBatch bounds the changes that one write makes.
	maxBatch = 256
	// retryWait is the pause after a change that must be made was not.
	retryWait = time.Second
	// dropDelay bounds the random wait before a node drops the members of another one that is gone. All
	// nodes of an office would write at the same moment otherwise.
	dropDelay = 200 * time.Millisecond
	// maxDead bounds the nodes of which the end is remembered.
	maxDead = 1024
)

// Node is this process in its cluster.
type Node interface {
	// Inc returns the current INC, and Fenced a channel that is closed when it is over.
	Inc() string
	Fenced() <-chan struct{}
	// Gone reports whether a node is not known here. It may have just come.
	Gone(inc string) bool
	// Watch returns a channel that is closed when a node does not answer any more; stop ends that.
	Watch(inc string) (gone <-chan struct{}, stop func())
	// Suspect finds out whether a node that did not answer is gone, and notifies all others.
	Suspect(ctx context.Context, inc string) bool
}

// Options configure a Shared.
type Options struct {
	Docs store.Docs
	Bus  store.Bus
	// Direct carries the messages from one hub to another, in order. Nil is Bus. A Bus with a
	// Queue, as link.Messages has, sends several of them at once.
	Direct store.Bus
	Node   Node
	// Admitted reports whether the store knows the node. Until then it takes no members: others would find that their node
	// is gone. Nil is always.
	Admitted func() bool
	// Drained is closed when the node takes no new work and other nodes do. Nil is never.
	Drained <-chan struct{}
	// Name of the cluster starts the subjects of messages.
	Name string
	// Bodies carries bodies that are too large for a message. Nil limits messages to the size that
	// the bus takes.
	Bodies *Bodies
	Logger *slog.Logger // nil discards
}

// Events are the events of the cluster that a hub handles. Calls may overlap.
type Events interface {
	// Message handles a message for a member of this node, or an event for all members of an office. It must
	// return at once; messages from one node about one Computer come in order.
	Message(m *Message)
	// Gone says that a node is gone. Fenced says that the memberships of an older INC of this node are
	// over.
	Gone(inc string)
	Fenced(inc string)
	// Drained says that the peers of this node are to go to other ones. It may last until Done is closed.
	Drained()
}

// Shared keeps offices in documents that the nodes of a cluster share. It is safe for concurrent use.
type Shared struct {
	o      Options
	log    *slog.Logger
	events Events
	inc    atomic.Pointer[string] // that messages reach; "" while there is none

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup
	sweeps chan struct{} // asks for a sweep

	streams *streams
	notices notices
	ended   *endings
	queue   func(subject string, h store.Header, body []byte, timeout time.Duration, f func(store.Message, error)) (send func(), err error)

	mu      sync.Mutex // guards below
	closed  bool
	unwind  []func()
	owed    int // changes of Insist that are not made
	writers map[string]*officeWriter
	seen    map[string]revision // the newest documents of offices that are followed, by key
}

// revision is a document of an office with its decoded content: read-only, and not given to others,
// who get a clone.
type revision struct {
	store.Doc
	office *Office // nil: the document has not been read
}

// NewShared returns a Shared that does nothing before Open.
func NewShared(o Options) *Shared {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Direct == nil {
		o.Direct = o.Bus
	}
	s := &Shared{o: o, log: o.Logger, writers: map[string]*officeWriter{}, seen: map[string]revision{}, sweeps: make(chan struct{}, 1)}
	s.ended = &endings{docs: o.Docs, unknown: o.Node.Gone, of: map[string]bool{}}
	s.streams = newStreams(s)
	s.queue = queueOf(o.Direct)
	none := ""
	s.inc.Store(&none)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Open starts to hear of the cluster. Close ends it.
func (s *Shared) Open(events Events) error {
	s.events = events
	over := s.o.Node.Fenced() // of the INC that listen reads next, or of an older one
	stop, err := s.listen()
	if err != nil {
		return err
	}
	unfollow, err := s.o.Docs.Follow(store.NodeKeys, s.nodeChanged)
	if err != nil {
		stop()
		return err
	}
	s.mu.Lock()
	s.unwind = append(s.unwind, unfollow)
	s.mu.Unlock()
	s.Go(func() { s.live(over, stop) })
	s.Go(s.sweepAlways)
	s.Go(s.streams.takeRolls)
	if s.o.Drained != nil {
		s.Go(func() {
			select {
			case <-s.o.Drained:
				s.events.Drained()
			case <-s.ctx.Done():
			}
		})
	}
	return nil
}

// live listens for each INC of the node.
func (s *Shared) live(over <-chan struct{}, stop func()) {
	for {
		select {
		case <-s.ctx.Done():
			stop()
			return
		case <-over:
		}
		old, none := s.Inc(), ""
		s.inc.Store(&none)
		stop()
		s.events.Fenced(old)
		s.streams.forget(old)
		for {
			over = s.o.Node.Fenced()
			var err error
			if stop, err = s.listen(); err == nil {
				break
			}
			s.log.Warn("the messages of other hubs cannot be received", "err", err)
			if !s.Pause(retryWait) {
				return
			}
		}
	}
}

// Done returns a channel that is closed by Close.
func (s *Shared) Done() <-chan struct{} { return s.ctx.Done() }

// Pause waits, and reports whether the Shared still runs.
func (s *Shared) Pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.ctx.Done():
		return false
	}
}

// Inc returns the INC under which messages reach this node, "" while it has none.
func (s *Shared) Inc() string { return *s.inc.Load() }

// Admits reports whether members may join at the node of a Shared.
func Admits(s *Shared) bool { return s.Inc() != "" && (s.o.Admitted == nil || s.o.Admitted()) }

// Go runs f in a goroutine that Close waits for. It reports false after Close.
func (s *Shared) Go(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.work.Go(f)
	return true
}

// Flush waits until all changes are made, or until ctx ends.
func (s *Shared) Flush(ctx context.Context) {
	for {
		s.mu.Lock()
		busy := len(s.writers) > 0 || s.owed > 0
		s.mu.Unlock()
		if !busy {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// Close ends everything and waits for it.
func (s *Shared) Close() {
	s.mu.Lock()
	s.closed = true
	unwind := s.unwind
	s.unwind = nil
	s.mu.Unlock()
	s.cancel()
	for _, stop := range unwind {
		stop()
	}
	s.work.Wait()
}

// keyOf returns the key of an office's document.
func keyOf(id string) string { return store.OfficeKeys + store.Hash(id) }

// nodeChanged takes a change of a node's document.
func (s *Shared) nodeChanged(d store.Doc) {
	if d.Rev != 0 {
		return
	}
	inc := d.Key[len(store.NodeKeys):]
	s.ended.note(inc)
	s.streams.forget(inc)
	s.sweepLater()
	s.Go(func() {
		if s.Pause(rand.N(dropDelay)) {
			s.events.Gone(inc)
		}
	})
}

// IsGone reports whether a node is gone for good. It asks the store about a node that is not known.
func (s *Shared) IsGone(ctx context.Context, inc string) bool {
	gone, err := s.ended.has(ctx, inc)
	return err == nil && gone
}

// Doubts reports whether a node with members may be gone. It asks no other party.
func (s *Shared) Doubts(inc string) bool { return inc != s.Inc() && s.o.Node.Gone(inc) }

// Suspect finds out in the background whether a node that did not answer is gone.
func (s *Shared) Suspect(inc string) {
	s.Go(func() { s.o.Node.Suspect(s.ctx, inc) })
}

// Watch is the Watch of the Node.
func (s *Shared) Watch(inc string) (gone <-chan struct{}, stop func()) { return s.o.Node.Watch(inc) }

// Follow calls f with the members of an office now and after each change. f must return at once, must
// not call the Shared, and owns the value.
func (s *Shared) Follow(id string, f func(rev uint64, o *Office)) (stop func(), err error) {
	key := keyOf(id)
	s.mu.Lock()
	s.seen[key] = revision{Doc: store.Doc{Key: key}}
	s.mu.Unlock()
	forget := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.seen, key)
	}
	end, err := s.o.Docs.Follow(key, func(d store.Doc) {
		if d.Rev == 0 {
			return // it had no members when it ended
		}
		o, err := s.saw(d)
		if err != nil || o.ID != id {
			s.log.Error("the members of an office are not known here: the document cannot be read", "office", id, "rev", d.Rev, "err", err)
			return
		}
		f(d.Rev, o.clone())
	})
	if err != nil {
		forget()
		return nil, err
	}
	return func() { end(); forget() }, nil
}

// saw notes and reads a document of an office that is followed. The next change starts with it, and the next document
// is read with its help. The result is read-only.
func (s *Shared) saw(d store.Doc) (*Office, error) {
	s.mu.Lock()
	old := s.seen[d.Key]
	s.mu.Unlock()
	if old.Rev == d.Rev && old.office != nil {
		return old.office, nil // written here
	}
	o, err := decode(d.Value, old.office)
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, followed := s.seen[d.Key]; followed && d.Rev > old.Rev {
		s.seen[d.Key] = revision{d, o}
	}
	return o, err
}

// Get returns the members of an office as the store has them.
func (s *Shared) Get(ctx context.Context, id string) (rev uint64, o *Office, err error) {
	d, err := s.o.Docs.Get(ctx, keyOf(id))
	if err != nil {
		return 0, nil, err
	}
	if d.Rev == 0 {
		return 0, &Office{ID: id}, nil
	}
	o, err = decode(d.Value, nil)
	return d.Rev, o, err
}

// An edit changes an Office, or returns false if it finds nothing to change, which may be its own earlier
// effect. It may be called several times, each time with another value.
type edit func(o *Office) (changed bool, err error)

// request is an edit that waits for its turn.
type request struct {
	do     edit
	done   chan struct{}
	rev    uint64
	office *Office
	err    error
}

// officeWriter makes the changes of one office: all that wait are one write.
type officeWriter struct{ waiting []*request }

// Change changes an office. An error of do leaves it as it was. The returned value is read-only, as others
// may have it as well.
func (s *Shared) Change(ctx context.Context, id string, do func(o *Office) (changed bool, err error)) (rev uint64, o *Office, err error) {
	r := &request{do: do, done: make(chan struct{})}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return 0, nil, store.ErrUnavailable
	}
	p := s.writers[id]
	if p == nil {
		p = &officeWriter{}
		s.writers[id] = p
		s.work.Go(func() { s.write(id, p) })
	}
	p.waiting = append(p.waiting, r)
	s.mu.Unlock()
	select {
	case <-r.done:
		return r.rev, r.office, r.err
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
}

// write makes the changes of an office until none wait.
func (s *Shared) write(id string, p *officeWriter) {
	for {
		s.mu.Lock()
		batch := p.waiting
		if len(batch) == 0 {
			delete(s.writers, id)
			s.mu.Unlock()
			return
		}
		batch = batch[:min(len(batch), maxBatch)]
		p.waiting = p.waiting[len(batch):]
		key := keyOf(id)
		seen, followed := s.seen[key]
		s.mu.Unlock()
		seen.Key = key
		var office *Office
		doc, err := store.ChangeSeen(s.ctx, s.o.Docs, seen.Doc, func(d store.Doc) ([]byte, time.Duration, error) {
			office = &Office{ID: id}
			if d.Rev != 0 {
				known, err := seen.office, error(nil)
				if known == nil || d.Rev != seen.Rev {
					known, err = decode(d.Value, seen.office)
				}
				if err != nil {
					return nil, 0, err
				}
				office = known.clone()
			}
			changed := false
			for _, r := range batch {
				var did bool
				did, r.err = r.do(office)
				changed = changed || did
			}
			if !changed {
				return nil, 0, store.ErrKeep
			}
			value, err := office.Encode()
			if err == nil {
				err = store.CheckSet(key, value)
			}
			ttl := time.Duration(0)
			if office.Empty() {
				ttl = emptyTTL
			}
			return value, ttl, err
		})
		if err == nil && followed {
			_, _ = s.saw(doc) // it was written here, so it can be read
		}
		for _, r := range batch {
			if err != nil {
				r.err = err
			} else {
				r.rev, r.office = doc.Rev, office
			}
			close(r.done)
		}
	}
}

// Insist makes a change in the background, and again until the store has taken it. then gets the result.
func (s *Shared) Insist(id string, do func(o *Office) (changed bool, err error), then func(rev uint64, o *Office)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.owed++
	s.work.Go(func() {
		defer func() {
			s.mu.Lock()
			s.owed--
			s.mu.Unlock()
		}()
		for {
			rev, o, err := s.Change(s.ctx, id, do)
			if err == nil {
				then(rev, o)
				return
			}
			if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrFull) {
				if s.ctx.Err() == nil {
					s.log.Error("the members of an office cannot be changed", "office", id, "err", err)
				}
				return
			}
			if !s.Pause(retryWait) {
				return
			}
		}
	})
}
