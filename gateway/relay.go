package gateway

import (
	"container/list"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

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
			source, err := loopbackSource(from)
			if err != nil {
				return nil, false // others may reach it, or nobody may fetch it
			}
			base, err := g.base()
			if err != nil {
				failed = err
				return nil, false
			}
			token := g.state.relays.add(&relay{
				principal: c.Request.Session.Principal(), label: c.Entry.ID, url: from, source: source,
			}, g.opts.Tables.TTL)
			known[from] = plane.URL(base, token)
		}
		return withMember(obj, plane.ParamURL, rawjson.Quote(known[from])), true
	})
	return out, failed
}

// loopbackSource is what fetches a URL that leads to this machine, and nothing
// else. The URL is an upstream's word, and must not lead anywhere else.
func loopbackSource(resourceURL string) (plane.Source, error) {
	u, err := url.Parse(resourceURL)
	if err != nil {
		return nil, err
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if !strings.EqualFold(u.Hostname(), "localhost") && (err != nil || !ip.IsLoopback() && !ip.IsUnspecified()) {
		return nil, errors.New("it does not lead to this machine")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	f, err := plane.NewFetcher(plane.FetchOptions{Allow: []string{net.JoinHostPort(u.Hostname(), port)}})
	if err != nil {
		return nil, err
	}
	return f, f.Check(resourceURL)
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
	order   *list.Element // in relays.byAge
}

// relays are the relays of a State. The zero value has none.
type relays struct {
	mu     sync.Mutex // guards below
	closed bool
	byHash map[[sha256.Size]byte]*relay
	byAge  list.List // of *relay, the oldest in front
	counts map[string]int
	timer  *time.Timer // fires when the oldest is due
}

// add takes a relay in and returns its token.
func (r *relays) add(n *relay, ttl time.Duration) string {
	if ttl <= 0 {
		ttl = artifact.DefaultTokenTTL
	}
	var secret [32]byte
	rand.Read(secret[:]) // never fails: crypto/rand ends the program instead
	token := base64.RawURLEncoding.EncodeToString(secret[:])
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
	r.byHash, r.counts = nil, nil
	r.byAge.Init()
	if r.timer != nil {
		r.timer.Stop()
	}
}

// take finds the relay of a token for the caller alone, nil where there is none
// or somebody else has it. A relay whose rows were fetched is nobody's.
func (r *relays) take(token string) (*relay, string) {
	hash := sha256.Sum256([]byte(token))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expireLocked(time.Now())
	n := r.byHash[hash]
	switch {
	case n == nil || n.busy:
		return nil, ""
	case n.token != "":
		return nil, n.token
	}
	n.busy = true
	return n, ""
}

// put gives a relay back: with the store's token, to be tried again, or gone.
func (r *relays) put(n *relay, token string, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n.busy, n.token = false, token
	if gone && r.byHash[n.hash] == n {
		r.dropLocked(n)
	}
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

// Claim implements artifact.Tokens.
func (r *relayed) Claim(ctx context.Context, token string) (*artifact.Claim, error) {
	if !r.relays.known(token) {
		return r.Store.Claim(ctx, token)
	}
	n, kept := r.relays.take(token)
	if n != nil {
		var err error
		if kept, err = r.fetch(ctx, n); err != nil {
			return nil, err
		}
	}
	if kept == "" {
		return nil, artifact.ErrToken
	}
	return r.Store.Claim(ctx, kept)
}

// fetch gets a relay's rows into the store. A server that could not be asked may
// be asked again.
func (r *relayed) fetch(ctx context.Context, n *relay) (token string, err error) {
	gone := false
	defer func() { r.relays.put(n, token, gone) }()
	// Its server spends the rows with the first byte: a reader who goes away now
	// must not take them with it. The source has a deadline of its own.
	ctx = context.WithoutCancel(ctx)
	var t *tables.Table
	if t, err = n.source.Fetch(ctx, n.url, nil, nil); err != nil {
		if gone = errors.Is(err, plane.ErrGone); gone {
			return "", artifact.ErrToken
		}
		return "", fmt.Errorf("fetching from the server of %s: %w", n.label, err)
	}
	// Zero would be the store's own time: who was let in before the end gets the rows.
	kept, err := r.Deposit(ctx, n.principal, n.label, t, max(time.Until(n.expires), time.Second))
	if err != nil {
		gone = true // its server gives the rows out once
		return "", fmt.Errorf("keeping the rows of %s: %w", n.label, err)
	}
	return kept.Value, nil
}
