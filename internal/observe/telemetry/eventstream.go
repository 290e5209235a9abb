package telemetry

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text/visible"
)

const (
	// streamPause is how long events are gathered for one batch.
	streamPause = 250 * time.Millisecond
	// streamBatch is the size at which a batch is sent at once, in bytes.
	streamBatch = 64 << 10
	// streamRoom bounds the events that wait, in bytes. Further ones are lost.
	streamRoom = 1 << 20
	// streamPatience is how long a batch is tried: an election of the store takes up to eight seconds.
	streamPatience = 12 * time.Second
	// streamAgain is the wait between attempts.
	streamAgain = 500 * time.Millisecond
	// streamSay is how often the log says that events were lost.
	streamSay = time.Minute
	// streamDrain bounds the time in which Close sends what waits.
	streamDrain = time.Second
)

// StreamOptions configures an EventStream.
type StreamOptions struct {
	// Send stores a batch, lines of JSON, and returns when it is stored. It is called again with the same id if it has
	// failed, and must then not store the batch twice. Calls do not overlap. The batch belongs to Send until it returns.
	Send func(ctx context.Context, id string, lines []byte) error
	// Node and Inc name the gateway in each event; nil: the gateway is one node.
	Node string
	Inc  func() string
	// Logger gets what was lost, once a minute.
	Logger *slog.Logger
}

// EventStream sends events in batches. Write never waits: events that find no room are lost and counted. It is safe for
// concurrent use.
//
//	Write ─▶ filling ─▶ full batches, up to streamRoom ─▶ one goroutine ─▶ Send
type EventStream struct {
	o    StreamOptions
	id   string        // starts the ids of batches
	more chan struct{} // capacity 1: a batch has its first event
	full chan struct{} // capacity 1: a batch is full
	done chan struct{} // closed when the goroutine has ended

	ctx    context.Context // of Send
	cancel context.CancelFunc
	ending chan struct{} // closed by Close

	mu         sync.Mutex // guards below
	line       []byte     // the last event
	queue      []eventBatch
	bytes      int // of queue
	closed     bool
	sent, lost int64

	// The goroutine alone uses the fields below.
	batches int64
	said    int64 // of lost
	saidAt  time.Time
	reason  error // of the last failure
}

// eventBatch is lines of JSON and their number.
type eventBatch struct {
	lines []byte
	n     int64
}

// NewEventStream returns an EventStream. The caller must call Close.
func NewEventStream(o StreamOptions) *EventStream {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &EventStream{o: o, id: rand.Text()[:12] + ".", more: make(chan struct{}, 1), full: make(chan struct{}, 1), done: make(chan struct{}), ending: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	go s.run()
	return s
}

// Write adds an event.
func (s *EventStream) Write(e Event) {
	inc := ""
	if s.o.Inc != nil {
		inc = s.o.Inc()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.lost++
		return
	}
	s.line = e.AppendJSON(s.line[:0])
	if s.o.Inc != nil {
		s.line = rawjson.AppendString(append(s.line[:len(s.line)-1], `,"node":`...), s.o.Node)
		s.line = append(rawjson.AppendString(append(s.line, `,"inc":`...), inc), '}')
	}
	s.line = append(s.line, '\n')
	line := visible.JSON(s.line)
	if s.bytes+len(line) > streamRoom || len(line) > streamRoom/2 {
		s.lost++
		return
	}
	s.bytes += len(line)
	last := len(s.queue) - 1
	if last < 0 || len(s.queue[last].lines)+len(line) > streamBatch {
		s.queue = append(s.queue, eventBatch{})
		signal(s.more)
		if last++; last > 0 {
			signal(s.full)
		}
	}
	b := &s.queue[last]
	b.lines, b.n = append(b.lines, line...), b.n+1
	if cap(s.line) > maxKeptLine {
		s.line = nil
	}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Figures returns how many events were stored, and how many were lost: those that found no room, and those of batches
// that were not confirmed. The latter may be stored.
func (s *EventStream) Figures() (sent, lost int64) {
	if s == nil {
		return 0, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent, s.lost
}

// Close sends what waits, for a second at most, and waits for the goroutine. Later events are lost. Close may be called
// again, and on nil.
func (s *EventStream) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if first {
		close(s.ending)
	}
	late := time.AfterFunc(streamDrain, s.cancel)
	defer late.Stop()
	<-s.done
	s.cancel()
}

// run sends batches until Close.
func (s *EventStream) run() {
	defer close(s.done)
	for {
		select {
		case <-s.more:
		case <-s.ending:
		}
		s.gather()
		last := s.isEnding() // before take: no event comes after the end
		for b, ok := s.take(); ok; b, ok = s.take() {
			stored := s.deliver(b)
			s.mu.Lock()
			if stored {
				s.sent += b.n
			} else {
				s.lost += b.n
			}
			lost := s.lost
			s.mu.Unlock()
			s.say(lost, false)
		}
		if last {
			_, lost := s.Figures()
			s.say(lost, true)
			return
		}
	}
}

func (s *EventStream) isEnding() bool {
	select {
	case <-s.ending:
		return true
	default:
		return false
	}
}

// gather waits until a batch is full, or for a moment.
func (s *EventStream) gather() {
	pause := time.NewTimer(streamPause)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-s.full:
	case <-s.ending:
	}
}

// take removes the oldest batch.
func (s *EventStream) take() (b eventBatch, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		s.queue = nil
		return b, false
	}
	b = s.queue[0]
	s.queue[0], s.queue = eventBatch{}, s.queue[1:]
	s.bytes -= len(b.lines)
	return b, true
}

// deliver sends a batch until it is stored, and reports whether it is.
func (s *EventStream) deliver(b eventBatch) bool {
	s.batches++
	id := s.id + strconv.FormatInt(s.batches, 36)
	for end := time.Now().Add(streamPatience); ; {
		err := s.o.Send(s.ctx, id, b.lines)
		if err == nil {
			return true
		}
		s.reason = err
		if s.ctx.Err() != nil || !time.Now().Before(end) {
			return false
		}
		_, lost := s.Figures()
		s.say(lost, false)
		again := time.NewTimer(streamAgain)
		select {
		case <-again.C:
		case <-s.ctx.Done():
			again.Stop()
		}
	}
}

// say logs events that were lost since the last time, once a minute and at the end.
func (s *EventStream) say(lost int64, last bool) {
	if lost == s.said || !last && !s.saidAt.IsZero() && time.Since(s.saidAt) < streamSay {
		return
	}
	s.o.Logger.Warn("events are missing in the stream of the store (events.stream)", "lost", lost-s.said, "err", s.reason)
	s.said, s.saidAt = lost, time.Now()
}
