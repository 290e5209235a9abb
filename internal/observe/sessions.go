package observe

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// SessionCount counts the sessions of clients before 2026-07-28 at all endpoints, and those that ended early because
// http.max_sessions was reached. It is safe for concurrent use.
type SessionCount struct {
	living   atomic.Int64
	replaced atomic.Int64
	log      *slog.Logger

	mu     sync.Mutex // guards below
	logged time.Time
}

// newSessionCount returns a SessionCount of no sessions.
func newSessionCount(log *slog.Logger) *SessionCount { return &SessionCount{log: log} }

// Figures returns the sessions that live, and those that ended early.
func (c *SessionCount) Figures() (living, replaced int64) { return c.living.Load(), c.replaced.Load() }

// On takes what streamable.ServerOptions.OnSession is called with. The log says once a minute that sessions are replaced.
func (c *SessionCount) On(change int, replaced string) {
	c.living.Add(int64(change))
	if replaced == "" {
		return
	}
	count := c.replaced.Add(1)
	c.mu.Lock()
	due := c.logged.IsZero() || time.Since(c.logged) >= time.Minute
	if due {
		c.logged = time.Now()
	}
	c.mu.Unlock()
	if due {
		c.log.Warn("an endpoint has as many sessions as http.max_sessions: new ones take the places of those that are idle, whose clients begin again; raise the key, or lower http.session_idle", "principal", replaced, "replaced", count)
	}
}
