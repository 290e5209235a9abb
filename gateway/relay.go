package gateway

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/weir-mcp/weir/address"
	"github.com/weir-mcp/weir/artifact"
	"github.com/weir-mcp/weir/rawjson"
	"github.com/weir-mcp/weir/s2sp/dispatch"
	"github.com/weir-mcp/weir/s2sp/plane"
	tables "github.com/weir-mcp/weir/table"
)

// Bounds on relays.
const (
	maxRelays          = 8192 // of everybody together
	maxRelaysPrincipal = 1024

	// maxRelayed is how many bytes of rows relays keep themselves where the store
	// has no room for them.
	maxRelayed = 128 << 20
)

// relayURLs replaces each resource_url of a result that leads to this machine's
// loopback by one of the gateway's own.
func (g *Gateway) relayURLs(c *Call, result json.RawMessage) (json.RawMessage, error) {
	var failed error
	known := map[string]string{}
	out := dispatch.EachDocument(result, plane.ParamURL, func(obj []byte) ([]byte, bool) {
		from, err := rawjson.String(rawjson.Get(obj, plane.ParamURL))
		if err != nil || failed != nil {
			return nil, false
		}
		if known[from] == "" {
			source, at, err := loopbackSource(from)
			if err != nil {
				return nil, false // others may reach it, or nobody may fetch it
			}
			base, err := g.base()
			if err != nil {
				failed = err
				return nil, false
			}
			token := g.state.relays.add(&relay{
				principal: c.Request.Session.Principal(), label: c.Entry.ID, url: at, source: source,
			}, g.opts.Tables.TTL)
			known[from] = plane.URL(base, token)
		}
		next, err := rawjson.Set(obj, plane.ParamURL, rawjson.Quote(known[from]))
		failed = err
		return next, err == nil
	})
	return out, failed
}

// loopbackSource returns what fetches a URL that leads to this machine, and from
// where. The URL is an upstream's word: a source that leads anywhere else is an
// error. A server that listens at every address may name the unspecified one, which
// stands for loopback here.
func loopbackSource(resourceURL string) (source plane.Source, at string, err error) {
	u, err := url.Parse(resourceURL)
	if err != nil {
		return nil, "", err
	}
	if ip, ok := address.ParseIP(u.Hostname()); ok && ip.IsUnspecified() {
		own := "127.0.0.1"
		if ip.Is6() {
			own = "::1"
		}
		_, port, _ := net.SplitHostPort(address.Server(u))
		u.Host = net.JoinHostPort(own, port)
	}
	if !address.Loopback(u.Hostname()) {
		return nil, "", errors.New("it does not lead to this machine")
	}
	f, err := plane.NewFetcher(plane.FetchOptions{Allow: []string{address.Server(u)}})
	if err != nil {
		return nil, "", err
	}
	at = u.String()
	return f, at, f.Check(at)
}

// relay is a resource_url of the gateway that stands for one of an upstream.
// The rows are fetched when somebody asks for them, all at once, so that a
// reader who goes away before the first byte leaves the token usable.
type relay struct {
	principal, label string
	url              string
	source           plane.Source

	hash    [sha256.Size]byte
	expires time.Time
	busy    bool          // somebody fetches
	token   string        // of the store, once the rows have been fetched
	rows    *tables.Table // that were fetched and did not fit the store
	size    int64         // of rows
	order   *list.Element // in relays.byAge
}

// relays are the relays of a State. The zero value has none.
type relays struct {
	mu     sync.Mutex // guards below
	closed bool
	byHash map[[sha256.Size]byte]*relay
	byAge  list.List // of *relay, the oldest in front
	counts map[string]int
	bytes  int64       // of the rows of all relays
	timer  *time.Timer // fires when the oldest is due
}

// add takes a relay in and returns its token.
func (r *relays) add(n *relay, ttl time.Duration) string {
	if ttl <= 0 {
		ttl = artifact.DefaultTokenTTL
	}
	token := artifact.NewToken()
	n.hash = sha256.Sum256([]byte(token))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return token
	}
	now := time.Now()
	r.expireLocked(now)
	if r.byHash == nil {
		r.byHash, r.counts = map[[sha256.Size]byte]*relay{}, map[string]int{}
	}
	n.expires = now.Add(ttl)
	n.order = r.byAge.PushBack(n)
	r.byHash[n.hash] = n
	r.counts[n.principal]++
	if r.counts[n.principal] > maxRelaysPrincipal {
		for e := r.byAge.Front(); e != nil; e = e.Next() {
			if old := e.Value.(*relay); old.principal == n.principal {
				r.dropLocked(old)
				break
			}
		}
	}
	if len(r.byHash) > maxRelays {
		r.dropLocked(r.byAge.Front().Value.(*relay))
	}
	r.armLocked(now)
	return token
}

func (r *relays) dropLocked(n *relay) {
	r.bytes -= n.size
	n.rows, n.size = nil, 0
	delete(r.byHash, n.hash)
	r.byAge.Remove(n.order)
	if r.counts[n.principal]--; r.counts[n.principal] == 0 {
		delete(r.counts, n.principal)
	}
}

