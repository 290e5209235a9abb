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
	// keepAlive is between comments where nothing happens: they show a browser
	// that is gone.
	keepAlive = 15 * time.Second
	// batch is how many events are written at once.
	batch = 64
)

// events is a stream of server-sent events: "call" has one event as in the log of
// events, "missed" says how many are gone that this browser has not read.
//
//	id: 7Q2MX4KD.41
//	event: call
//	data: {"time":"…","event":"execute.completed","tool_id":"…",…}
//
// after=ID goes on behind an event that was read before.
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
		everybody: c.o.Everybody, principal: guard.Principal(r.Context()), events: make([]telemetry.Event, batch),
	}
	// A stream lasts longer than a request is given to arrive in.
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

// begin finds the place of an event that was read before. Who has read none begins
// with the oldest that is kept, and has missed nothing.
func (s *stream) begin(after string) {
	s.out = append(s.out, "retry: 5000\n: events\n\n"...)
	id, number, _ := strings.Cut(after, ".")
	n, err := strconv.ParseUint(number, 10, 62)
	switch {
	case after == "":
		_, s.next, _ = s.watcher.read(0, nil)
	case err != nil || id != s.watcher.ring.id:
		s.missed(0) // of another time: nobody knows how many
	default:
		s.next = n + 1
	}
}

func (s *stream) missed(n uint64) {
	s.out = append(s.out, `event: missed`+"\n"+`data: {"missed":`...)
	s.out = strconv.AppendUint(s.out, n, 10)
	s.out = append(s.out, "}\n\n"...)
}

// follow writes until somebody goes: the browser, or the Console.
func (s *stream) follow(gone, done <-chan struct{}) {
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	rest := time.NewTimer(0)
	defer rest.Stop()
	for {
		select { // not more often than every pause
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

// write writes what else waits and the events that there are, once around the
// ring at most: what comes faster than that is missed.
func (s *stream) write() error {
	for range kept/batch + 1 {
		n, first, missed := s.watcher.read(s.next, s.events)
		if missed > 0 {
			s.missed(missed)
		}
		for i := range s.events[:n] {
			if e := &s.events[i]; s.everybody || e.Principal == "" || e.Principal == s.principal {
				s.append(first+uint64(i), e)
			}
		}
		clear(s.events[:n]) // their texts are not kept for a browser that sleeps
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

// flush sends what waits, and gives up on a browser that does not take it in time.
func (s *stream) flush() error {
	if len(s.out) == 0 {
		return nil
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(s.patience)) // a writer without deadlines does without
	_, err := s.w.Write(s.out)
	s.out = s.out[:0]
	if err != nil {
		return err
	}
	return s.control.Flush()
}
