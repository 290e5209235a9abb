package metatool

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

const (
	// signInTime is how long a call waits for a person who signs in.
	signInTime = 5 * time.Minute
	// signInLook is the time between two looks whether the person has.
	signInLook = time.Second
)

// signInPage returns the page on which a person signs in so that a failed call succeeds, "" if there
// is none.
func signInPage(err error) string {
	if err == nil {
		return ""
	}
	var own *mcp.Error
	if !errors.As(err, &own) || own.Kind != mcp.KindUnauthorized {
		return ""
	}
	return rawjson.Text(rawjson.Get(own.Data, "connect_url"))
}

// canOpenPages reports whether the client of a request opens URLs for its person.
func canOpenPages(r *mcp.Request) bool {
	return !r.IsNotification() && r.Peer != nil && rawjson.IsObject(rawjson.GetPath(r.ClientCapabilities(), "elicitation", "url"))
}

// signIn sends the person of a client to the page of an upstream, and waits until the upstream has a
// sign-in (spec/signin §4). It reports whether the call can be made again.
func signIn(ctx context.Context, r *mcp.Request, peer mcp.Peer, upstream, page string) bool {
	state, ok := peer.(interface{ SignedIn(context.Context) bool })
	if !ok {
		return false
	}
	id := rand.Text()
	params := rawjson.AppendString([]byte(`{"mode":"url","message":`), fmt.Sprintf("The server %s needs a sign-in. The call goes on when you have signed in on this page of your gateway.", upstream))
	params = rawjson.AppendString(append(params, `,"url":`...), page)
	if !r.Modern() { // 2026-07-28 has no such member
		params = rawjson.AppendString(append(params, `,"elicitationId":`...), id)
	}
	params = append(params, '}')
	answer, err := r.Peer.Call(ctx, "elicitation/create", json.RawMessage(params), nil)
	if err != nil || rawjson.Text(rawjson.Get(answer, "action")) != "accept" {
		return false
	}
	if !awaitSignIn(ctx, state.SignedIn) {
		return false
	}
	if !r.Modern() { // a client that shows progress learns that it is over; the call goes on without
		done := append(rawjson.AppendString([]byte(`{"elicitationId":`), id), '}')
		_ = r.Peer.Notify(ctx, "notifications/elicitation/complete", done)
	}
	return true
}

// awaitSignIn looks every second whether there is a sign-in, and gives up after signInTime.
func awaitSignIn(ctx context.Context, signedIn func(context.Context) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, signInTime)
	defer cancel()
	look := time.NewTicker(signInLook)
	defer look.Stop()
	for !signedIn(ctx) {
		select {
		case <-look.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
