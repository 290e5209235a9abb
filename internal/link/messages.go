package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/store"
)

const (
	// messageDial bounds a dial, and changeTime the question before messages change to a connection.
	messageDial = 5 * time.Second
	changeTime  = 2 * time.Second
	// dialPause is the wait before a process is dialled again, and before a subject tries again to change.
	dialPause = 10 * time.Second
	// maxStrangers bounds the processes of which it is remembered that they were sent messages before they were known.
	maxStrangers = 1024
	// maxHeld bounds the messages of one subject that wait for the change to a connection.
	maxHeld = 1024
	// headerChange marks the question before the change to a connection, and its answer.
	headerChange = "Weir-Direct"
)

// errLate says that a question had no answer in time.
var errLate = errors.New("no answer in time")

// errBroken is the error of questions whose connection has ended before the answer came. The listener may have got the
// question, and may live: it is no store.ErrNobody.
var errBroken = fmt.Errorf("%w: the connection ended before the answer", store.ErrUnavailable)

// MessageOptions configures Messages.
type MessageOptions struct {
	// Bus carries all other messages. It stays open.
	Bus store.Bus
	// Process returns the process that listens to a subject, or "" for a subject of only the other
	// Bus.
	Process func(subject string) string
	// Dial connects to the Accept of the Messages of a process.
	Dial func(ctx context.Context, process string) (net.Conn, error)
	// Gone reports whether a process has ended. Nothing is kept for it then.
	Gone func(process string) bool
	// Room counts the messages that wait, and each large one while its listeners run. Nil does not count.
	Room *memory.Account
	// Logger gets the begin and the end of connections; nil discards them.
	Logger *slog.Logger
}

// Messages is a store.Bus whose messages to one process go over a connection to that process, as soon as
// there is one. Everything else goes over another Bus.
//
//	Tell, Ask ─┬─ to a process with a connection ─▶ frames ─▶ its listeners
//	           └─ to all others ─▶ the other Bus
//
// A message over the connection is written and read once each. Over a server in between it is written and read
// twice, and wakes four goroutines more.
//
// Messages of one subject arrive in order, or not at all, also where they change from the other Bus to the
// connection: a question over the other Bus comes first, and messages that are sent before its answer wait.
// One case is excepted: when a connection ends, its last messages may be handled after later ones, which go over the
// other Bus. Senders to whom that matters number their messages.
//
// Its owner dials and accepts the connections. It is safe for concurrent use.
type Messages struct {
	o      MessageOptions
	log    *slog.Logger
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex // guards below; taken after the lock of a peer
	closed  bool
	streams map[*stream]struct{}

	peersMu   sync.Mutex // guards below; taken before mu
	peers     map[string]*peer
	strangers map[string]struct{} // processes without a peer that messages went to over the other Bus

	heardMu sync.RWMutex // guards below
	heard   map[string][]*listener
}

var _ store.Bus = (*Messages)(nil)

// peer is a process that messages are sent to.
type peer struct {
	process string
	// before says that messages went to it over the other Bus when it was not known yet.
	before bool

	mu      sync.Mutex // guards below
	stream  *stream    // nil while there is none
	dialing bool
	again   time.Time        // no dial before
	routes  map[string]route // by subject; one that is not there has sent nothing over the other Bus, except before
}

// route is how messages of one subject go.
type route struct {
	via  *stream      // nil: the other Bus
	next *stream      // via will be this one, when those before have arrived
	held []held       // they wait for that
	room *memory.Hold // of held, which has size bytes
	size int64
	// again is the time of the next question before a change. The last one had no answer.
	again time.Time
}

// held is a message that waits.
type held struct {
	header  store.Header
	body    []byte
	timeout time.Duration
	f       func(store.Message, error) // nil: Tell
}

// listener is one Listen. Messages come from the other Bus and from connections.
type listener struct {
	stopped atomic.Bool
	mu      sync.Mutex // held while f runs
	f       func(store.Message)
}

func (l *listener) take(m store.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped.Load() {
		l.f(m)
	}
}

