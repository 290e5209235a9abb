package router

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// agent is a legacy session as a listener: what it gets from an upstream in addition to answers.
type agent struct {
	session   *mcp.Session
	post      *bridge.Post
	resources bridge.Resources
}

type agentKey struct{}

// agentOf returns what was attached to a session, nil for one that lasts no
// longer than its request.
func agentOf(s *mcp.Session) *agent {
	a, _ := s.Value(agentKey{}, nil).(*agent)
	return a
}

// attach has an initialized session told what changes in the upstream.
func (p *passthrough) attach(ctx context.Context, s *mcp.Session) {
	a := &agent{session: s}
	a.post = bridge.NewPost(&p.fan, func(ctx context.Context, n bridge.Notice) {
		if err := s.Peer().Notify(ctx, n.Method, n.Params); err != nil {
			p.log.Debug("an agent was not told of a change", "upstream", p.name, "method", n.Method, "err", err)
		}
	})
	s.Value(agentKey{}, func() any { return a })
	unsubscribe := p.up.Subscribe(ctx, func(method string, params json.RawMessage) {
		if method != "notifications/message" || bridge.Wanted(p.levels.Of(s), params) {
			a.post.Put(method, params)
		}
	})
	s.OnClose(func() {
		unsubscribe()
		a.post.End()
		a.resources.End()
	})
}

func resourceOf(r *mcp.Request) (string, error) {
	uri := rawjson.Text(r.Fields().URI)
	if uri == "" {
		return "", mcp.Errorf(mcp.KindInvalidParams, "%s needs a uri", r.Method)
	}
	return uri, nil
}

// subscribe has a session told of updates of a resource. The upstream is asked
// by the first session that wants them.
func (p *passthrough) subscribe(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	uri, err := resourceOf(r)
	if err != nil {
		return nil, err
	}
	a := agentOf(r.Session)
	if a == nil {
		return nil, mcp.Errorf(mcp.KindInvalidRequest, "%s needs a session, or nobody could be told of an update; send initialize first", r.Method)
	}
	err = a.resources.Subscribe(ctx, p.up, uri, func(params json.RawMessage) {
		if p.tellsOf(params) {
			a.post.Put(bridge.ResourceUpdated, params)
		}
	})
	if err != nil {
		return nil, failedToReach(err)
	}
	return json.RawMessage("{}"), nil
}

// unsubscribe is the inverse of subscribe.
func (p *passthrough) unsubscribe(r *mcp.Request) (json.RawMessage, error) {
	uri, err := resourceOf(r)
	if err != nil {
		return nil, err
	}
	a := agentOf(r.Session)
	if a != nil {
		a.resources.Unsubscribe(uri)
	}
	return json.RawMessage("{}"), nil
}

// maxLone bounds the principals that are remembered for requests without a
// session.
const maxLone = 256

// loneSessions are the sessions on whose behalf requests without one are made,
// one for each principal: an upstream that keeps a connection for each session
// is then greeted once and not by each request.
type loneSessions struct {
	mu     sync.Mutex // guards below
	byName map[string]*mcp.Session
	names  []string // the oldest first
	closed bool
}

func (l *loneSessions) of(principal string) *mcp.Session {
	l.mu.Lock()
	s := l.byName[principal]
	if s != nil {
		l.mu.Unlock()
		return s
	}
	s = mcp.NewSession("", principal)
	var old *mcp.Session
	if l.closed {
		l.mu.Unlock()
		s.Close()
		return s
	}
	if l.byName == nil {
		l.byName = map[string]*mcp.Session{}
	}
	if len(l.names) >= maxLone {
		old = l.byName[l.names[0]]
		delete(l.byName, l.names[0])
		l.names = append(l.names[:0], l.names[1:]...)
	}
	l.byName[principal] = s
	l.names = append(l.names, principal)
	l.mu.Unlock()
	if old != nil {
		old.Close()
	}
	return s
}

func (l *loneSessions) close() {
	l.mu.Lock()
	l.closed = true
	all := l.byName
	l.byName, l.names = nil, nil
	l.mu.Unlock()
	for _, s := range all {
		s.Close()
	}
}

// caller is the session on whose behalf the upstream is called.
func (p *passthrough) caller(r *mcp.Request) *mcp.Session {
	if r.Modern() || r.Method == "initialize" || agentOf(r.Session) != nil {
		return r.Session
	}
	return p.lone.of(r.Session.Principal())
}
