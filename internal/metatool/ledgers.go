package metatool

import (
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/cluster/sessionid"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/mcp"
)

// ledgers are the quotas of principals in the modern era, which has no sessions. A transport has one
// session for a principal at each endpoint, and all of them share the principal's ledger. It is kept
// as long as one of them is. It is safe for concurrent use; the zero value is empty.
type ledgers struct {
	grants *dispatch.Grants // makes quotas outlast the process; nil: they end with it. Set before the first use

	mu sync.Mutex // guards below
	of map[string]*sharedLedger
}

// sharedLedger is a ledger and the number of sessions that use it.
type sharedLedger struct {
	dispatch.Ledger
	sessions int
}

// hold returns the ledger of a principal. release must be called once the session that uses it has
// ended; it may be called again.
func (l *ledgers) hold(principal string) (ledger *dispatch.Ledger, release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of[principal]
	if s == nil {
		s = &sharedLedger{Ledger: dispatch.Ledger{Started: time.Now()}}
		if l.grants != nil {
			l.grants.Principal(&s.Ledger, principal)
		}
		if l.of == nil {
			l.of = map[string]*sharedLedger{}
		}
		l.of[principal] = s
	}
	s.sessions++
	return &s.Ledger, sync.OnceFunc(func() {
		l.mu.Lock()
		s.sessions--
		last := s.sessions == 0
		if last {
			delete(l.of, principal)
		}
		l.mu.Unlock()
		if last {
			s.End()
		}
	})
}

// own returns the ledger of a session of the legacy era.
func (l *ledgers) own(of *mcp.Session) *dispatch.Ledger {
	own := &dispatch.Ledger{Started: time.Now()}
	if l.grants != nil {
		own.Leases = l.grants.Session(of.ID())
	}
	if born, ok := sessionid.Born(of); ok {
		own.Started = born
	}
	if own.Leases != nil {
		of.OnClose(own.End)
	}
	return own
}
