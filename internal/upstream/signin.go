package upstream

import (
	"errors"
	"time"

	"github.com/weir-mcp/weir/internal/oauth"
)

// signInPause is the time between two looks at whether a person has signed in.
const signInPause = time.Second

// needsSignIn reports whether a connection failed because a person has to sign in at the server.
func needsSignIn(err error) bool { return errors.As(err, new(*oauth.SignInError)) }

// signedIn reports whether requests to the server carry a token.
func (srv *server) signedIn() bool { return srv.opts.SignedIn != nil && srv.opts.SignedIn(srv.name) }

// due returns a channel that says when to look whether the next attempt is due, and a function that
// looks. A server that needs a sign-in is not asked again before there is one (spec/signin §4).
func (s *slot) due() (at *time.Timer, now func() bool) {
	if needsSignIn(s.calls.lastError()) {
		return time.NewTimer(signInPause), s.u.signedIn
	}
	return time.NewTimer(time.Until(s.calls.nextTry())), func() bool { return true }
}
