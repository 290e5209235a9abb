package bridge

import (
	"context"
	"encoding/json"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// follower delivers a server's notifications to a legacy session.
type follower struct {
	post      *Post
	resources resources
}

type followerKey struct{}

// followerOf returns the follower of a session, nil for a session that ends with its request.
func followerOf(s *mcp.Session) *follower {
	f, _ := s.Value(followerKey{}, nil).(*follower)
	return f
}

// Greeted reports whether a Relay has answered the handshake of a session, or goes on with it.
func Greeted(s *mcp.Session) bool { return followerOf(s) != nil }

// Resume goes on with a session whose handshake an earlier Relay has answered, before its first
// request.
func (x *Relay) Resume(ctx context.Context, s *mcp.Session) {
	if !Greeted(s) {
		x.attach(mcp.WithCaller(ctx, s), s)
	}
}

// attach delivers the server's notifications to an initialized session until it ends.
func (x *Relay) attach(ctx context.Context, s *mcp.Session) {
	f := &follower{}
	f.post = NewPost(&x.fan, func(ctx context.Context, n Notice) {
		if err := s.Peer().Notify(ctx, n.Method, n.Params); err != nil {
			x.untold(n, err)
		}
	})
	s.Value(followerKey{}, func() any { return f })
	unsubscribe := x.Server.Subscribe(ctx, func(method string, params json.RawMessage) {
		if method != logMessage || wantedLevel(x.levels.Of(s), params) {
			f.post.Put(method, params)
		}
	})
	s.OnClose(func() {
		unsubscribe()
		f.post.End()
		f.resources.end()
	})
}

func (x *Relay) untold(n Notice, err error) {
	x.log().Debug("an agent was not told of a change", "upstream", x.Name, "method", n.Method, "err", err)
}

// setLevel sets the level of a legacy session. The server gets the most verbose level of all
// sessions, and each session gets its own part of the messages.
func (x *Relay) setLevel(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	hello, err := x.hello(ctx)
	if err != nil {
		return nil, err
	}
	if rawjson.Get(hello.Capabilities, "logging") == nil {
		return nil, mcp.MethodNotFound(r.Method)
	}
	level := rawjson.Text(rawjson.Get(r.Params, "level"))
	if mcp.LogSeverity(level) < 0 {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "%q is no log level", clip(level))
	}
	if !Greeted(r.Session) {
		return json.RawMessage("{}"), nil // the session ends with this request
	}
	if err := x.levels.Set(ctx, x.Server, level); err != nil {
		return nil, x.failure(err)
	}
	r.Session.SetLogLevel(level)
	return json.RawMessage("{}"), nil
}

func resourceOf(r *mcp.Request) (string, error) {
	uri := rawjson.Text(r.Fields().URI)
	if uri == "" {
		return "", mcp.Errorf(mcp.KindInvalidParams, "%s needs a uri", r.Method)
	}
	return uri, nil
}

// subscribe delivers updates of a resource to a session. The first session that subscribes makes
// the server's subscription.
func (x *Relay) subscribe(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	uri, err := resourceOf(r)
	if err != nil {
		return nil, err
	}
	f := followerOf(r.Session)
	if f == nil {
		return nil, mcp.Errorf(mcp.KindInvalidRequest, "%s needs a session, or nobody could be told of an update; send initialize first", r.Method)
	}
	err = f.resources.subscribe(ctx, x.Server, uri, func(params json.RawMessage) {
		if x.tells(ctx, params) {
			f.post.Put(ResourceUpdated, params)
		}
	})
	if err != nil {
		return nil, x.failure(err)
	}
	return json.RawMessage("{}"), nil
}

// unsubscribe is the inverse of subscribe.
func (x *Relay) unsubscribe(r *mcp.Request) (json.RawMessage, error) {
	uri, err := resourceOf(r)
	if err != nil {
		return nil, err
	}
	if f := followerOf(r.Session); f != nil {
		f.resources.unsubscribe(uri)
	}
	return json.RawMessage("{}"), nil
}
