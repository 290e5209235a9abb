package link

import (
	"context"
	"net/http"
	"time"
)

const (
	// mendEvery is how often a way that does not answer is tried again.
	mendEvery = time.Second
	// answerTime bounds one answer of another node that it can give at once.
	answerTime = 1200 * time.Millisecond
)

// Detour makes requests for a node go through a third one until the node answers itself. The node lives.
// Connections that are idle have stalled with the others: each would cost a request the time in which that is found.
//
//	request ─▶ a way that stalls, or takes no connection ─▶ Detour ─▶ requests ─▶ third node ─▶ the node
//	                                                          └─ a ping each second ─▶ answered: itself again
func (l *Link) Detour(inc string) {
	p, there := l.o.Peer(inc)
	l.mu.Lock()
	if _, known := l.detours[inc]; known || !there || l.ctx.Err() != nil {
		l.mu.Unlock()
		return
	}
	l.detours[inc] = struct{}{}
	l.work.Go(func() { l.mend(inc, p.Name) })
	l.mu.Unlock()
	l.o.Logger.Warn("the peer link of a node does not answer: requests go through a third node until it does", "node", p.Name, "inc", inc)
	l.small.drop(inc)
	l.large.CloseIdleConnections()
}

// Detoured reports whether requests for a node go through a third one.
func (l *Link) Detoured(inc string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, is := l.detours[inc]
	return is
}

// mend ends a detour when the node answers itself, or is gone.
func (l *Link) mend(inc, name string) {
	defer func() {
		l.mu.Lock()
		delete(l.detours, inc)
		l.mu.Unlock()
	}()
	for {
		select {
		case <-time.After(mendEvery):
		case <-l.ctx.Done():
			return
		}
		if _, there := l.o.Peer(inc); !there {
			return
		}
		if l.answers(inc) {
			l.o.Logger.Info("the peer link of a node answers again", "node", name, "inc", inc)
			return
		}
	}
}

// answers reports whether a node answers a ping, and not through a third node.
func (l *Link) answers(inc string) bool {
	ctx, cancel := context.WithTimeout(l.ctx, answerTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, l.o.Ping, nil)
	if err != nil {
		return false
	}
	resp, err := l.Direct(inc, r)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return true
}
