package upstream

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/internal/signin/oauth"
	"github.com/weir-mcp/weir/mcp"
)

// A server with a credential for each principal (credentials: user) has connections of its own for
// each of them (spec/signin §8):
//
//	calls of a principal ─▶ slot of the principal ─▶ link with the principal's credential
//	lists: caller        ─▶ slot of the principal; the shared slot asks as a stranger whether the
//	                        server is there
//	lists: shared        ─▶ shared slot ───────────▶ link with the credential of one of them
//
// No call and no notification for a session passes over the shared slot.

// Credentials knows the credentials of principals at servers. All methods are called concurrently and
// must be cheap.
type Credentials interface {
	// SignedIn reports whether requests of a principal to a server carry a credential. The principal
	// is "" for the credential that all callers share.
	SignedIn(server, principal string) bool
	// Holder returns a principal that has a credential of its own at a server, "" if there is none.
	// It prefers another one than after, whose connection has failed.
	Holder(server, after string) string
	// Text returns the credential that the configuration of a server names as ${user:NAME}, of the
	// principal of a connection. The error for a missing one says how to store it. It names the
	// principal only if the connection serves only that principal.
	Text(ctx context.Context, server, name string, of Owner) (string, error)
	// Shown returns why the token that the caller of ctx showed weir gives no credential at a server
	// that takes it from there; nil if it gives one.
	Shown(ctx context.Context, server string) error
	// Digest identifies the token of a caller that requests of a connection carry now. It changes with
	// the token, and is zero if there is none.
	Digest(server string, of Owner) [sha256.Size]byte
}

// Owner says whose a connection is.
type Owner struct {
	Session   *mcp.Session // the only session that uses the connection; nil if several may
	Principal string       // whose credential requests carry; "" for the one that all callers share
	// Grant is the grant of the tokens whose requests the connection serves, where the credential comes
	// from the token of the caller (identity.Identity.Grant); else "".
	Grant string
	// Lists says that the connection only lists, for all callers, with the credential of Principal.
	// What it tells must not name that principal.
	Lists bool
}

// owner returns whose the connection of the slot is.
func (s *slot) owner() Owner {
	return Owner{Session: s.key.session, Principal: s.holder, Grant: s.key.grant, Lists: s.isShared() && s.u.cfg.PerPrincipal()}
}

// chooseHolder decides whose credential the next connection has. The shared connection of a server
// with a credential for each principal only lists, with the credential of any of them. Without one
// it asks the server as a stranger, because some servers list their tools for everyone.
func (s *slot) chooseHolder() {
	if !s.u.cfg.PerPrincipal() {
		return
	}
	if s.holder = s.key.principal; !s.isShared() {
		return
	}
	s.holder = oauth.Anonymous
	if c := s.u.opts.Credentials; c != nil && !s.u.lists.perCaller() {
		if holder := s.nextHolder(c); holder != "" {
			s.holder = holder
		}
	}
}

// holderError is the error of lists that the server does not show to the holder of the connection.
type holderError struct{ error }

func (e holderError) Unwrap() error { return e.error }

// refusesHolder reports whether the lists cannot be read because of the credential of the connection,
// or because it has none. Another principal's may serve.
func refusesHolder(cfg *mcpserver.Server, err error) bool {
	if !cfg.PerPrincipal() {
		return false
	}
	if needsSignIn(err) {
		return true
	}
	for e := (*mcp.Error)(nil); errors.As(err, &e); err = e.Err {
		if e.Kind == mcp.KindUnauthorized || e.Kind == mcp.KindPermissionDenied {
			return true
		}
	}
	return false
}

// watchHolders returns a channel that says when to look whether a principal has a credential. It
// never does for a connection that has one. The caller stops it.
func (s *slot) watchHolders() (look <-chan time.Time, stop func()) {
	if !s.isShared() || !s.u.cfg.PerPrincipal() || s.u.lists.perCaller() || s.holder != oauth.Anonymous || s.u.opts.Credentials == nil {
		return nil, func() {}
	}
	ticker := time.NewTicker(signInPause)
	return ticker.C, ticker.Stop
}

// text returns a value of env with the credentials of the slot's principal in it, and adds them to
// texts.
func (s *slot) text(ctx context.Context, value strict.Secret, texts *[]string) (string, error) {
	return mcpserver.FillUserTexts(value, func(name string) (string, error) {
		if s.u.opts.Credentials == nil {
			return "", mcp.Errorf(mcp.KindUpstreamUnavailable, "%s needs credentials of its callers (${user:%s}), which are not kept here", s.u.who, name)
		}
		text, err := s.u.opts.Credentials.Text(ctx, s.u.name, name, s.owner())
		*texts = append(*texts, text)
		return text, err
	})
}

