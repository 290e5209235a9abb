package subscription

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

const (
	firstListen   = time.Second // after a subscription that the server ended
	longestListen = time.Minute
)

// listening is one subscriptions/listen in flight.
type listening struct {
	cancel context.CancelFunc
	acked  chan struct{} // closed when the server has acknowledged it
	ended  chan error    // capacity 1
}

// startListening starts a subscription. The caller waits for ended.
func (l *Line) startListening(ctx context.Context, conn Conn, params json.RawMessage) *listening {
	n := &listening{acked: make(chan struct{}), ended: make(chan error, 1)}
	ctx, n.cancel = context.WithCancel(ctx)
	var once sync.Once
	back := mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
		if !r.IsNotification() {
			return nil, mcp.MethodNotFound(r.Method)
		}
		if r.Method == methodAcknowledged {
			once.Do(func() { close(n.acked) })
		}
		l.Notice(r.Method, r.Params)
		return nil, nil
	})
	go func() {
		_, err := conn.Call(ctx, 0, methodListen, params, back)
		n.ended <- err
	}()
	return n
}

// stop ends the subscription and waits for its end.
func (n *listening) stop() {
	n.cancel()
	<-n.ended
}

// AckTime is how long the previous subscription is kept while the server has not acknowledged the
// next one.
const AckTime = 2 * time.Second

// Listen keeps a subscription to a modern server open until ctx ends. It replaces
// resources/subscribe and the unsolicited notifications of a legacy server. When the resources
// change, the next subscription starts before the last one ends, so that no notification is lost;
// one may arrive twice. missed is called after a time without a subscription.
func (l *Line) Listen(ctx context.Context, conn Conn, missed func()) {
	wait := firstListen
	var now *listening
	defer func() {
		if now != nil {
			now.stop()
		}
	}()
	for ctx.Err() == nil {
		params := l.listenParams(conn)
		if params == nil {
			if now != nil {
				now.stop()
				now = nil
			}
			select {
			case <-ctx.Done():
				return
			case <-l.resub:
				continue
			}
		}
		began := time.Now()
		next, replaces := l.startListening(ctx, conn, params), now != nil
		if replaces {
			timer := time.NewTimer(AckTime)
			select {
			case <-next.acked:
			case err := <-next.ended:
				next.ended <- err // for below
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
			now.stop()
		}
		now = next
		select {
		case <-l.resub:
			continue
		case err := <-now.ended:
			now.cancel()
			now = nil
			// A server that refuses a second subscription may take it once the first has ended.
			if mcp.IsAnswer(err) && !replaces {
				l.r.log.Debug("the server keeps no subscriptions", "err", err)
				return
			}
		}
		if time.Since(began) > longestListen {
			wait = firstListen
		}
		if !Sleep(ctx, wait) {
			return
		}
		wait = min(2*wait, longestListen)
		missed()
	}
}

// listenParams returns the params of subscriptions/listen, nil if there is nothing to listen to.
func (l *Line) listenParams(conn Conn) json.RawMessage {
	w := rawjson.NewWriter(nil).Object().Key("notifications").Object()
	empty := len(w.Bytes())
	for _, c := range []struct{ capability, key string }{
		{"tools", "toolsListChanged"}, {"prompts", "promptsListChanged"}, {"resources", "resourcesListChanged"},
	} {
		if string(rawjson.GetPath(conn.Hello().Capabilities, c.capability, "listChanged")) == "true" {
			w.Key(c.key).Bool(true)
		}
	}
	if uris := l.resources(); len(uris) > 0 {
		w.Key("resourceSubscriptions").Strings(uris)
	}
	if len(w.Bytes()) == empty {
		return nil
	}
	return w.EndObject().EndObject().Bytes()
}

// relisten makes Listen replace its subscription.
func (l *Line) relisten() {
	select {
	case l.resub <- struct{}{}:
	default:
	}
}

// Sleep waits for d and reports false if ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
