package authserver

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

const (
	// graceTime is how long the refresh token before the newest one still gets the newest one, in seconds: its answer
	// may have been lost.
	graceTime = 30
	// maxGrants bounds the grants of one person. The oldest one ends for a new one.
	maxGrants = 50
	// maxLife is the longest life of a grant, and maxAccess the longest life of an access token.
	maxLife   = 400 * 24 * time.Hour
	maxAccess = 24 * time.Hour
	// refreshPrefix marks refresh tokens for secret scanners.
	refreshPrefix = "weir_rt_"
)

// A grant is what a person has allowed a client to do. Its refresh tokens are a family: each is the grant's id with
// a number, and only the newest one works.
type grant struct {
	ID, Client string
	Person     Person
	Scopes     []string
	Resource   string
	JKT        string `json:",omitempty"` // the key that refresh tokens are bound to
	Number     int    // of the newest refresh token
	Rotated    int64  // when it was made
	Made, Ends int64
	SignedIn   int64
	Looked     int64 // when the person was looked up
}

// held is a grant in the list of a person.
type held struct {
	ID, Client string
	Session    string `json:",omitempty"` // of the provider
	Made       int64
}

// grants keeps grants.
type grants struct {
	*shelf
	ended endedGrants
	locks [64]chan struct{} // of grants that are being refreshed, by their ids
}

func newGrants(s *shelf, ended func()) *grants {
	g := &grants{shelf: s}
	g.ended.shelf, g.ended.tell = s, ended
	for i := range g.locks {
		g.locks[i] = make(chan struct{}, 1)
	}
	return g
}

// refreshToken returns the newest refresh token of a grant.
func (s *grants) refreshToken(g *grant) string {
	body := g.ID + "." + strconv.Itoa(g.Number)
	return refreshPrefix + body + "." + s.macs("refresh token", body)[0]
}

// readRefresh returns the grant and the number of a refresh token that this Server has made.
func (s *grants) readRefresh(text string) (id string, number int, ok bool) {
	rest, ok := strings.CutPrefix(text, refreshPrefix)
	at := strings.LastIndexByte(rest, '.')
	if !ok || at < 0 || len(text) > 256 || !s.isMac("refresh token", rest[:at], rest[at+1:]) {
		return "", 0, false
	}
	id, count, _ := strings.Cut(rest[:at], ".")
	number, err := strconv.Atoi(count)
	return id, number, err == nil
}

// exclusively waits until no other refresh of a grant runs at this node, and returns what ends the wait of the next one. A
// provider that rotates its tokens would take two at a time for a theft.
func (s *grants) exclusively(ctx context.Context, id string) (done func()) {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(id))
	lock := s.locks[sum.Sum32()%uint32(len(s.locks))]
	select {
	case lock <- struct{}{}:
		return func() { <-lock }
	case <-ctx.Done():
		return func() {}
	}
}

// start keeps a new grant.
func (s *grants) start(ctx context.Context, g *grant) error {
	life := time.Duration(g.Ends-g.Made) * time.Second
	if s.ended.has(g.ID) {
		return errGrantEnded
	}
	switch out, err := s.signedOut(ctx, g); {
	case err != nil:
		return err
	case out:
		return errGrantEnded
	}
	if err := s.keep(ctx, grantPrefix+g.ID, g, 0, life); err != nil {
		return err
	}
	var dropped []held
	err := s.listed(ctx, g.Person.Principal, func(all []held) []held {
		dropped = nil
		all = append(slices.DeleteFunc(all, func(h held) bool { return h.ID == g.ID }), held{g.ID, g.Client, g.Person.Session, g.Made})
		if n := len(all) - maxGrants; n > 0 {
			dropped, all = slices.Clone(all[:n]), all[n:]
		}
		return all
	})
	if err != nil {
		return err
	}
	for _, one := range dropped {
		if err := s.forget(ctx, one.ID); err != nil {
			return err
		}
	}
	if g.Person.Session != "" {
		key := sessionPrefix + store.Hash(g.Person.Issuer+"\n"+g.Person.Session)
		_, err = store.Change(ctx, s.docs, key, func(store.Doc) ([]byte, time.Duration, error) {
			value, err := s.encode(key, g.Person.Principal)
			return value, life, err
		})
	}
	return err
}

// listed changes the list of a person's grants.
func (s *grants) listed(ctx context.Context, principal string, change func([]held) []held) error {
	key := personPrefix + store.Hash(principal)
	_, err := store.Change(ctx, s.docs, key, func(d store.Doc) ([]byte, time.Duration, error) {
		var all []held
		s.decode(d, &all)
		all = change(all)
		if len(all) == 0 {
			return nil, 0, nil
		}
		value, err := s.encode(key, all)
		return value, maxLife, err
	})
	return err
}

