package upstream

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/oauth"
	"github.com/weir-mcp/weir/internal/rawjson"
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
	if ls.listed.Load() || ls.asks.Swap(true) || ls.srv.opts.Sink == nil {
		return
	}
	tool := rawjson.AppendString([]byte(`{"name":"`+signInTool+`","title":`), "Sign in at "+ls.srv.name)
	tool = rawjson.AppendString(append(tool, `,"description":`...), "The server "+ls.srv.name+" wants a person to sign in before its tools can be listed. This tool says how; tell the person, and call it again afterwards.")
	tool = append(tool, `,"inputSchema":{"type":"object","properties":{},"additionalProperties":false},"annotations":{"readOnlyHint":true,"openWorldHint":false}}`...)
	l := catalog.Listing{Upstream: ls.srv.name, Namespace: ls.srv.cfg.Namespace, Order: int(ls.order.Load()), Found: ls.found, Tags: ls.srv.cfg.Tags, Tools: []json.RawMessage{tool}}
	ls.out.tell(func() { ls.srv.opts.Sink.Update(l) })
}

// isSignIn reports whether a request is a call of the offered signInTool.
func (ls *lists) isSignIn(method string, params json.RawMessage) bool {
	return method == "tools/call" && ls.asks.Load() && rawjson.Text(rawjson.Get(params, "name")) == signInTool
}

// due returns a channel that says when to look whether the next attempt is due, and a function that
// looks. A server that needs a sign-in is not asked again before there is one (spec/signin §4).
func (s *slot) due() (at *time.Timer, now func() bool) {
	if needsSignIn(s.calls.lastError()) {
		return time.NewTimer(signInPause), s.signedIn
	}
	return time.NewTimer(time.Until(s.calls.nextTry())), func() bool { return true }
}
