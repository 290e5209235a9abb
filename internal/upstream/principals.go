package upstream

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
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

// credential says whose credential the connections of a slot have, and with whose credentials the server was
// asked in vain. Only the goroutine of the slot uses it.
type credential struct {
	srv    *server
	key    slotKey // of the slot
	holder string  // the principal whose credential the connection has; see choose
	failed string  // the principal with whose credential the last attempt failed, or could not list
	// refused are the principals with whose credentials attempts failed since the server was listed.
	refused  map[string]struct{}
	refusals refusals // of a caller's token
}

// owner returns whose the connection is.
func (c *credential) owner() Owner {
	return Owner{Session: c.key.session, Principal: c.holder, Grant: c.key.grant, Lists: c.key.isShared() && c.srv.cfg.PerPrincipal()}
}

// choose decides whose credential the next connection has. The shared connection of a server
// with a credential for each principal only lists, with the credential of any of them. Without one
// it asks the server as a stranger, because some servers list their tools for everyone.
func (c *credential) choose() {
	if !c.srv.cfg.PerPrincipal() {
		return
	}
	if c.holder = c.key.principal; !c.key.isShared() {
		return
	}
	c.holder = oauth.Anonymous
	if c.lends() {
		if holder := c.next(); holder != "" {
			c.holder = holder
		}
	}
}

// lends reports whether the shared connection may have the credential of any principal.
func (c *credential) lends() bool {
	return c.srv.cfg.PerPrincipal() && c.srv.opts.Credentials != nil && !c.srv.cfg.ListsPerCaller()
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

// watch returns a channel that says when to look whether a principal has a credential. It
// never does for a connection that has one. The caller stops it.
func (c *credential) watch() (look <-chan time.Time, stop func()) {
	if !c.key.isShared() || !c.lends() || c.holder != oauth.Anonymous {
		return nil, func() {}
	}
	ticker := time.NewTicker(signInPause)
	return ticker.C, ticker.Stop
}

// text returns a value of env with the credentials of the principal in it, and adds them to texts.
func (c *credential) text(ctx context.Context, value strict.Secret, texts *[]string) (string, error) {
	return mcpserver.FillUserTexts(value, func(name string) (string, error) {
		if c.srv.opts.Credentials == nil {
			return "", mcp.Errorf(mcp.KindUpstreamUnavailable, "%s needs credentials of its callers (${user:%s}), which are not kept here", c.srv.who, name)
		}
		text, err := c.srv.opts.Credentials.Text(ctx, c.srv.name, name, c.owner())
		*texts = append(*texts, text)
		return text, err
	})
}

// signedIn reports whether the next connection can have a credential. retry returns when the next attempt is due.
func (c *credential) signedIn(retry func() time.Time) bool {
	if !c.key.isShared() || !c.srv.cfg.PerPrincipal() {
		return c.srv.signedIn(c.key.principal)
	}
	if !c.lends() {
		return false
	}
	holder := c.next()
	// Without the wait, the server would be asked each second: with one refused credential, or with
	// several in turn.
	return holder != "" && (c.isUntried(holder) || !time.Now().Before(retry()))
}

const (
	maxRefused = 1000 // bounds credential.refused
	maxLooks   = 64   // how many principals next looks at
)

// next returns a principal whose credential is tried next, "" if none has one. That is one who
// was not tried yet, such as the last to sign in, or else the next in turn.
func (c *credential) next() string {
	of, server := c.srv.opts.Credentials, c.srv.name
	next := of.Holder(server, c.failed)
	for holder, looks := next, 0; holder != "" && looks < maxLooks; looks++ {
		if c.isUntried(holder) {
			return holder
		}
		if holder = of.Holder(server, holder); holder == next {
			break
		}
	}
	return next
}

// noteFailed notes that an attempt with the credential of the connection failed.
func (c *credential) noteFailed() {
	if c.failed = c.holder; !c.key.isShared() || c.holder == "" || len(c.refused) >= maxRefused {
		return
	}
	if c.refused == nil {
		c.refused = map[string]struct{}{}
	}
	c.refused[c.holder] = struct{}{}
}

// isUntried reports whether no attempt with the credential of a principal failed since the server was
// listed.
func (c *credential) isUntried(holder string) bool {
	_, failed := c.refused[holder]
	return !failed && len(c.refused) < maxRefused
}

// digest identifies the token of a caller that the next connection carries.
func (c *credential) digest() (digest [sha256.Size]byte) {
	if of := c.srv.opts.Credentials; of != nil && c.srv.cfg.FromCaller() {
		digest = of.Digest(c.srv.name, c.owner())
	}
	return digest
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