func (r *relays) expireLocked(now time.Time) {
	for e := r.byAge.Front(); e != nil; e = r.byAge.Front() {
		n := e.Value.(*relay)
		if n.expires.After(now) {
			return
		}
		r.dropLocked(n)
	}
}

func (r *relays) armLocked(now time.Time) {
	e := r.byAge.Front()
	if e == nil {
		return
	}
	after := e.Value.(*relay).expires.Sub(now)
	if r.timer == nil {
		r.timer = time.AfterFunc(after, r.tick)
		return
	}
	r.timer.Reset(after)
}

func (r *relays) tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	now := time.Now()
	r.expireLocked(now)
	r.armLocked(now)
}

func (r *relays) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.byHash, r.counts, r.bytes = nil, nil, 0
	r.byAge.Init()
	if r.timer != nil {
		r.timer.Stop()
	}
}

// take finds the relay of a token for the caller alone, nil where there is none
// or somebody else has it; rows are what it keeps. A relay whose rows are in the
// store is nobody's: it has a token of the store.
func (r *relays) take(token string) (n *relay, rows *tables.Table, kept string) {
	hash := sha256.Sum256([]byte(token))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expireLocked(time.Now())
	n = r.byHash[hash]
	switch {
	case n == nil || n.busy:
		return nil, nil, ""
	case n.token != "":
		return nil, nil, n.token
	}
	n.busy = true
	return n, n.rows, ""
}

// put gives a relay back: with the store's token, to be tried again, or gone.
func (r *relays) put(n *relay, token string, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n.busy, n.token = false, token
	if token != "" {
		r.bytes -= n.size
		n.rows, n.size = nil, 0
	}
	if gone && r.byHash[n.hash] == n {
		r.dropLocked(n)
	}
}

// keep leaves rows with a relay that the caller has taken, false where there are
// too many already. They are gone when it is.
func (r *relays) keep(n *relay, rows *tables.Table) bool {
	data, index := rows.Size()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n.rows == rows {
		return true // since the last time
	}
	if r.closed || r.bytes+data+index > maxRelayed {
		return false
	}
	if r.byHash[n.hash] == n { // else it has expired, and they are its reader's
		n.rows, n.size = rows, data+index
		r.bytes += n.size
	}
	return true
}

// crowded reports whether so many rows wait here that those of one more server
// might be lost.
func (r *relays) crowded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes > maxRelayed/2
}

func (r *relays) known(token string) bool {
	hash := sha256.Sum256([]byte(token))
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byHash[hash] != nil
}

// Plane returns what the data plane serves: the tables behind store's tokens,
// and those that upstreams on this machine keep, which are fetched when they are
// asked for. Give it to plane.Handler.
func (s *State) Plane(store Store) artifact.Tokens { return &relayed{Store: store, relays: &s.relays} }

// relayed is a store whose tokens may be relays.
type relayed struct {
	Store
	relays *relays
}

// Check implements artifact.Tokens.
func (r *relayed) Check(token string) error {
	if r.relays.known(token) {
		return nil
	}
	return r.Store.Check(token)
}

// Claim implements artifact.Tokens.
func (r *relayed) Claim(ctx context.Context, token string) (*artifact.Claim, error) {
	if !r.relays.known(token) {
		return r.Store.Claim(ctx, token)
	}
	n, rows, kept := r.relays.take(token)
	if n != nil {
		var err error
		if kept, rows, err = r.fetch(ctx, n, rows); err != nil {
			return nil, err
		}
		if rows != nil {
			return artifact.Pass(n.label, rows, func(spent bool) { r.relays.put(n, "", spent) }), nil
		}
	}
	if kept == "" {
		return nil, artifact.ErrToken
	}
	return r.Store.Claim(ctx, kept)
}

// fetch gets a relay's rows into the store, where they are not there from a try
// before. A server that could not be asked may be asked again. Its rows are given
// out once: those that the store has no room for are returned, and the relay is
// the caller's until it puts it back.
func (r *relayed) fetch(ctx context.Context, n *relay, rows *tables.Table) (token string, left *tables.Table, err error) {
	gone := false
	defer func() {
		if left == nil {
			r.relays.put(n, token, gone)
		}
	}()
	// Its server spends the rows with the first byte: a reader who goes away now
	// must not take them with it. The source has a deadline of its own.
	ctx = context.WithoutCancel(ctx)
	if rows == nil {
		if r.relays.crowded() {
			return "", nil, fmt.Errorf("the rows of %s stay at its server: there is no room for them now", n.label)
		}
		if rows, err = n.source.Fetch(ctx, n.url, nil, nil); err != nil {
			if gone = errors.Is(err, plane.ErrGone); gone {
				return "", nil, artifact.ErrToken
			}
			return "", nil, fmt.Errorf("fetching from the server of %s: %w", n.label, err)
		}
	}
	// Zero would be the store's own time: who was let in before the end gets the rows.
	kept, err := r.Deposit(ctx, n.principal, n.label, rows, max(time.Until(n.expires), time.Second))
	switch {
	case err == nil:
		return kept.Value, nil, nil
	case !errors.Is(err, artifact.ErrClosed) && r.relays.keep(n, rows):
		return "", rows, nil
	}
	gone = true
	return "", nil, fmt.Errorf("keeping the rows of %s, which its server gives out once: %w", n.label, err)
}
