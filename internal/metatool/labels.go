package metatool

import (
	"sync"

	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/limit/bounded"
	"github.com/weir-mcp/weir/internal/store"
)

// principalLabels are the labels of principals of the modern era, which has no sessions: all requests of a principal
// share one. It is safe for concurrent use; docs must be set.
type principalLabels struct {
	docs store.Docs // of sessions as well; set before the first use

	mu sync.Mutex // guards below
	of *bounded.Map[string, *flow.Session]
}

// maxPrincipalLabels bounds the labels in memory. A store has the others.
const maxPrincipalLabels = 10_000

// hold returns the label of a principal.
func (l *principalLabels) hold(principal string, shared bool) *flow.Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = bounded.New(bounded.Options[string, *flow.Session]{MaxCount: maxPrincipalLabels, KeepUsed: true})
	}
	s, ok := l.of.Get(principal)
	if !ok {
		s = flow.NewSession(l.docs, "principal", principal, false, shared)
		l.of.Put(principal, s, 1)
	}
	return s
}
