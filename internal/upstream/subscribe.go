package upstream

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// Bounds of what is listened to.
const (
	maxSubscribers = 10_000 // functions of one upstream
	tellTimeout    = 10 * time.Second
	firstListen    = time.Second // after a subscription that the server ended
	longestListen  = time.Minute
)

const (
	methodUpdated      = "notifications/resources/updated"
	methodMessage      = "notifications/message"
	suffixListChanged  = "/list_changed"
	methodListen       = "subscriptions/listen"
	methodAcknowledged = "notifications/subscriptions/acknowledged"
)

// subscriber is a function that wants to hear notifications that belong to no
// call.
type subscriber struct {
	session *mcp.Session // whose connection; nil is the shared one
	uri     string       // of the resource it wants, or "" for everything but updates
	slot    *slot        // that the resource was subscribed to on; set under mu
	fn      func(method string, params json.RawMessage)
}

// Subscribe has fn called for each notification that belongs to no call: lists
// that changed, the state of tasks, and what later versions add. They are those of
// the connection that calls of the session go over which mcp.Caller(ctx) names. Of
// a shared connection the session hears what concerns its principal: see owners.
// Updates of resources go to SubscribeResource. fn is called for one
// notification at a time and connection, in order, and must not block; what it
// keeps of params it clones. It may be called once more while stop runs.
func (u *Upstream) Subscribe(ctx context.Context, fn func(method string, params json.RawMessage)) (stop func()) {
	stop, err := u.subscribe(&subscriber{session: mcp.Caller(ctx), fn: fn})
	if err != nil {
		u.log.Warn("a session will not hear of changes", "err", err)
		return func() {}
	}
	return stop
}

func (u *Upstream) subscribe(sub *subscriber) (stop func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.subs) >= maxSubscribers {
		return nil, mcp.Errorf(mcp.KindOverloaded, "%s has %d subscriptions, which is the bound; end some", u.who, maxSubscribers)
	}
	u.shared.owners.uses(sub.session)
	u.subs[sub] = struct{}{}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.subs, sub)
	}, nil
}

// notice takes a notification that belongs to no call.
func (s *slot) notice(method string, params json.RawMessage) {
	u := s.u
	switch {
	case strings.HasSuffix(method, suffixListChanged):
		s.listChanged()
	case method == methodAcknowledged:
		return // of weir's own subscription
	}
	if rawjson.GetPath(params, "_meta", mcp.MetaSubscriptionID) != nil {
		params = withoutSubscription(params)
	}
	uri := ""
	if method == methodUpdated {
		if uri = rawjson.Text(rawjson.Get(params, "uri")); uri == "" {
			return
		}
	}
	s.telling.Lock()
	defer s.telling.Unlock()
	heard := false
	for _, sub := range u.listeners(s) {
		if uri == "" && sub.uri == "" && s.meant(sub.session, method, params) || uri != "" && sub.uri != "" && within(uri, sub.uri) {
			sub.fn(method, params)
			heard = true
		}
	}
	switch {
	case heard:
	case method == methodMessage:
		u.operatorLog(params)
	case method != methodUpdated && !isListChanged(method):
		u.log.Debug("a notification of the server is for none of its agents", "method", method)
	}
}

// listChanged has the lists read again, over the shared connection. What a
// session's own connection says when it has just been made is no news: many
// servers say it to everybody.
func (s *slot) listChanged() {
	shared := s.u.shared
	if s == shared {
		s.refresh()
		return
	}
	s.mu.Lock()
	young := s.state != StateReady || time.Since(s.since) < time.Second
	s.mu.Unlock()
	if young {
		return
	}
	shared.refresh()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.state == StateIdle {
		nudge(shared.wake) // it lists when it is back
	}
}

