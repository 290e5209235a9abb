package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/store"
)

// A node is found dead by three pings without an answer, a dial that fails, and the same word from a third
// node, if there is one that answers.
const (
	pings        = 3
	pingTime     = 600 * time.Millisecond // for one answer
	pingGap      = 200 * time.Millisecond // after a ping that had no listener
	dialTime     = time.Second
	linkTime     = 1200 * time.Millisecond // for one answer over the peer link
	wordTime     = 4 * time.Second         // for the word of a third node
	electionTime = 12 * time.Second        // in which a store elects its leader
	attemptTime  = 2 * time.Second         // for one answer of a store that may do so
	maxWords     = 64                      // questions of other nodes that are answered at a time
)

// subjectPing and subjectCtl are where a node hears of others.
func subjectPing(inc string) string { return "n." + inc + ".ping" }
func subjectCtl(inc string) string  { return "n." + inc + ".ctl" }

// question is what one node asks another at its ctl subject.
type question struct {
	Dead  string `json:"dead,omitempty"`  // is this node dead?
	Drain bool   `json:"drain,omitempty"` // an operator asks: take no new work
	// Retires is the INC of a node that takes no new work from now on.
	Retires string `json:"retires,omitempty"`
}

// verdict is the answer.
type verdict struct {
	Dead bool `json:"dead"`
}

// detector finds nodes that do not answer any more. It is safe for concurrent use.
//
//	a request in flight ─▶ watch ─▶ pings on the bus and over the link ─▶ silent ─▶ the request ends
//	                                                                      └▶ suspect
//	suspect ─▶ silent? ─▶ a third node agrees? ─▶ the document is deleted: all nodes know
type detector struct {
	ctx      context.Context // ends with the node
	work     *sync.WaitGroup // of the node
	bus      store.Bus
	docs     store.Docs
	nodes    *directory
	link     *link.Link
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	log      *slog.Logger
	own      func() string        // the INC of this node
	patience func() time.Duration // how long a request waits for the store

	mu       sync.Mutex // guards below
	suspects map[string]*suspicion
	watches  map[string]*watch
}

// suspicion is a check of a node that is under way.
type suspicion struct {
	done chan struct{}
	dead bool // set before done is closed
}

// listen answers the messages of other nodes for an incarnation.
func (n *Node) listen(inc string) (stop func(), err error) {
	pinged, err := n.o.Bus.Listen(subjectPing(inc), func(m store.Message) {
		if m.Reply != nil {
			_ = m.Reply(nil, nil) // the sender asks again
		}
	})
	if err != nil {
		return nil, err
	}
	turns := make(chan struct{}, maxWords)
	asked, err := n.o.Bus.Listen(subjectCtl(inc), func(m store.Message) {
		var q question
		if m.Reply == nil || json.Unmarshal(m.Body, &q) != nil || !validInc(q.Dead) && !q.Drain && q.Retires == "" {
			return
		}
		if q.Retires != "" {
			n.nodes.drains(q.Retires)
			_ = m.Reply(nil, []byte("{}")) // the document says it as well
			return
		}
		if q.Drain {
			n.log.Info("an operator drains this node", "node", n.o.Name, "inc", inc)
			n.Drain()
			_ = m.Reply(nil, []byte("{}")) // the operator asks again
			return
		}
		select {
		case turns <- struct{}{}:
		default:
			return
		}
		n.work.Go(func() {
			defer func() { <-turns }()
			answer, _ := json.Marshal(verdict{n.health.silent(n.ctx, q.Dead)}) // one bool
			_ = m.Reply(nil, answer)
		})
	})
	if err != nil {
		pinged()
		return nil, err
	}
	return func() { pinged(); asked() }, nil
}

// ask sends a message and waits for the answer.
func (d *detector) ask(ctx context.Context, subject string, body []byte, timeout time.Duration) (store.Message, error) {
	type answer struct {
		m   store.Message
		err error
	}
	got := make(chan answer, 1)
	d.bus.Ask(subject, nil, body, timeout, func(m store.Message, err error) { got <- answer{m, err} })
	select {
	case a := <-got:
		return a.m, a.err
	case <-ctx.Done():
		return store.Message{}, ctx.Err()
	}
}

// ping reports whether a node answers within a moment.
func (d *detector) ping(ctx context.Context, inc string) error {
	_, err := d.ask(ctx, subjectPing(inc), nil, pingTime)
	return err
}