// signedIn reports whether the next connection of the slot can have a credential.
func (s *slot) signedIn() bool {
	if s.isShared() && s.u.cfg.PerPrincipal() {
		if s.u.opts.Credentials == nil || s.u.lists.perCaller() {
			return false
		}
		holder := s.nextHolder(s.u.opts.Credentials)
		// Without the wait, the server would be asked each second: with one refused credential, or with
		// several in turn.
		return holder != "" && (s.isUntried(holder) || !time.Now().Before(s.calls.nextTry()))
	}
	return s.u.signedIn(s.key.principal)
}

const (
	maxRefused = 1000 // bounds slot.refused
	maxLooks   = 64   // how many principals nextHolder looks at
)

// nextHolder returns a principal whose credential is tried next, "" if none has one. That is one who
// was not tried yet, such as the last to sign in, or else the next in turn.
func (s *slot) nextHolder(c Credentials) string {
	next := c.Holder(s.u.name, s.failedHolder)
	for holder, looks := next, 0; holder != "" && looks < maxLooks; looks++ {
		if s.isUntried(holder) {
			return holder
		}
		if holder = c.Holder(s.u.name, holder); holder == next {
			break
		}
	}
	return next
}

// noteFailedHolder notes that an attempt with the credential of the connection failed.
func (s *slot) noteFailedHolder() {
	if s.failedHolder = s.holder; !s.isShared() || s.holder == "" || len(s.refused) >= maxRefused {
		return
	}
	if s.refused == nil {
		s.refused = map[string]struct{}{}
	}
	s.refused[s.holder] = struct{}{}
}

// isUntried reports whether no attempt with the credential of a principal failed since the server was
// listed.
func (s *slot) isUntried(holder string) bool {
	_, failed := s.refused[holder]
	return !failed && len(s.refused) < maxRefused
}

// keyOf returns the key of the slot for the caller of ctx. The error says that a server with a
// credential for each principal was called without one.
func (u *Upstream) keyOf(ctx context.Context) (slotKey, error) {
	key, session := slotKey{}, mcp.Caller(ctx)
	if u.cfg.PerPrincipal() {
		if session == nil || session.Principal() == "" {
			return key, mcp.Errorf(mcp.KindUnauthorized, "%s has a credential for each principal (credentials: %s), and this call has no principal", u.who, u.cfg.Credentials)
		}
		key.principal = session.Principal()
	}
	if u.cfg.FromCaller() {
		if u.opts.Credentials == nil {
			return key, mcp.Errorf(mcp.KindUnauthorized, "%s takes the credential from the token of the caller, which is not kept here", u.who)
		}
		if err := u.opts.Credentials.Shown(ctx, u.name); err != nil {
			return key, err
		}
		if id := identity.From(ctx); id.Principal == key.principal {
			key.grant = strings.Clone(id.Grant())
		}
		if session != nil {
			u.noteGrant(session, key.grant)
		}
	}
	switch {
	case ofPrincipal(&u.server, session):
		key.principal = session.Principal()
	case session != nil && u.ownFor(session):
		key.session = session
	}
	return key, nil
}

// credentialOf returns why a principal without a credential at the server gets no connection where
// that costs another principal's; nil for one that has a credential or needs none.
func (srv *server) credentialOf(principal string) error {
	if !srv.cfg.PerPrincipal() || srv.opts.Credentials == nil || srv.signedIn(principal) {
		return nil
	}
	for _, name := range srv.cfg.UserTexts() {
		if _, err := srv.opts.Credentials.Text(context.Background(), srv.name, name, Owner{Principal: principal}); err != nil {
			return err
		}
	}
	return (&oauth.SignInError{Server: srv.name}).Refused()
}

// SignedIn reports whether requests of the caller to the server carry a credential.
func (srv *server) SignedIn(ctx context.Context) bool {
	if !srv.cfg.PerPrincipal() {
		return srv.signedIn(oauth.Shared)
	}
	session := mcp.Caller(ctx)
	return session != nil && session.Principal() != "" && srv.signedIn(session.Principal())
}

// signedIn reports whether requests of a principal to the server carry a credential.
func (srv *server) signedIn(principal string) bool {
	return srv.opts.Credentials != nil && srv.opts.Credentials.SignedIn(srv.name, principal)
}