// listeners are the subscribers of a slot's connection.
func (u *Upstream) listeners(s *slot) []*subscriber {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []*subscriber
	for sub := range u.subs {
		heard := false
		switch {
		case sub.uri != "":
			heard = sub.slot == s
		case s == u.shared:
			heard = sub.session == nil || u.slots[slotKey{session: sub.session}] == nil
		default:
			heard = sub.session != nil && s.key == slotKey{session: sub.session}
		}
		if heard {
			out = append(out, sub)
		}
	}
	return out
}

// within reports whether an update of a resource concerns a subscription: it is
// that resource, or one below it.
func within(updated, subscribed string) bool {
	return updated == subscribed || strings.HasPrefix(updated, strings.TrimSuffix(subscribed, "/")+"/")
}

// withoutSubscription takes off the id of weir's own subscription, which means
// nothing to anybody else.
func withoutSubscription(params json.RawMessage) json.RawMessage {
	meta, err := rawjson.Delete(rawjson.Get(params, "_meta"), mcp.MetaSubscriptionID)
	if err != nil {
		return params
	}
	out, err := rawjson.Set(params, "_meta", meta)
	if isEmptyObject(meta) {
		out, err = rawjson.Delete(params, "_meta")
	}
	if err != nil {
		return params
	}
	return out
}

// SubscribeResource has fn called for each update of a resource, over the
// connection that calls of the session go over which mcp.Caller(ctx) names. The server is asked for the
// first subscription to a resource and told after the last was stopped; in
// between, a connection that is lost is made again and asked again. fn is as
// with Subscribe. stop does not wait. The errors are those of a call.
func (u *Upstream) SubscribeResource(ctx context.Context, uri string, fn func(params json.RawMessage)) (stop func(), err error) {
	if uri == "" {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "resources/subscribe needs a uri")
	}
	sub := &subscriber{uri: uri, fn: func(_ string, params json.RawMessage) { fn(params) }}
	unlisten, err := u.subscribe(sub)
	if err != nil {
		return nil, err
	}
	var held *slot
	err = u.with(ctx, false, func(l *link) error {
		held = l.slot
		u.mu.Lock()
		sub.slot = held
		u.mu.Unlock()
		return held.watchResource(ctx, l, uri)
	})
	if err != nil {
		unlisten()
		return nil, err
	}
	var once sync.Once
	return func() {
		once.Do(func() {
			unlisten()
			u.spawn(func() { held.unwatchResource(uri) })
		})
	}, nil
}

// watchResource counts a subscription and asks the server for the first.
func (s *slot) watchResource(ctx context.Context, l *link, uri string) error {
	s.subMu.Lock()
	defer s.subMu.Unlock()
	s.mu.Lock()
	n := s.uris[uri]
	s.uris[uri]++
	s.holds++
	s.mu.Unlock()
	if n > 0 {
		return nil
	}
	if l.hello.Modern {
		nudge(s.resub)
		return nil
	}
	_, err := l.call(ctx, tellTimeout, "resources/subscribe", uriParams(uri), nil)
	if err != nil {
		s.uncount(uri)
	}
	return err
}

func (s *slot) uncount(uri string) (last bool, l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds--
	s.uris[uri]--
	if s.uris[uri] <= 0 {
		delete(s.uris, uri)
		last = true
	}
	return last, s.link
}

// unwatchResource takes a subscription back and tells the server after the last.
func (s *slot) unwatchResource(uri string) {
	s.subMu.Lock()
	defer s.subMu.Unlock()
	last, l := s.uncount(uri)
	switch {
	case !last || l == nil:
	case l.hello.Modern:
		nudge(s.resub)
	default:
		if _, err := l.call(s.ctx, tellTimeout, "resources/unsubscribe", uriParams(uri), nil); err != nil {
			s.u.log.Debug("a subscription could not be taken back", "err", err)
		}
	}
}

func uriParams(uri string) json.RawMessage {
	return append(rawjson.AppendString([]byte(`{"uri":`), uri), '}')
}

