package passthrough

import (
	"strings"
	"sync"
	"time"
)

// taskShares bounds the documents that taskDocs writes for each principal: maxKeptTasks in taskTTL. As
// a document ends after taskTTL, a principal has at most twice as many at a time. The zero value is
// ready to use.
type taskShares struct {
	mu    sync.Mutex // guards below
	since time.Time
	used  map[string]int // by principal
}

const (
	// maxKeptTasks is the share of one principal at one server.
	maxKeptTasks = 10_000
	// maxSharers bounds the principals with a share of their own. All others have one together.
	maxSharers = 10_000
)

// take takes one document of the share of a principal. ok is false if none is left; first says that
// this is the first refusal.
func (s *taskShares) take(principal string) (ok, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.used == nil || now.Sub(s.since) >= taskTTL {
		s.since, s.used = now, map[string]int{}
	}
	principal = s.sharer(principal)
	n := s.used[principal]
	if n <= maxKeptTasks {
		s.used[strings.Clone(principal)] = n + 1
	}
	return n < maxKeptTasks, n == maxKeptTasks
}

// back returns the room that take has taken for a document that was not written.
func (s *taskShares) back(principal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if principal = s.sharer(principal); s.used[principal] > 0 {
		s.used[principal]--
	}
}

// sharer returns whose share a principal uses. The caller holds mu.
func (s *taskShares) sharer(principal string) string {
	if _, there := s.used[principal]; there || len(s.used) < maxSharers {
		return principal
	}
	return ""
}
