package console

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/guard"
	"github.com/weir-mcp/weir/internal/telemetry"
	"github.com/weir-mcp/weir/mcp"
)

const (
	// pause is between two writes of a stream, so that many calls are few writes.
	pause = 50 * time.Millisecond
	// keepAlive is the interval of comments while nothing happens. They detect a browser that is
	// gone.
	keepAlive = 15 * time.Second
	// batch is how many events are written at once.
	batch = 64
)

// events serves a stream of server-sent events. "call" has one event as in the event log; "missed"
// has the number of events that this browser did not receive.
//
//	id: 7Q2MX4KD.41
//	event: call
//	data: {"time":"…","event":"execute.completed","tool_id":"…",…}
//
// after=ID continues after an event that the browser has received.
func (c *Console) events(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if r.Method == http.MethodHead {
		h.Set("Content-Type", "text/event-stream")
		return
	}
	watcher, err := c.o.Feed.watch()
	if err != nil {
		h.Set("Retry-After", "30")
		refuse(w, http.StatusServiceUnavailable, mcp.Errorf(mcp.KindOverloaded, "%s", err.Error()))
		return
	}
	defer func() { watcher.leave(time.Now()) }()
	s := &stream{
		control: http.NewResponseController(w), w: w, watcher: watcher, patience: c.o.Patience,
		everybody: c.o.Gateway.SeesAll(r.Context()), principal: guard.Principal(r.Context()), events: make([]telemetry.Event, batch),
	}
	// A stream lasts longer than the read timeout of requests.
	if err := s.control.SetReadDeadline(time.Time{}); err != nil {
		c.o.Logger.Debug("a stream of events may end early", "err", err)
	}
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	s.begin(r.URL.Query().Get("after"))
	if err := s.flush(); err != nil {
		return
	}
	s.follow(r.Context().Done(), c.done)
	_ = s.control.SetWriteDeadline(time.Time{}) // the connection may be used again
}

// stream is one browser that reads events.
type stream struct {
	w         http.ResponseWriter
	control   *http.ResponseController
	watcher   *watcher
	patience  time.Duration
	everybody bool
	principal string

	next   uint64 // the number of the event to read next
	events []telemetry.Event
	out    []byte
}

// begin finds the position after an event that the browser has received. A new browser begins with
// the oldest stored event and has missed none.
func (s *stream) begin(after string) {
	s.out = append(s.out, "retry: 5000\n: events\n\n"...)
	id, number, _ := strings.Cut(after, ".")
	n, err := strconv.ParseUint(number, 10, 62)
	switch {
	case after == "":
		_, s.next, _ = s.watcher.read(0, nil)
	case err != nil || id != s.watcher.ring.id:
		s.missed(0) // of an earlier ring: the number is unknown
	default:
		s.next = n + 1
	}
}

func (s *stream) missed(n uint64) {
	s.out = append(s.out, `event: missed`+"\n"+`data: {"missed":`...)
	s.out = strconv.AppendUint(s.out, n, 10)
	s.out = append(s.out, "}\n\n"...)
}

// follow writes events until the browser disconnects or the Console closes.
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
		case <-s.watcher.wake:
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
	for range feedSize/batch + 1 {
		n, first, missed := s.watcher.read(s.next, s.events)
		if missed > 0 {
			s.missed(missed)
		}
		for i := range s.events[:n] {
			if e := &s.events[i]; s.everybody || e.Principal == "" || e.Principal == s.principal {
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
	s.out = append(append(s.out, "id: "...), s.watcher.ring.id...)
	s.out = strconv.AppendUint(append(s.out, '.'), number, 10)
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