// suspect is Node.Suspect.
func (d *detector) suspect(ctx context.Context, inc string) (dead bool) {
	if own := d.own(); inc == own || own == "" {
		return inc != own
	}
	d.mu.Lock()
	s := d.suspects[inc]
	if s == nil {
		if d.ctx.Err() != nil {
			d.mu.Unlock()
			return false
		}
		s = &suspicion{done: make(chan struct{})}
		d.suspects[inc] = s
		d.work.Go(func() {
			s.dead = d.check(d.ctx, inc)
			d.mu.Lock()
			delete(d.suspects, inc)
			d.mu.Unlock()
			close(s.done)
		})
	}
	d.mu.Unlock()
	select {
	case <-s.done:
		return s.dead
	case <-ctx.Done():
		return false
	}
}

// check is Suspect without sharing.
func (d *detector) check(ctx context.Context, inc string) (dead bool) {
	doc, err := d.settled(ctx, store.NodeKeys+inc)
	switch {
	case err != nil:
		return false // without the store there is no verdict
	case doc.Rev == 0:
		d.nodes.follow(store.Doc{Key: store.NodeKeys + inc})
		return true
	}
	d.nodes.follow(doc)
	if !d.silent(ctx, inc) || !d.agreed(ctx, inc) {
		return false
	}
	// The revision is from before the pings: a node that has renewed meanwhile stays.
	_, err = store.Change(ctx, d.docs, doc.Key, func(now store.Doc) ([]byte, time.Duration, error) {
		if now.Rev != 0 && now.Rev != doc.Rev {
			return nil, 0, errRenewed
		}
		return nil, 0, nil
	})
	if err != nil {
		return false
	}
	d.log.Warn("a node does not answer: it is out of the cluster", "inc", inc)
	d.nodes.follow(store.Doc{Key: store.NodeKeys + inc})
	return true
}

// succeed reports the nodes dead that were at this node's address under its name before, and that do not answer
// pings. The listener is this process's, so they have ended. Otherwise requests for them would come here and be
// sent back until their documents end, 20 seconds after a kill: a dial of their address does not show that they
// are dead.
//
// It goes on until the store has done that, or the documents have ended: where the node that was killed led the store,
// the first requests fail. It returns the last error then.
func (d *detector) succeed(name, url string) error {
	ctx, cancel := context.WithTimeout(d.ctx, nodeTTL)
	defer cancel()
	for {
		err := d.succeedOnce(ctx, name, url)
		if err == nil || pause(ctx, retryEvery) != nil {
			return err
		}
	}
}

// succeedOnce is one attempt of succeed.
func (d *detector) succeedOnce(ctx context.Context, name, url string) error {
	var old []store.Doc
	for doc, err := range d.docs.List(ctx, store.NodeKeys) {
		if err != nil {
			return err
		}
		var n nodeDoc
		if json.Unmarshal(doc.Value, &n) == nil && n.Name == name && n.URL == url && url != "" && n.Inc != d.own() {
			old = append(old, doc)
		}
	}
	var left error
	for _, doc := range old {
		inc := strings.TrimPrefix(doc.Key, store.NodeKeys)
		if d.ping(ctx, inc) == nil {
			continue
		}
		// A revision that has changed is of a node that lives, or the store has not made the change.
		if err := d.docs.Delete(ctx, doc.Key, doc.Rev); err != nil {
			left = err
			continue
		}
		d.log.Info("this node takes the place of one that ended without a word", "inc", inc)
		d.nodes.follow(store.Doc{Key: doc.Key})
	}
	return left
}

var errRenewed = errors.New("the node has renewed its document")

// settled reads a document of a store that may elect its leader, as it does where the node that was killed led it:
// it asks again until there is an answer or patience is over.
func (d *detector) settled(ctx context.Context, key string) (doc store.Doc, err error) {
	ctx, cancel := context.WithTimeout(ctx, max(awayTime, d.patience()))
	defer cancel()
	for {
		attempt, end := context.WithTimeout(ctx, attemptTime)
		doc, err = d.docs.Get(attempt, key)
		end()
		if err == nil || pause(ctx, retryEvery) != nil {
			return doc, err
		}
	}
}

// silent reports whether a node answers neither pings nor a dial.
func (d *detector) silent(ctx context.Context, inc string) bool {
	for i := range pings {
		err := d.ping(ctx, inc)
		if err == nil || ctx.Err() != nil {
			return false
		}
		if errors.Is(err, store.ErrNobody) && i < pings-1 {
			if pause(ctx, pingGap) != nil {
				return false
			}
		}
	}
	p, ok := d.nodes.of(inc)
	if !ok || p.URL == "" {
		return true
	}
	u, err := url.Parse(p.URL)
	if err != nil {
		return true
	}
	bounded, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := d.dial(bounded, "tcp", u.Host)
	if err == nil {
		_ = conn.Close()
		return false
	}
	return ctx.Err() == nil
}

