package upstream

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/signin/oauth"
	"github.com/weir-mcp/weir/mcp"
)

// TestCredentialTurns: the connection that lists tries the credential of each principal once, then again in turn, and
// asks as a stranger where no principal has one.
func TestCredentialTurns(t *testing.T) {
	t.Parallel()
	a := newAccounts()
	c := &credential{srv: &server{name: "notes", cfg: &mcpserver.Server{Credentials: "user", Lists: "shared"}, opts: Options{Credentials: a}}}
	due := func() time.Time { return time.Now().Add(time.Hour) }
	if c.choose(); c.holder != oauth.Anonymous || c.signedIn(due) {
		t.Errorf("without a sign-in the holder is %q", c.holder)
	}
	if look, stop := c.watch(); look == nil {
		t.Error("a stranger does not look for a sign-in")
	} else {
		stop()
	}
	for _, name := range []string{"ann", "bob", "eve"} {
		a.sign(name, true)
	}
	var tried []string
	for range 5 {
		c.choose()
		tried = append(tried, c.holder)
		c.noteFailed()
		if signed := c.signedIn(due); signed != (len(tried) < 3) {
			t.Errorf("after %q failed, an attempt before its time: %t", tried, signed)
		}
	}
	if !slices.Equal(tried, []string{"ann", "bob", "eve", "ann", "bob"}) {
		t.Errorf("tried %q", tried)
	}
	a.sign("zoe", true)
	if c.choose(); c.holder != "zoe" {
		t.Errorf("after a new sign-in the holder is %q", c.holder)
	}
	own := &credential{srv: c.srv, key: slotKey{principal: "bob"}}
	if own.choose(); own.holder != "bob" || own.owner().Lists || !c.owner().Lists {
		t.Errorf("the connection of bob has the credential of %q", own.holder)
	}
}

// TestGrantsOfTwoServers: a session has a grant of its own at each server.
func TestGrantsOfTwoServers(t *testing.T) {
	t.Parallel()
	var here, there grants
	session := mcp.NewSession("", "p")
	if _, known := here.of(session); known {
		t.Error("a session without a call has a grant")
	}
	here.note(session, "narrow")
	here.note(session, "wide")
	if grant, known := here.of(session); grant != "wide" || !known {
		t.Errorf("the grant is %q, known %t", grant, known)
	}
	if grant, known := there.of(session); known {
		t.Errorf("at another server it is %q", grant)
	}
}

// TestWatchesMove: a subscription goes to the upstream that has the place of the former one, once; one that ends or comes
// later does not.
func TestWatchesMove(t *testing.T) {
	t.Parallel()
	var ws watches
	first, second, late := &watch{}, &watch{stopped: true}, &watch{}
	if !ws.add(first) || !ws.add(second) || len(ws.all) != 1 {
		t.Errorf("%d are kept", len(ws.all))
	}
	ws.remove(first)
	ws.move(nil) // none is left that would go there
	if ws.add(late) || len(ws.all) != 0 {
		t.Errorf("%d are kept after the move", len(ws.all))
	}
}
