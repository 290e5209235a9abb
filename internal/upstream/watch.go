package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/upstream/subscription"
	"github.com/weir-mcp/weir/mcp"
)

const (
	// watchAgain is the time between two attempts to subscribe at the node that has taken a server over.
	watchAgain = 500 * time.Millisecond
	// watchRefusals bounds the attempts that such a node, or the server, answers with an error: a node that has
	// just started to start the server does so.
	watchRefusals = 60
)

// watches are the subscriptions at one upstream that go with its server to another node. The zero value is ready to
// use. It is safe for concurrent use.
type watches struct {
	mu    sync.Mutex // guards below; taken before watch.mu
	moved bool
	all   map[*watch]struct{}
}

// add adds a subscription unless it is stopped. It returns false if the server has moved: it goes there.
func (ws *watches) add(w *watch) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.moved {
		return false
	}
	if ws.all == nil {
		ws.all = map[*watch]struct{}{}
	}
	if !w.isStopped() {
		ws.all[w] = struct{}{}
	}
	return true
}

func (ws *watches) remove(w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.all, w)
}

// move subscribes at the upstream that has the place of the former one, and keeps none.
func (ws *watches) move(next *Upstream) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.moved = true
	for w := range ws.all {
		next.conns.spawn(func() { w.moveTo(next) })
	}
	clear(ws.all)
}

// watch is the subscription of one function to a resource. It goes with its server to another node.
type watch struct {
	session *mcp.Session
	uri     string
	fn      func(params json.RawMessage)

	mu      sync.Mutex // guards below
	at      *Upstream
	r       *subscription.Resource // at that upstream
	stopped bool
}

// begin subscribes at an upstream, in place of the one before. The error is errMoved if another upstream has the place
// of u.
func (w *watch) begin(ctx context.Context, u *Upstream) error {
	r, err := u.conns.subs.Resource(w.uri, w.fn)
	if err != nil {
		return err
	}
	err = u.with(ctx, false, func(l *link) error { return r.Begin(ctx, l.slot.line, l) })
	if err != nil {
		r.Abandon()
		return err
	}
	w.mu.Lock()
	before, stopped := w.r, w.stopped
	w.at, w.r = u, r
	w.mu.Unlock()
	if before != nil {
		before.Abandon() // its upstream ends
	}
	if stopped {
		r.Stop()
		return nil
	}
	if !u.watches.add(w) {
		next := u.next.Load()
		next.conns.spawn(func() { w.moveTo(next) })
	}
	return nil
}

// moveTo subscribes at the upstream that has the place of the former one, as soon as it can be called.
func (w *watch) moveTo(u *Upstream) {
	ctx := mcp.WithCaller(u.conns.ctx, w.session)
	for refusals := 0; !w.isStopped(); {
		err := w.begin(ctx, u)
		switch {
		case err == nil:
			if w.isStopped() { // meanwhile
				w.stop()
			}
			return
		case errors.Is(err, errMoved):
			next := u.next.Load()
			next.conns.spawn(func() { w.moveTo(next) })
			return
		case mcp.IsAnswer(err):
			if refusals++; refusals == watchRefusals {
				u.log.Warn("a subscription could not be renewed", "err", err)
				return
			}
		}
		if !subscription.Sleep(ctx, watchAgain) {
			return
		}
	}
}

func (w *watch) isStopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped
}

// stop ends the subscription. It does not wait.
func (w *watch) stop() {
	w.mu.Lock()
	w.stopped = true
	u, r := w.at, w.r
	w.mu.Unlock()
	u.watches.remove(w)
	r.Stop()
}
