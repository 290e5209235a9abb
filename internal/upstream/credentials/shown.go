package credentials

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/signin/oauth"
	"github.com/weir-mcp/weir/internal/upstream"
)

// maxShown bounds the tokens of callers that are kept.
const maxShown = 10_000

// shown are the tokens that callers showed weir last. They serve at servers that take the credential of
// a caller from its token, for requests that belong to no call: greetings, event streams and lists. The
// tokens are in memory alone, until they end. All methods are safe for concurrent use.
//
//	request ─▶ guard ─▶ note          (principal, grant) ─▶ the newest identity
//	call ─▶ identity of its request, else ─▶ of
type shown struct {
	now func() time.Time

	mu    sync.Mutex // guards below
	known map[shownKey]*identity.Identity
}

// shownKey names a principal and the grant of its tokens; "" is the token that was shown last,
// whichever its grant.
type shownKey struct{ principal, grant string }

func newShown() *shown { return &shown{now: time.Now, known: map[shownKey]*identity.Identity{}} }

// note keeps the token of a request.
func (k *shown) note(id *identity.Identity) {
	if id.Bearer == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	last := shownKey{id.Principal, ""}
	if k.known[last] == id {
		return
	}
	if len(k.known) >= maxShown-1 {
		k.makeRoom()
	}
	k.known[last] = id
	k.known[shownKey{id.Principal, id.Grant()}] = id
}

// makeRoom removes the tokens that have ended, and others if there are too many left. The caller holds
// mu.
func (k *shown) makeRoom() {
	now := k.now()
	for key, id := range k.known {
		if ended(id, now) {
			delete(k.known, key)
		}
	}
	for key := range k.known {
		if len(k.known) < maxShown-1 {
			return
		}
		delete(k.known, key)
	}
}

// ended reports whether a token has ended.
func ended(id *identity.Identity, now time.Time) bool {
	return !id.Expires.IsZero() && !now.Before(id.Expires)
}

// of returns who makes a request over a connection: the caller of ctx, else the one that showed the
// newest token of the connection's principal and grant; nil if there is none.
func (k *shown) of(ctx context.Context, of upstream.Owner) *identity.Identity {
	if id := identity.From(ctx); id.Bearer != "" && id.Principal == of.Principal {
		return id
	}
	return k.get(of.Principal, of.Grant)
}

func (k *shown) get(principal, grant string) *identity.Identity {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known[shownKey{principal, grant}]
}

// next returns a principal for whose newest token serves is true, "" if there is none. It begins with
// the first one behind after, in the order of names, and comes to after last.
func (k *shown) next(after string, serves func(*identity.Identity) bool) string {
	k.mu.Lock()
	var all []string
	for key, id := range k.known {
		if key.grant == "" && serves(id) {
			all = append(all, key.principal)
		}
	}
	k.mu.Unlock()
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	from, found := slices.BinarySearch(all, after)
	if found {
		from++
	}
	return all[from%len(all)]
}

// forget drops all tokens.
func (k *shown) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.known)
}

// refusal returns why the token of a caller, which may be nil, gives no credential at a server
// (spec/signin §9); nil if it does.
func (k *shown) refusal(s *config.Server, id *identity.Identity) error {
	refuse := func(reason, fix string) error {
		return (&oauth.SignInError{Server: s.Name, Reason: reason, Fix: fix}).Refused()
	}
	switch {
	case id == nil || id.Bearer == "":
		return refuse("this caller shows weir none that it may use: static tokens and certificates stay here", "call with an access token of an issuer in auth.issuers")
	case ended(id, k.now()):
		return refuse("it has ended", "call with a new access token")
	case id.Claims["cnf"] != nil:
		return refuse("it is bound to a key of its client (cnf), which weir has not", "ask the administrator of the issuer "+id.Issuer+" for tokens without cnf")
	case s.Forwards() && !names(id.Claims["aud"], s.Audiences()):
		wants := strings.Join(s.Audiences(), " or ")
		return refuse(fmt.Sprintf("aud of the token does not name %s, and weir never shows a server a token that is not for it", wants),
			fmt.Sprintf("ask the issuer %s for a token that names both weir and %s in aud; its administrator allows that", id.Issuer, wants))
	}
	return nil
}

// names reports whether the claim aud has one of some values.
func names(aud any, wants []string) bool {
	switch aud := aud.(type) {
	case string:
		return slices.Contains(wants, aud)
	case []any:
		return slices.ContainsFunc(aud, func(one any) bool {
			text, ok := one.(string)
			return ok && slices.Contains(wants, text)
		})
	}
	return false
}
