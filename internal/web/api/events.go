package api

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/observe/history"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/mcp"
)

const (
	// patience is the default of Look.Patience.
	patience = 10 * time.Second
	// pause is between two writes of a stream, so that many calls are few writes.
	pause = 50 * time.Millisecond
	// keepAlive is the interval of comments while nothing happens. They detect a browser that is
	// gone.
	keepAlive = 15 * time.Second
	// batch is how many events are written at once.
	batch = 64
)

// stream serves calls/stream, a stream of server-sent events. "call" has one event as in the event
// log; "missed" has the number of events that this viewer did not receive; "end" is the last one if
// the credential of the viewer has ended.
//
//	id: 7Q2MX4KD.41
//	event: call
//	data: {"time":"…","event":"execute.completed","tool_id":"…",…}
//
// after=ID continues after an event that the viewer has received.
func (a *API) stream(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return nil
	}
	book := a.o.Look.History
	watcher, err := book.Watch(identity.From(r.Context()).Principal)
	if err != nil {
		h.Set("Retry-After", "30")
		return mcp.Errorf(mcp.KindOverloaded, "%s", err.Error())
	}
	defer watcher.Leave()
	s := &stream{
		control: http.NewResponseController(w), w: w, book: book, watcher: watcher, patience: cmp.Or(a.o.Look.Patience, patience),
		sees: a.seer(r.Context()), events: make([]telemetry.Event, batch),
	}
	// A stream lasts longer than the read timeout of requests.
	if err := s.control.SetReadDeadline(time.Time{}); err != nil {
		a.o.Logger.Debug("a stream of events may end early", "err", err)
	}
	h.Set("X-Accel-Buffering", "no")
	s.start(r.URL.Query().Get("after"))
	if err := s.flush(); err != nil {
		return nil
	}
	ctx, end := guard.Lasting(r.Context())
	defer end()
	s.follow(ctx.Done(), a.closing.Done())
	s.out = appendEnd(s.out[:0], ctx)
	_ = s.flush()                               // the browser may have gone
	_ = s.control.SetWriteDeadline(time.Time{}) // the connection may be used again
	return nil
}

// seer returns whether the viewer of a request may see an event: one of the viewer's own, one of no
// caller, or any if the viewer sees the calls of all callers.
func (a *API) seer(ctx context.Context) func(*telemetry.Event) bool {
	if a.o.Look.Gateway.SeesAll(ctx) {
		return func(*telemetry.Event) bool { return true }
	}
	principal := identity.From(ctx).Principal
	return func(e *telemetry.Event) bool { return e.Principal == "" || e.Principal == principal }
}

// stream is one browser that reads events.
type stream struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	book     *history.Book
	watcher  *history.Watcher
	patience time.Duration
	sees     func(*telemetry.Event) bool

	next   uint64 // the number of the event to read next
	events []telemetry.Event
	out    []byte
}

// start finds the position after an event that the browser has received. A new browser starts with
// the oldest stored event and has missed none.
func (s *stream) start(after string) {
	s.out = append(s.out, "retry: 5000\n: events\n\n"...)
	n, known := s.book.Number(after)
	switch {
	case after == "":
		_, s.next, _ = s.watcher.Read(0, nil)
	case !known:
		s.missed(0) // of an earlier run: the number is unknown
	default:
		s.next = n + 1
	}
}

func (s *stream) missed(n uint64) {
	s.out = append(s.out, `event: missed`+"\n"+`data: {"missed":`...)
	s.out = strconv.AppendUint(s.out, n, 10)
	s.out = append(s.out, "}\n\n"...)
}

// follow writes events until the viewer disconnects or the API closes.
func (s *stream) follow(gone, done <-chan struct{}) {
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	rest := time.NewTimer(0)
	defer rest.Stop()
	for {
		select { // at most once per pause
		case <-rest.C:
		case <-gone:
			return
		case <-done:
			return
		}
		if s.write() != nil {
			return
		}
		select {
		case <-s.watcher.More():
		case <-alive.C:
			s.out = append(s.out, ": \n\n"...)
		case <-gone:
			return
		case <-done:
			return
		}
		rest.Reset(pause)
	}
}

// write writes the pending text and the available events, at most one round of the ring. Events
// that arrive faster are missed.
func (s *stream) write() error {
	for range history.Kept/batch + 1 {
		n, first, missed := s.watcher.Read(s.next, s.events)
		if missed > 0 {
			s.missed(missed)
		}
		for i := range s.events[:n] {
			if e := &s.events[i]; s.sees(e) {
				s.append(first+uint64(i), e)
			}
		}
		clear(s.events[:n]) // do not retain their texts while waiting
		s.next = first + uint64(n)
		if err := s.flush(); err != nil || n < len(s.events) {
			return err
		}
	}
	return nil
}

func (s *stream) append(number uint64, e *telemetry.Event) {
	s.out = append(append(s.out, "id: "...), s.book.ID(number)...)
	s.out = append(e.AppendJSON(append(s.out, "\nevent: call\ndata: "...)), "\n\n"...)
}

// flush sends the pending text. It fails if the browser does not read it in time.
func (s *stream) flush() error {
	if len(s.out) == 0 {
		return nil
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(s.patience)) // not every writer supports deadlines
	_, err := s.w.Write(s.out)
	s.out = s.out[:0]
	if err != nil {
		return err
	}
	return s.control.Flush()
}