// renew tells a new connection what the one before was told: the resources
// subscribed to, and the log level.
func (s *slot) renew(ctx context.Context, l *link) {
	s.subMu.Lock()
	defer s.subMu.Unlock()
	if l.hello.Modern {
		return // listen and the calls themselves tell
	}
	s.mu.Lock()
	uris := slices.Sorted(maps.Keys(s.uris))
	s.mu.Unlock()
	for _, uri := range uris {
		_, err := l.call(ctx, tellTimeout, "resources/subscribe", uriParams(uri), nil)
		if err != nil && ctx.Err() == nil {
			s.u.log.Warn("a subscription could not be renewed", "err", err)
		}
		if err != nil && !isAnswer(err) {
			return
		}
	}
	if err := s.tellLevel(ctx, l); err != nil && ctx.Err() == nil {
		s.u.log.Debug("the log level could not be renewed", "err", err)
	}
}

// wantedLevel is the log level of one session.
type wantedLevel struct {
	level string
	stop  func() // of the session's OnClose
}

// SetLogLevel notes which log messages the session wants that mcp.Caller(ctx)
// names, until it ends; "" wants none again.
// The server is asked for the most verbose that any session wants, where they
// share its connection: who hands messages to a session filters them. A server
// that is down or idle is told when it is back. A modern server is told with
// each call. The error is that of the server.
func (u *Upstream) SetLogLevel(ctx context.Context, level string) error {
	session := mcp.Caller(ctx)
	if level != "" && mcp.LogSeverity(level) < 0 {
		return mcp.Errorf(mcp.KindInvalidParams, "%q is no log level", level)
	}
	u.mu.Lock()
	wanted := u.levels[session]
	switch {
	case u.closed:
		u.mu.Unlock()
		return u.stopped()
	case level == "":
		delete(u.levels, session)
	case wanted != nil:
		wanted.level = level
	default:
		u.levels[session] = &wantedLevel{level: level, stop: func() {}}
	}
	u.mu.Unlock()
	switch {
	case level == "" && wanted != nil:
		wanted.stop()
	case level != "" && wanted == nil && session != nil:
		// Registered without the lock: a session that has ended calls at once.
		stop := session.OnClose(func() { u.forgetLevel(session) })
		u.mu.Lock()
		w := u.levels[session]
		if w != nil {
			w.stop = stop
		}
		u.mu.Unlock()
		if w == nil {
			stop()
		}
	}
	return u.tellLevels(ctx, session)
}

func (u *Upstream) forgetLevel(session *mcp.Session) {
	u.mu.Lock()
	delete(u.levels, session)
	u.mu.Unlock()
	u.spawn(func() {
		ctx, cancel := context.WithTimeout(u.ctx, tellTimeout)
		defer cancel()
		if err := u.tellLevels(ctx, nil); err != nil && ctx.Err() == nil {
			u.log.Debug("the log level could not be set", "err", err)
		}
	})
}

// tellLevels tells the connections that a session's calls go over what they
// should log now, where they are there.
func (u *Upstream) tellLevels(ctx context.Context, session *mcp.Session) error {
	u.mu.Lock()
	s := u.shared
	if own := u.slots[slotKey{session: session}]; session != nil && own != nil {
		s = own
	}
	u.mu.Unlock()
	s.subMu.Lock()
	defer s.subMu.Unlock()
	s.mu.Lock()
	l := s.link
	s.mu.Unlock()
	if l == nil || l.hello.Modern {
		return nil
	}
	return s.tellLevel(ctx, l)
}

// tellLevel asks for the most verbose level wanted. It is called under subMu.
func (s *slot) tellLevel(ctx context.Context, l *link) error {
	if rawjson.Get(l.hello.Capabilities, "logging") == nil {
		return nil
	}
	level := s.u.mostVerbose(s.key.session)
	s.mu.Lock()
	same := s.level == level
	s.mu.Unlock()
	if level == "" || same {
		return nil
	}
	params := append(rawjson.AppendString([]byte(`{"level":`), level), '}')
	if _, err := l.call(ctx, tellTimeout, "logging/setLevel", params, nil); err != nil {
		return err
	}
	s.mu.Lock()
	s.level = level
	s.mu.Unlock()
	return nil
}

