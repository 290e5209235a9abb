package metatool

import (
	"context"
	"strings"
	"sync"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
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

// principalName stands before the name of a principal where its requests have no session.
const principalName = "principal:"

// Readings returns what the models of the open sessions have read, without those that have read nothing.
func (s *State) Readings(ctx context.Context) []flow.Reading {
	out, seen := []flow.Reading{}, map[*flow.Session]bool{}
	for _, st := range s.openSessions() {
		if st.flow == nil || seen[st.flow] {
			continue
		}
		seen[st.flow] = true
		if one := st.reading(ctx); !one.Nothing() {
			out = append(out, one)
		}
	}
	return out
}

func (st *sessionState) reading(ctx context.Context) flow.Reading {
	name := st.tag
	if st.flow.Principal() {
		name = principalName + st.principal
	}
	return readingOf(ctx, st.flow, name, st.principal)
}

func readingOf(ctx context.Context, of *flow.Session, name, principal string) flow.Reading {
	l, from := of.Sources(ctx)
	return flow.Reading{Session: name, Principal: principal, Integrity: l.Integrity(), Confidentiality: append([]string{}, l.Confidentiality...), Sources: append([]flow.Source{}, from...)}
}

// ClearReading forgets what the model of a session has read, and returns it. The name is of Readings; ok is false if no
// open session has it.
func (s *State) ClearReading(ctx context.Context, name string) (was flow.Reading, ok bool, err error) {
	if principal, yes := strings.CutPrefix(name, principalName); yes {
		of := s.labels.hold(principal, s.recalls.shared)
		was = readingOf(ctx, of, name, principal)
		return was, true, of.Clear(ctx)
	}
	for _, st := range s.openSessions() {
		if st.flow != nil && st.tag == name && !st.flow.Principal() {
			was = st.reading(ctx)
			return was, true, st.flow.Clear(ctx)
		}
	}
	return was, false, nil
}

// shownDefinitions gives a session the labels of the definitions of a kind that it is shown.
func (a *caller) shownDefinitions(ctx context.Context, st *sessionState, of *catalog.Catalog, kind primitive.Kind) {
	if a.flow == nil {
		return
	}
	var l flow.Label
	for _, e := range of.Entries() {
		if e.Kind == kind {
			l = l.Join(a.flow.Definition(e))
		}
	}
	a.flow.Read(ctx, st.flow, l, nil)
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
