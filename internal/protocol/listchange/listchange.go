package listchange

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// The notifications.
const (
	Tools     = "notifications/tools/list_changed"
	Resources = "notifications/resources/list_changed"
	Prompts   = "notifications/prompts/list_changed"
)

// tellTimeout bounds the time that one session has for a notification.
const tellTimeout = time.Second

// Notifier notifies clients that a list has changed: legacy sessions on their own channel, modern
// clients on their subscription. Several changes of one list that are not delivered yet become one
// notification. It is safe for concurrent use. Make one with New; Close ends it.
type Notifier struct {
	telling sync.WaitGroup // Add under mu

	mu        sync.Mutex // guards below
	sessions  map[*mcp.Session]func()
	listeners map[*listener]struct{}
	pending   []string // for the sessions
	busy      bool     // tellSessions runs
	closed    bool
	ctx       context.Context
	cancel    context.CancelFunc
}

// listener is a subscription of a modern client.
type listener struct {
	methods []string      // that it wants
	ready   chan struct{} // capacity 1
	pending []string      // guarded by Notifier.mu
}

// New makes a Notifier that knows no client yet.
func New() *Notifier {
	c := &Notifier{sessions: map[*mcp.Session]func(){}, listeners: map[*listener]struct{}{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Add registers a legacy session, which gets notifications until it ends.
func (c *Notifier) Add(s *mcp.Session) {
	c.mu.Lock()
	_, known := c.sessions[s]
	if c.closed || known {
		c.mu.Unlock()
		return
	}
	c.sessions[s] = nil
	c.mu.Unlock()
	stop := s.OnClose(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.sessions, s)
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.sessions[s]; ok {
		c.sessions[s] = stop
	}
}

func merge(into, add []string) []string {
	for _, m := range add {
		if !slices.Contains(into, m) {
			into = append(into, m)
		}
	}
	return into
}

// Tell sends notifications of the given methods to all clients. It does not wait for them.
func (c *Notifier) Tell(methods ...string) {
	if len(methods) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.listeners {
		for _, m := range methods {
			if slices.Contains(l.methods, m) {
				l.pending = merge(l.pending, []string{m})
			}
		}
		select {
		case l.ready <- struct{}{}:
		default:
		}
	}
	c.pending = merge(c.pending, methods)
	if !c.busy && !c.closed {
		c.busy = true
		c.telling.Go(c.tellSessions)
	}
}

// tellSessions notifies the sessions, one after the other, until no notification is pending.
func (c *Notifier) tellSessions() {
	for {
		c.mu.Lock()
		methods := c.pending
		c.pending = nil
		if methods == nil || c.closed {
			c.busy = false
			c.mu.Unlock()
			return
		}
		var all []*mcp.Session
		for s := range c.sessions {
			all = append(all, s)
		}
		c.mu.Unlock()
		for _, s := range all {
			ctx, cancel := context.WithTimeout(c.ctx, tellTimeout)
			for _, m := range methods {
				_ = s.Peer().Notify(ctx, m, nil) // a session that cannot be reached lists again some time
			}
			cancel()
		}
	}
}

// Close forgets all clients and waits for the notification that is being sent.
func (c *Notifier) Close() {
	c.mu.Lock()
	c.closed = true
	stops := make([]func(), 0, len(c.sessions))
	for _, stop := range c.sessions {
		if stop != nil {
			stops = append(stops, stop)
		}
	}
	clear(c.sessions)
	c.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	c.cancel()
	c.telling.Wait()
}

// Listen serves subscriptions/listen (2026-07-28), until the client closes it. It is an
// mcp.HandlerFunc.
func (c *Notifier) Listen(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	if r.IsNotification() {
		return nil, nil
	}
	if !r.Modern() {
		return nil, mcp.MethodNotFound(r.Method)
	}
	wanted := rawjson.Get(r.Params, "notifications")
	if !rawjson.IsObject(wanted) {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "subscriptions/listen needs notifications, an object that says of what")
	}
	l := &listener{ready: make(chan struct{}, 1)}
	granted := map[string]bool{}
	for key, method := range map[string]string{"toolsListChanged": Tools, "resourcesListChanged": Resources, "promptsListChanged": Prompts} {
		if string(rawjson.Get(wanted, key)) == "true" {
			l.methods = append(l.methods, method)
			granted[key] = true
		}
	}
	ack, err := json.Marshal(map[string]any{"notifications": granted})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.listeners[l] = struct{}{}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.listeners, l)
	}()
	if err := notifySubscription(ctx, r, "notifications/subscriptions/acknowledged", ack); err != nil {
		return nil, err
	}
	for {
		select {
		case <-ctx.Done():
			return withSubscription(json.RawMessage("{}"), r.ID)
		case <-l.ready:
		}
		c.mu.Lock()
		methods := l.pending
		l.pending = nil
		c.mu.Unlock()
		for _, m := range methods {
			if err := notifySubscription(ctx, r, m, nil); err != nil {
				return nil, err
			}
		}
	}
}

func notifySubscription(ctx context.Context, r *mcp.Request, method string, params json.RawMessage) error {
	params, err := withSubscription(params, r.ID)
	if err != nil {
		return err
	}
	return r.Peer.Notify(ctx, method, params)
}

func withSubscription(params json.RawMessage, id jsonrpc.ID) (json.RawMessage, error) {
	return rawjson.SetPath(params, []byte(id), "_meta", mcp.MetaSubscriptionID)
}