// mostVerbose is the level wanted of one session's connection, or of all that
// share one.
func (u *Upstream) mostVerbose(session *mcp.Session) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	most := ""
	for s, w := range u.levels {
		if session != nil && s != session {
			continue
		}
		if most == "" || mcp.LogSeverity(w.level) < mcp.LogSeverity(most) {
			most = w.level
		}
	}
	return most
}

// listening is one subscriptions/listen in flight.
type listening struct {
	cancel context.CancelFunc
	acked  chan struct{} // closed when the server has acknowledged it
	ended  chan error    // capacity 1
}

// startListening begins a subscription. Whoever starts one waits for ended.
func (s *slot) startListening(ctx context.Context, l *link, params json.RawMessage) *listening {
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
		s.notice(r.Method, r.Params)
		return nil, nil
	})
	go func() {
		_, err := l.call(ctx, 0, methodListen, params, back)
		n.ended <- err
	}()
	return n
}

// stop ends the subscription and waits for that.
func (n *listening) stop() {
	n.cancel()
	<-n.ended
}

// ackPatience is how long the subscription before is kept while the server has
// not acknowledged the next.
const ackPatience = 2 * time.Second

// listen keeps a subscription to a modern server open, which replaces both
// resources/subscribe and what a legacy server sends unasked. Where something else
// is to be listened to, the next subscription begins before the last one ends, so
// that nothing is said in between; what is said twice is no harm.
func (s *slot) listen(ctx context.Context, l *link) {
	wait := firstListen
	var now *listening
	defer func() {
		if now != nil {
			now.stop()
		}
	}()
	for ctx.Err() == nil {
		params := s.listenParams(l)
		if params == nil {
			if now != nil {
				now.stop()
				now = nil
			}
			select {
			case <-ctx.Done():
				return
			case <-s.resub:
				continue
			}
		}
		began := time.Now()
		next, replaces := s.startListening(ctx, l, params), now != nil
		if replaces {
			patience := time.NewTimer(ackPatience)
			select {
			case <-next.acked:
			case err := <-next.ended:
				next.ended <- err // for below
			case <-patience.C:
			case <-ctx.Done():
			}
			patience.Stop()
			now.stop()
		}
		now = next
		select {
		case <-s.resub:
			continue
		case err := <-now.ended:
			now.cancel()
			now = nil
			// One that refuses the next perhaps keeps one at a time, and the last one
			// is gone soon.
			if isAnswer(err) && !replaces {
				s.u.log.Debug("the server keeps no subscriptions", "err", err)
				return
			}
		}
		if time.Since(began) > longestListen {
			wait = firstListen
		}
		if !sleep(ctx, wait) {
			return
		}
		wait = min(2*wait, longestListen)
		if s.isShared() {
			s.refresh() // what was said meanwhile was not heard
		}
	}
}

// listenParams are the params of subscriptions/listen, nil where there is
// nothing to listen to.
func (s *slot) listenParams(l *link) json.RawMessage {
	out := []byte(`{"notifications":{`)
	empty := len(out)
	for _, c := range []struct{ capability, key string }{
		{"tools", "toolsListChanged"}, {"prompts", "promptsListChanged"}, {"resources", "resourcesListChanged"},
	} {
		if string(rawjson.GetPath(l.hello.Capabilities, c.capability, "listChanged")) == "true" {
			out = append(append(append(out, '"'), c.key...), `":true,`...)
		}
	}
	s.mu.Lock()
	uris := slices.Sorted(maps.Keys(s.uris))
	s.mu.Unlock()
	if len(uris) > 0 {
		out = append(out, `"resourceSubscriptions":[`...)
		for _, uri := range uris {
			out = append(rawjson.AppendString(out, uri), ',')
		}
		out = append(out[:len(out)-1], `],`...)
	}
	if len(out) == empty {
		return nil
	}
	return append(out[:len(out)-1], `}}`...)
}
