package access

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/access/jwk"
)

// How long keys are used and how often an issuer is asked for them (spec/identity §4).
const (
	minKeyAge     = 5 * time.Minute
	defaultKeyAge = time.Hour
	maxKeyAge     = 24 * time.Hour
	keepInOutage  = 24 * time.Hour
	coolDown      = 30 * time.Second // between fetches that tokens with an unknown kid cause
	firstRetry    = 5 * time.Second  // between fetches while there is no key at all
	staleWait     = time.Second      // for fresh keys, if old ones are there
)

// keyRing owns the key sets of all issuers and the goroutines that fetch them.
type keyRing struct {
	o   Options
	ctx context.Context

	mu     sync.Mutex // guards below
	sets   map[string]*keySet
	closed bool
	wg     sync.WaitGroup
}

// follow gives every issuer a key set, an existing one where issuer and URL are the same, and
// forgets the others. New ones are fetched at once.
func (r *keyRing) follow(issuers map[string]*issuer) {
	sets := map[string]*keySet{}
	var fresh []*keySet
	r.mu.Lock()
	for _, i := range issuers {
		id := i.Issuer.Issuer + "\n" + i.JWKS
		set := r.sets[id]
		if set == nil {
			set = &keySet{ring: r, name: i.Name, issuer: i.Issuer.Issuer, url: i.JWKS, from: r.o.source(i.Issuer.Issuer, i.JWKS)}
			if !i.keyless {
				fresh = append(fresh, set)
			}
		}
		sets[id], i.keys = set, set
	}
	r.sets = sets
	r.mu.Unlock()
	for _, set := range fresh {
		set.mu.Lock()
		set.start()
		set.mu.Unlock()
	}
}

// run runs fn in a goroutine that wait waits for. It returns false after wait.
func (r *keyRing) run(fn func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.wg.Go(fn)
	return true
}

// wait refuses further fetches and waits for those that run.
func (r *keyRing) wait() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.wg.Wait()
}

// keySet is the keys of one issuer.
type keySet struct {
	ring              *keyRing
	name, issuer, url string
	from              source

	mu      sync.Mutex // guards below; ring.mu may be taken while it is held
	keys    []jwk.Key
	fetched time.Time // of keys
	age     time.Duration
	tried   time.Time // start of the last fetch
	failed  error     // of the last fetch
	running chan struct{}
}

// find returns the keys with a kid, or all keys for "". If unsatisfied says that the keys are not
// enough, it asks the issuer again, once for all callers within the cool-down. It returns an error
// of mcp.KindIdentityUnavailable if the issuer could not be asked.
func (s *keySet) find(ctx context.Context, kid string, unsatisfied func([]jwk.Key) bool) ([]jwk.Key, error) {
	now := s.ring.o.Now()
	s.mu.Lock()
	held := now.Sub(s.fetched)
	switch {
	case len(s.keys) > 0 && held > s.age+keepInOutage:
		s.keys = nil // the issuer may have withdrawn them long ago
	case len(s.keys) > 0 && held > s.age*4/5 && now.Sub(s.tried) >= coolDown:
		s.start()
	}
	late := len(s.keys) > 0 && held > s.age
	running := s.running
	s.mu.Unlock()
	if late && running != nil {
		await(ctx, running, staleWait)
	}
	keys := s.withID(kid)
	if !unsatisfied(keys) {
		return keys, nil
	}
	if err := s.refresh(ctx); err != nil {
		return nil, err
	}
	return s.withID(kid), nil
}

// withID returns the keys with a kid, or all for "".
func (s *keySet) withID(kid string) []jwk.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kid == "" {
		return s.keys
	}
	return slices.DeleteFunc(slices.Clone(s.keys), func(k jwk.Key) bool { return k.ID != kid })
}

// refresh asks the issuer, or joins a fetch that runs, or does nothing within the cool-down.
func (s *keySet) refresh(ctx context.Context) error {
	now := s.ring.o.Now()
	s.mu.Lock()
	pause := coolDown
	if len(s.keys) == 0 {
		pause = firstRetry
	}
	wait := pause - now.Sub(s.tried)
	if s.running == nil && (s.tried.IsZero() || wait <= 0) {
		s.start()
	}
	running := s.running
	s.mu.Unlock()
	if running != nil {
		await(ctx, running, fetchTimeout)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil || len(s.keys) == 0 {
		return unavailable(s.name, max(time.Second, min(wait, pause)))
	}
	return nil
}

// start starts a fetch in the background, unless one runs. The caller holds mu.
func (s *keySet) start() {
	if s.running != nil {
		return
	}
	done := make(chan struct{})
	r := s.ring
	if r.run(func() {
		keys, age, err := s.from.fetchKeys(r.ctx, s.issuer, s.url)
		s.end(keys, age, err, done)
	}) {
		s.tried, s.running = r.o.Now(), done
	}
}

// end notes the result of a fetch. Keys that are there stay if it failed.
func (s *keySet) end(keys []jwk.Key, age time.Duration, err error, done chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = nil
	close(done)
	if s.failed = err; err == nil {
		s.keys, s.age, s.fetched = keys, age, s.ring.o.Now()
		return
	}
	s.ring.o.Logger.Warn("the keys of an issuer cannot be fetched", "issuer", s.name, "held", len(s.keys), "err", err)
}

// await waits for a channel to close, within a limit and while ctx lasts.
func await(ctx context.Context, done <-chan struct{}, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-ctx.Done():
	case <-timer.C:
	}
}
