package upstream

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/signin/oauth"
)

// signInPause is the time between two looks at whether a person has signed in.
const signInPause = time.Second

// needsSignIn reports whether a connection failed because a person has to sign in at the server.
func needsSignIn(err error) bool { return errors.As(err, new(*oauth.SignInError)) }

// signInTool is the name of the only tool of a server that cannot be listed before a sign-in. A call
// fails with the error that says how to sign in (spec/signin §4).
const signInTool = "sign_in"

// signedInText is the result of signInTool for a caller who has signed in meanwhile.
var signedInText = json.RawMessage(`{"content":[{"type":"text","text":"The server has a sign-in now. Its tools are listed in a moment."}]}`)

// offerSignIn offers signInTool in the place of entries that nothing can list.
func (ls *lists) offerSignIn() {
	if ls.perCaller() || ls.listed.Load() || ls.asks.Swap(true) || ls.srv.opts.Sink == nil {
		return
	}
	l := ls.signIn()
	ls.out.tell(func() { ls.srv.opts.Sink.Update(l) })
}

// signIn returns the listing that has only signInTool.
func (ls *lists) signIn() primitive.Listing {
	tool := rawjson.AppendString([]byte(`{"name":"`+signInTool+`","title":`), "Sign in at "+ls.srv.name)
	tool = rawjson.AppendString(append(tool, `,"description":`...), "The server "+ls.srv.name+" wants a person to sign in before its tools can be listed. This tool says how; tell the person, and call it again afterwards.")
	tool = append(tool, `,"inputSchema":{"type":"object","properties":{},"additionalProperties":false},"annotations":{"readOnlyHint":true,"openWorldHint":false}}`...)
	l := ls.listing()
	l.Tools = []json.RawMessage{tool}
	return l
}

// isSignIn reports whether a request is a call of the offered signInTool.
func (ls *lists) isSignIn(ctx context.Context, method string, params json.RawMessage) bool {
	if method != "tools/call" || !ls.perCaller() && !ls.asks.Load() || rawjson.Text(rawjson.Get(params, "name")) != signInTool {
		return false
	}
	return !ls.perCaller() || ls.own.offersSignIn(ctx)
}

// signInWait bounds the wait of a call of signInTool for the listing of a caller that has signed in.
const signInWait = 5 * time.Second

// signedIn returns the result of signInTool for a caller that has a connection.
func (ls *lists) signedIn(ctx context.Context) (json.RawMessage, error) {
	if ls.perCaller() {
		if err := ls.own.signedInError(ctx); err != nil {
			return nil, err
		}
	}
	return signedInText, nil
}

// due returns a channel that says when to look whether the next attempt is due, and a function that
// looks. A server that needs a sign-in is not asked again before there is one (spec/signin §4).
func (s *slot) due() (at *time.Timer, now func() bool) {
	switch {
	case !needsSignIn(s.calls.lastError()):
		return time.NewTimer(time.Until(s.calls.nextTry())), func() bool { return true }
	case s.isShared() && s.conns.lists.perCaller():
		return time.NewTimer(never), func() bool { return false } // it stays a stranger
	}
	own := &s.credential
	signedIn := func() bool { return own.signedIn(s.calls.nextTry) }
	if s.isShared() {
		return time.NewTimer(signInPause), signedIn
	}
	look := own.refusals.note(own.digest(), time.Now())
	return time.NewTimer(signInPause), func() bool {
		return signedIn() && (own.digest() != own.refusals.digest || !time.Now().Before(look))
	}
}

// maxSignInBackoff is the longest time between two attempts with one token that the server refuses.
const maxSignInBackoff = 5 * time.Minute

// refusals are consecutive refusals of one token by a server. A held subscription would otherwise
// show the server a refused token each second, for as long as the caller stays.
type refusals struct {
	digest [sha256.Size]byte
	n      int
	last   time.Time
}

// note records a refusal, and returns the time of the next attempt with the same token.
func (r *refusals) note(digest [sha256.Size]byte, now time.Time) (next time.Time) {
	if digest != r.digest || now.Sub(r.last) > 2*maxSignInBackoff {
		r.n = 0 // another token, or one that has worked in between
	}
	wait := maxSignInBackoff
	if r.n < 9 {
		wait = min(signInPause<<r.n, maxSignInBackoff)
	}
	r.digest, r.n, r.last = digest, r.n+1, now
	return now.Add(wait)
}
