package api

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/mcp"
)

const (
	// codeLife and sessionLife bound how long a code and a token are good.
	codeLife    = time.Minute
	sessionLife = 12 * time.Hour
	// maxCodes and maxSessions bound their numbers. The oldest ends where one is too many.
	maxCodes    = 16
	maxSessions = 64
)

// A Code is a permission to get the token of an operator, once. A command puts it into the address
// of a browser.
type Code struct {
	Code string `json:"code"`
}

// A sessionToken is a token of an operator for callers on the machine of the gateway.
type sessionToken struct {
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`
}

// A Desk exchanges codes for tokens. It stores only their hashes. It outlives an API, so that a
// reload of the configuration ends no token. It is safe for concurrent use.
type Desk struct {
	now func() time.Time

	mu       sync.Mutex // guards below
	codes    tickets
	sessions tickets
}

// NewDesk returns a Desk without codes and tokens. now is the clock.
func NewDesk(now func() time.Time) *Desk { return &Desk{now: now} }

// A ticket is the hash of a secret and the end of its life.
type ticket struct {
	hash [sha256.Size]byte
	ends time.Time
}

// tickets are in the order in which they were made.
type tickets []ticket

// add makes a secret and forgets the oldest ones and those whose life is over.
func (all *tickets) add(most int, now, ends time.Time) identity.Secret {
	secret := rand.Text()
	all.prune(now)
	if n := len(*all) + 1 - most; n > 0 {
		*all = (*all)[n:]
	}
	*all = append(*all, ticket{sha256.Sum256([]byte(secret)), ends})
	return identity.Secret(secret)
}

func (all *tickets) prune(now time.Time) {
	kept := (*all)[:0]
	for _, one := range *all {
		if now.Before(one.ends) {
			kept = append(kept, one)
		}
	}
	*all = kept
}

// find returns the place of a secret, -1 if it is unknown or its life is over.
func (all tickets) find(secret string, now time.Time) int {
	hash := sha256.Sum256([]byte(secret))
	for i, one := range all {
		if one.hash == hash && now.Before(one.ends) { // hashes tell an attacker nothing by their timing
			return i
		}
	}
	return -1
}

// ends returns when a bearer token of the desk ends; known is false for others.
func (d *Desk) ends(bearer string) (ends time.Time, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at := d.sessions.find(bearer, d.now()); bearer != "" && at >= 0 {
		return d.sessions[at].ends, true
	}
	return time.Time{}, false
}

// code makes a code.
func (d *Desk) code() identity.Secret {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	return d.codes.add(maxCodes, now, now.Add(codeLife))
}

// change changes a code for a token. The code is spent.
func (d *Desk) change(code string) (token identity.Secret, ends time.Time, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	at := d.codes.find(code, now)
	if at < 0 {
		return "", time.Time{}, false
	}
	d.codes = append(d.codes[:at:at], d.codes[at+1:]...)
	ends = now.Add(sessionLife)
	return d.sessions.add(maxSessions, now, ends), ends, true
}

// code serves codes. Only callers on this machine get one, because the token is valid only there.
func (a *API) code(w http.ResponseWriter, r *http.Request) error {
	if err := decode(w, r, &struct{}{}); err != nil {
		return err
	}
	if !local(r) {
		return mcp.Errorf(mcp.KindPermissionDenied, "codes are for callers on this gateway's machine; from elsewhere, use a token with operator: true (auth.tokens[].operator)")
	}
	return write(w, Code{string(a.desk.code())})
}

// session serves sessions.
func (a *API) session(w http.ResponseWriter, r *http.Request) error {
	var given Code
	if err := decode(w, r, &given); err != nil {
		return err
	}
	token, ends, ok := a.desk.change(given.Code)
	if !ok || !local(r) {
		return mcp.Errorf(mcp.KindUnauthorized, "the code is unknown, was used before, or is older than a minute: run weir open again")
	}
	a.o.Logger.Info("a browser of this machine operates the gateway", "until", ends.UTC().Format(time.RFC3339))
	return write(w, sessionToken{string(token), ends.UTC()})
}
