package web

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// multiplexed gives a response over HTTP/2 two meanings that the rest of weir knows from HTTP/1.1:
//
//   - A write deadline bounds writes. net/http resets a stream of HTTP/2 at its deadline, also one that
//     is idle by then, such as an event stream between two events. So the deadline is set only for
//     the time of a write.
//   - Connection: close ends the connection after a request whose body is not read. On HTTP/2 the
//     stream ends, and the other streams of the connection go on. While the Server drains, the header
//     stays: net/http makes a GOAWAY of it.
type multiplexed struct {
	http.ResponseWriter
	control  *http.ResponseController // of ResponseWriter
	draining *atomic.Bool
	begun    bool // the header has been written

	mu       sync.Mutex // guards below
	deadline time.Time
	writing  bool
}

func newMultiplexed(w http.ResponseWriter, draining *atomic.Bool) *multiplexed {
	return &multiplexed{ResponseWriter: w, control: http.NewResponseController(w), draining: draining}
}

// Unwrap is for http.ResponseController.
func (m *multiplexed) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// start runs before the header is written.
func (m *multiplexed) start() {
	if !m.begun {
		m.begun = true
		if !m.draining.Load() {
			m.Header().Del("Connection")
		}
	}
}

// WriteHeader implements http.ResponseWriter.
func (m *multiplexed) WriteHeader(status int) {
	if status >= http.StatusOK {
		m.start()
	}
	m.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (m *multiplexed) Write(p []byte) (int, error) {
	m.start()
	defer m.bounded()()
	return m.ResponseWriter.Write(p)
}

// FlushError is for http.ResponseController.
func (m *multiplexed) FlushError() error {
	m.start()
	defer m.bounded()()
	return m.control.Flush()
}

// Flush implements http.Flusher.
func (m *multiplexed) Flush() { _ = m.FlushError() }

// SetWriteDeadline is for http.ResponseController. It may be called during a write.
func (m *multiplexed) SetWriteDeadline(deadline time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.deadline = deadline; m.writing {
		return m.control.SetWriteDeadline(deadline)
	}
	return nil
}

// bounded sets the deadline for a write that starts. The returned function takes it away.
func (m *multiplexed) bounded() (end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.writing = true; !m.deadline.IsZero() {
		_ = m.control.SetWriteDeadline(m.deadline) // every stream has deadlines
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.writing = false; !m.deadline.IsZero() {
			_ = m.control.SetWriteDeadline(time.Time{})
		}
	}
}