// NewMessages returns Messages. The caller closes them.
func NewMessages(o MessageOptions) *Messages {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Messages{o: o, log: o.Logger, streams: map[*stream]struct{}{}, peers: map[string]*peer{}, strangers: map[string]struct{}{}, heard: map[string][]*listener{}}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// Close ends all connections, fails the questions that wait for answers over them, and waits for that.
func (b *Messages) Close() {
	b.mu.Lock()
	b.closed = true
	all := slices.Collect(maps.Keys(b.streams))
	b.mu.Unlock()
	b.cancel()
	for _, s := range all {
		s.end()
	}
	b.work.Wait()
}

// Accept serves a connection that another process has dialled, and returns at once. It owns the connection.
func (b *Messages) Accept(conn net.Conn) {
	if b.serve(conn, nil) == nil {
		_ = conn.Close()
	}
}

// serve serves a connection. It returns nil after Close.
func (b *Messages) serve(conn net.Conn, p *peer) *stream {
	s := newStream(b, conn)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.streams[s] = struct{}{}
	b.work.Go(s.write)
	b.work.Go(func() {
		err := s.read()
		s.end()
		s.fail()
		b.mu.Lock()
		delete(b.streams, s)
		b.mu.Unlock()
		if p != nil {
			b.ended(p, s)
		}
		b.log.Debug("a connection for messages between nodes has ended", "err", err)
	})
	return s
}

// to returns the peer that listens to a subject, nil if messages to it go over the other Bus.
func (b *Messages) to(subject string) *peer {
	process := b.o.Process(subject)
	if process == "" {
		return nil
	}
	b.peersMu.Lock()
	defer b.peersMu.Unlock()
	p := b.peers[process]
	if p == nil {
		if b.o.Gone(process) { // or it has just come, and its messages must not overtake this one soon
			if len(b.strangers) >= maxStrangers {
				clear(b.strangers)
			}
			b.strangers[process] = struct{}{}
			return nil
		}
		_, before := b.strangers[process]
		delete(b.strangers, process)
		for other, old := range b.peers {
			if b.o.Gone(other) {
				delete(b.peers, other)
				b.retire(old)
			}
		}
		p = &peer{process: process, before: before, routes: map[string]route{}}
		b.peers[process] = p
	}
	return p
}

// retire ends the connection to a process that is gone. The caller may hold peersMu.
func (b *Messages) retire(p *peer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.work.Go(func() {
		p.mu.Lock()
		s := p.stream
		p.mu.Unlock()
		if s != nil {
			s.end()
		}
	})
}

// dial connects to a peer in the background, unless that was tried a moment ago. The caller holds the peer's mu.
func (b *Messages) dial(p *peer) {
	if p.dialing || p.stream != nil || time.Now().Before(p.again) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	p.dialing = true
	b.work.Go(func() {
		ctx, cancel := context.WithTimeout(b.ctx, messageDial)
		defer cancel()
		conn, err := b.o.Dial(ctx, p.process)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.dialing, p.again = false, time.Now().Add(dialPause)
		if err != nil {
			b.log.Debug("messages to a node go over NATS: it takes no connection for them", "inc", p.process, "err", err)
			return
		}
		if p.stream = b.serve(conn, p); p.stream == nil {
			_ = conn.Close()
		}
	})
}

// ended takes the messages of a peer back to the other Bus.
func (b *Messages) ended(p *peer, s *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stream == s {
		p.stream = nil
	}
	for subject, r := range p.routes {
		if r.via == s {
			p.routes[subject] = route{}
		}
	}
}

// queue puts a message in line. f is nil for Tell. The returned stream is to be flushed; nil: the message is on its way.
func (b *Messages) queue(p *peer, subject string, h store.Header, body []byte, timeout time.Duration, f func(store.Message, error)) (*stream, error) {
	s, err := b.choose(p, subject, h, body, timeout, f)
	if s == nil {
		return nil, err
	}
	switch taken, err := s.queue(subject, h, body, timeout, f); {
	case err != nil:
		return nil, err
	case taken:
		return s, nil
	}
	return nil, b.elsewhere(subject, h, body, timeout, f) // the connection has just ended, and has taken nothing
}

// elsewhere sends a message over the other Bus.
func (b *Messages) elsewhere(subject string, h store.Header, body []byte, timeout time.Duration, f func(store.Message, error)) error {
	if f == nil {
		return b.o.Bus.Tell(subject, h, body)
	}
	b.o.Bus.Ask(subject, h, body, timeout, f)
	return nil
}

// choose returns the connection for a message. With nil, the message has been sent over the other Bus, or waits.
func (b *Messages) choose(p *peer, subject string, h store.Header, body []byte, timeout time.Duration, f func(store.Message, error)) (*stream, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, known := p.routes[subject]
	switch {
	case r.next != nil:
		if len(r.held) >= maxHeld {
			return nil, fmt.Errorf("%w: too many messages wait for a connection", store.ErrUnavailable)
		}
		if err := r.room.Take(r.size + int64(len(body))); err != nil {
			return nil, noRoom(err)
		}
		r.size += int64(len(body))
		r.held = append(r.held, held{slices.Clone(h), slices.Clone(body), timeout, f})
		p.routes[subject] = r
		return nil, nil
	case r.via != nil:
		return r.via, nil
	case p.stream == nil || time.Now().Before(r.again):
		p.routes[subject] = route{again: r.again}
		b.dial(p)
		return nil, b.elsewhere(subject, h, body, timeout, f) // with the lock: a message must not overtake another one
	case !known && !p.before:
		p.routes[subject] = route{via: p.stream}
		return p.stream, nil
	}
	room, size := b.o.Room.Hold(), int64(len(body))
	if err := room.Take(size); err != nil {
		return nil, noRoom(err)
	}
	p.routes[subject] = route{next: p.stream, held: []held{{slices.Clone(h), slices.Clone(body), timeout, f}}, room: &room, size: size}
	b.o.Bus.Ask(subject, store.Header{{headerChange, "1"}}, nil, changeTime, func(m store.Message, err error) {
		if err == nil && m.Header.Get(headerChange) == "" {
			err = errors.New("the node does not change to the connection")
		}
		b.change(p, subject, err)
	})
	return nil, nil
}

// change sends what has waited: over the connection, or over the other Bus if the question had no answer. The messages
// of other subjects keep the connection.
func (b *Messages) change(p *peer, subject string, err error) {
	p.mu.Lock()
	waited := p.routes[subject]
	r := route{via: waited.next}
	send := func() {}
	if err != nil {
		b.log.Debug("messages to a node stay at NATS", "inc", p.process, "err", err)
		r = route{again: time.Now().Add(dialPause)}
	}
	for _, m := range waited.held {
		if r.via != nil {
			taken, failed := r.via.queue(subject, m.header, m.body, m.timeout, m.f)
			if failed != nil {
				b.fail(p, m, failed)
			}
			if taken {
				send = r.via.send
				continue
			}
		}
		r.via = nil
		if failed := b.elsewhere(subject, m.header, m.body, m.timeout, m.f); failed != nil {
			b.log.Warn("a message to a node is lost", "inc", p.process, "err", failed)
		}
	}
	waited.room.Release()
	p.routes[subject] = r
	p.mu.Unlock()
	send()
}

// fail ends a message that has waited and has no room on its connection.
func (b *Messages) fail(p *peer, m held, err error) {
	if m.f != nil {
		go m.f(store.Message{}, err) // it returns at once
		return
	}
	b.log.Warn("a message to a node is lost", "inc", p.process, "err", err)
}

// noRoom returns the error of a message that finds no room. It was not sent.
func noRoom(err error) error { return fmt.Errorf("%w: %w", store.ErrUnavailable, err) }

// Tell implements store.Bus.
func (b *Messages) Tell(subject string, h store.Header, body []byte) error {
	send, err := b.Queue(subject, h, body, 0, nil)
	send()
	return err
}

// Ask implements store.Bus. A question whose connection ends fails with a store.ErrUnavailable, at once.
func (b *Messages) Ask(subject string, h store.Header, body []byte, timeout time.Duration, f func(store.Message, error)) {
	send, err := b.Queue(subject, h, body, timeout, f)
	send()
	if err != nil {
		go f(store.Message{}, err) // it returns at once
	}
}

// Queue is Ask, or Tell if f is nil, of a caller that holds a lock under which messages get their order. The message has
// its place in the order when Queue returns, and the caller calls send without the lock: it may take as long as a write.
// The message belongs to the caller again when Queue returns. If it returns an error, f is not called.
func (b *Messages) Queue(subject string, h store.Header, body []byte, timeout time.Duration, f func(store.Message, error)) (send func(), err error) {
	p := b.to(subject)
	if p == nil {
		return sent, b.elsewhere(subject, h, body, timeout, f) // an Ask there tells f of its errors
	}
	if err := store.CheckMessage(subject, h, body); err != nil {
		return sent, err
	}
	s, err := b.queue(p, subject, h, body, timeout, f)
	if s == nil {
		return sent, err
	}
	return s.send, nil
}

// sent is for messages that are on their way.
func sent() {}

// Listen implements store.Bus.
func (b *Messages) Listen(subject string, f func(store.Message)) (stop func(), err error) {
	l := &listener{f: f}
	end, err := b.o.Bus.Listen(subject, func(m store.Message) {
		if m.Reply != nil && m.Header.Get(headerChange) != "" {
			l.mu.Lock() // the messages before it have been taken
			defer l.mu.Unlock()
			_ = m.Reply(store.Header{{headerChange, "1"}}, nil) // without an answer, the sender stays at the other Bus
			return
		}
		l.take(m)
	})
	if err != nil {
		return nil, err
	}
	b.heardMu.Lock()
	b.heard[subject] = append(b.heard[subject], l)
	b.heardMu.Unlock()
	return func() {
		l.stopped.Store(true)
		end()
		b.heardMu.Lock()
		defer b.heardMu.Unlock()
		rest := slices.DeleteFunc(slices.Clone(b.heard[subject]), func(x *listener) bool { return x == l })
		if b.heard[subject] = rest; len(rest) == 0 {
			delete(b.heard, subject)
		}
	}, nil
}

// hand gives a message to the listeners of its subject, and reports whether there are any.
func (b *Messages) hand(m store.Message) bool {
	b.heardMu.RLock()
	all := b.heard[m.Subject]
	b.heardMu.RUnlock()
	for i, l := range all {
		own := m
		if i < len(all)-1 { // they own what they get
			own.Header, own.Body = slices.Clone(m.Header), slices.Clone(m.Body)
		}
		l.take(own)
	}
	return len(all) > 0
}
