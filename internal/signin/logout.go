package signin

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/limit/bounded"
	"github.com/weir-mcp/weir/internal/store"
)

// endedKeys start the keys of logouts, and usedKeys the keys of the provider's names of them.
const (
	endedKeys = store.LogoutKeys + "ended."
	usedKeys  = store.LogoutKeys + "used."
)

// usedTime is how long a repetition of a logout is noticed: longer than its token is valid.
const usedTime = 15 * time.Minute

// logouts are the sessions and persons that the provider has signed out while a login of theirs may last. All processes
// that share the store follow them. Each compares by its own clock: a login ends if it started before the process saw
// the logout.
type logouts struct {
	docs store.Docs
	now  func() time.Time
	tell func()
	seen *bounded.Map[string, logout] // by the keys of the documents
	stop func()                       // nil until Follow
}

// logout is one document and when this process saw it.
type logout struct {
	rev uint64
	at  time.Time
}

func newLogouts(o Options, tell func()) *logouts {
	return &logouts{docs: o.Docs, now: o.Now, tell: tell,
		seen: bounded.New(bounded.Options[string, logout]{MaxCount: 10 * maxSessions, TTL: personTime, Now: o.Now})}
}

// logoutKey returns the key of the logout of a session of the provider, or of a person if session is "".
func logoutKey(principal, session string) string {
	if session != "" {
		return endedKeys + "session." + store.Hash(session)
	}
	return endedKeys + "person." + store.Hash(principal)
}

// SignOut ends logins because the provider has: the logins of one of its sessions, or of a person if session is "". It
// counts for the browsers of all processes that share the store. id is the provider's name of the logout, for Repeated.
func (p *Pages) SignOut(ctx context.Context, principal, session, id string) error {
	docs := p.logouts.docs
	doc, err := store.Change(ctx, docs, logoutKey(principal, session), func(store.Doc) ([]byte, time.Duration, error) {
		return []byte(rand.Text()), personTime, nil
	})
	if err != nil {
		return err
	}
	p.logouts.see(doc) // at this process at once
	if id == "" {
		return nil
	}
	if _, err = docs.Set(ctx, usedKeys+store.Hash(id), []byte("1"), 0, usedTime); errors.Is(err, store.ErrConflict) {
		err = nil // the same one at another node
	}
	return err
}

// Repeated reports whether SignOut has ended a logout of this name before.
func (p *Pages) Repeated(ctx context.Context, id string) (bool, error) {
	if id == "" {
		return false, nil
	}
	doc, err := p.logouts.docs.Get(ctx, usedKeys+store.Hash(id))
	return doc.Rev != 0, err
}

// Follow makes logouts count that other processes are told. The caller calls Close.
func (p *Pages) Follow() (err error) {
	p.logouts.stop, err = p.logouts.docs.Follow(endedKeys, p.logouts.see)
	return err
}

// Close ends Follow.
func (p *Pages) Close() {
	if p.logouts.stop != nil {
		p.logouts.stop()
	}
}

// see notes a document. A store may show the same one again.
func (l *logouts) see(d store.Doc) {
	if d.Rev == 0 { // every login from before has ended as well
		return
	}
	if known, ok := l.seen.Get(d.Key); ok && known.rev >= d.Rev {
		return
	}
	l.seen.Put(d.Key, logout{d.Rev, l.now()}, 0)
	l.tell()
}

// ended reports whether the provider has ended a login that started at a time.
func (l *logouts) ended(who *identity.Identity, started time.Time) bool {
	keys := []string{logoutKey(who.Principal, "")}
	if session, _ := who.Claims["sid"].(string); session != "" {
		keys = append(keys, logoutKey("", session))
	}
	for _, key := range keys {
		if out, ok := l.seen.Get(key); ok && !started.After(out.at) {
			return true
		}
	}
	return false
}