// agreed asks a third node whether a node is dead. A third node that is silent has no word, and one that is
// dead by all signs does not count.
func (d *detector) agreed(ctx context.Context, inc string) bool {
	body, _ := json.Marshal(question{Dead: inc}) // a text
	for _, p := range d.nodes.all() {
		if p.Inc == inc || p.Inc == d.own() {
			continue
		}
		m, err := d.ask(ctx, subjectCtl(p.Inc), body, wordTime)
		if err != nil {
			if !errors.Is(err, store.ErrNobody) || !d.silent(ctx, p.Inc) {
				return false
			}
			continue
		}
		var v verdict
		return json.Unmarshal(m.Body, &v) == nil && v.Dead
	}
	return ctx.Err() == nil
}

// watch pings a node while requests to it are in flight, and until the next ping is due: a busy node is watched once,
// not again for each short request.
type watch struct {
	users map[*watcher]struct{} // guarded by detector.mu
	over  bool                  // the node is silent or gone; guarded by detector.mu
}

// watcher is a request in flight.
type watcher struct {
	gone func() // called once, with detector.mu: it must not block
}

// dead tells the users that the node is gone. The caller holds detector.mu.
func (w *watch) dead() {
	if !w.over {
		w.over = true
		for u := range w.users {
			u.gone()
		}
	}
}

// end tells the requests in flight at a node that is gone.
func (d *detector) end(inc string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.watches[inc]; w != nil {
		w.dead()
	}
}

// watchTime is how often a node with requests in flight is pinged.
const watchTime = time.Second

// watch is Node.Watch with a function in place of a channel. It is called once, must not block and must not use d.
func (d *detector) watch(inc string, gone func()) (stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.watches[inc]
	if w == nil || w.over {
		w = &watch{users: map[*watcher]struct{}{}}
		d.watches[inc] = w
		if d.ctx.Err() == nil {
			d.work.Go(func() { d.keepWatch(d.ctx, inc, w) })
		}
	}
	u := &watcher{gone}
	w.users[u] = struct{}{}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(w.users, u)
	}
}

// unwatched ends a watch that has no users, or whose node is silent, and reports whether it did.
func (d *detector) unwatched(inc string, w *watch) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(w.users) > 0 && !w.over {
		return false
	}
	if d.watches[inc] == w {
		delete(d.watches, inc)
	}
	return true
}

// stalled reports whether a request over the peer link of a node gets no answer in time. Links that break or
// refuse are not stalled: a request on them ends by itself.
func (d *detector) stalled(ctx context.Context, inc string) bool {
	bounded, cancel := context.WithTimeout(ctx, linkTime)
	defer cancel()
	r, err := http.NewRequestWithContext(bounded, http.MethodGet, pathPing, nil)
	if err != nil {
		return false
	}
	resp, err := d.link.RoundTrip(inc, r)
	if err != nil {
		return bounded.Err() != nil && ctx.Err() == nil
	}
	_ = resp.Body.Close() // any answer is a sign of life
	return false
}

// keepWatch pings until the watch has no users when a ping is due, or the node is silent.
func (d *detector) keepWatch(ctx context.Context, inc string, w *watch) {
	wait := watchTime
	for silences, stalls := 0, 0; ; {
		if pause(ctx, wait) != nil || d.unwatched(inc, w) {
			return
		}
		began := time.Now()
		// A node can live while nothing arrives over the link: requests in flight would wait for ever. Both are asked
		// at the same time, so that three silences take less than the 4 seconds that a request may wait for them.
		asked, cancel := context.WithCancel(ctx)
		link := make(chan bool, 1)
		go func() { link <- d.stalled(asked, inc) }()
		switch err := d.ping(ctx, inc); {
		case err == nil:
			silences = 0
		case errors.Is(err, store.ErrNobody) && d.silent(ctx, inc):
			silences = pings // a process that has ended: no listener and no port
			cancel()
		default:
			silences++
		}
		if <-link {
			stalls++
		} else {
			stalls = 0
		}
		cancel()
		wait = max(0, watchTime-time.Since(began))
		if ctx.Err() != nil {
			return
		}
		// If this node does not hear itself, its bus is down and says nothing of the other one: the
		// requests go on, because their connections do not need the bus.
		if silences >= pings && d.ping(ctx, d.own()) != nil {
			silences = 0
		}
		if silences < pings && stalls < pings {
			continue
		}
		if stalls >= pings {
			d.link.Detour(inc)
		}
		d.mu.Lock()
		w.dead()
		d.mu.Unlock()
		d.unwatched(inc, w)
		d.work.Go(func() { d.suspect(d.ctx, inc) })
		return
	}
}