// end ends a grant: its refresh tokens at once, and its access tokens at every node.
func (s *grants) end(ctx context.Context, principal, id string) error {
	err := s.forget(ctx, id)
	if err == nil {
		err = s.listed(ctx, principal, func(all []held) []held {
			return slices.DeleteFunc(all, func(h held) bool { return h.ID == id })
		})
	}
	return err
}

// forget removes a grant and makes all nodes refuse its access tokens.
func (s *grants) forget(ctx context.Context, id string) error {
	if err := s.ended.add(ctx, id); err != nil {
		return err
	}
	_, err := store.Change(ctx, s.docs, grantPrefix+id, func(store.Doc) ([]byte, time.Duration, error) { return nil, 0, nil })
	return err
}

// endAll ends the grants of a person, all of them or the grants of one session at the provider.
func (s *grants) endAll(ctx context.Context, principal, session string) (count int, err error) {
	var dropped []held
	err = s.listed(ctx, principal, func(all []held) []held {
		dropped = nil
		return slices.DeleteFunc(all, func(h held) bool {
			ends := session == "" || h.Session == session
			if ends {
				dropped = append(dropped, h)
			}
			return ends
		})
	})
	for _, one := range dropped {
		err = errors.Join(err, s.forget(ctx, one.ID))
	}
	return len(dropped), err
}

// outKey returns the key of a logout by the provider: of a session of a person, or of the person.
func outKey(p *Person) string {
	if p.Session != "" {
		return outPrefix + "session." + store.Hash(p.Issuer+"\n"+p.Session)
	}
	return outPrefix + "person." + store.Hash(p.Principal)
}

// signOut makes start refuse grants of sign-ins from before now, whose pages and codes may still be open.
func (s *grants) signOut(ctx context.Context, p *Person) error {
	key := outKey(p)
	_, err := store.Change(ctx, s.docs, key, func(store.Doc) ([]byte, time.Duration, error) {
		value, err := s.encode(key, s.unix())
		return value, signInTime + codeTime + time.Minute, err
	})
	return err
}

// signedOut reports whether the provider has signed the person of a grant out since the sign-in. Seconds are compared: one
// who signs in again at once is not signed out.
func (s *grants) signedOut(ctx context.Context, g *grant) (bool, error) {
	keys := []string{outKey(&g.Person)}
	if g.Person.Session != "" {
		keys = append(keys, outKey(&Person{Principal: g.Person.Principal}))
	}
	for _, key := range keys {
		var at int64
		if _, ok, err := s.load(ctx, key, &at); err != nil || ok && at > g.SignedIn {
			return ok, err
		}
	}
	return false, nil
}

// endedGrants is the ids of grants that have ended and whose access tokens may not have expired. Every node follows
// them.
type endedGrants struct {
	*shelf
	tell func() // of one that has ended; it may be nil

	mu   sync.Mutex // guards below
	ids  map[string]bool
	stop func()
}

// follow starts to follow the ids, unless that runs.
func (e *endedGrants) follow() {
	e.mu.Lock()
	running := e.stop != nil
	if e.ids == nil {
		e.ids = map[string]bool{}
	}
	e.mu.Unlock()
	if running {
		return
	}
	stop, err := e.docs.Follow(endedPrefix, e.see)
	if err != nil {
		e.log.Error("ended sign-ins of other nodes are not seen until their tokens expire", "err", err)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stop = stop
}

// see notes a document.
func (e *endedGrants) see(d store.Doc) {
	id := strings.TrimPrefix(d.Key, endedPrefix)
	e.mu.Lock()
	if d.Rev == 0 {
		delete(e.ids, id)
	} else {
		e.ids[id] = true
	}
	e.mu.Unlock()
	if d.Rev != 0 && e.tell != nil {
		e.tell()
	}
}

func (e *endedGrants) has(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ids[id]
}

// add makes all nodes refuse the access tokens of a grant.
func (e *endedGrants) add(ctx context.Context, id string) error {
	_, err := e.docs.Set(ctx, endedPrefix+id, []byte("1"), 0, maxAccess+time.Hour)
	if errors.Is(err, store.ErrConflict) {
		err = nil
	}
	if err == nil { // at this node at once
		e.mu.Lock()
		defer e.mu.Unlock()
		e.ids[id] = true
	}
	return err
}

func (e *endedGrants) close() {
	e.mu.Lock()
	stop := e.stop
	e.stop = nil
	e.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// halfHash returns at_hash of a token for ES256, as OpenID Connect Core has it.
func halfHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}
