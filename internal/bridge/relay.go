package bridge

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// Initialize answers the handshake of a legacy client with the greeting of a server that has had
// its own handshake. The version is the one that the client asks for, or the server's own if that is
// older. hello returns the greeting; name stands in for a server that has not said its own.
func Initialize(ctx context.Context, r *mcp.Request, name string, hello func(context.Context) (mcp.Hello, error)) (json.RawMessage, error) {
	if r.Version != "" {
		return nil, mcp.Errorf(mcp.KindInvalidRequest, "this session is initialized already")
	}
	server, err := hello(ctx)
	if err != nil {
		return nil, err
	}
	version, err := mcp.Handshaken(r)
	if err != nil {
		return nil, err
	}
	if !server.Modern && server.Version != "" && server.Version < version {
		version = server.Version
		r.Session.SetVersion(version)
	}
	if !server.Modern && rawjson.IsObject(server.Raw) {
		return rawjson.Set(server.Raw, "protocolVersion", rawjson.Quote(version))
	}
	w := rawjson.NewWriter(nil).Object().Key("protocolVersion").String(version)
	w.Key("capabilities").Raw(Capabilities(server)).Key("serverInfo").Raw(ServerInfo(server, name))
	if server.Instructions != "" {
		w.Key("instructions").String(server.Instructions)
	}
	return w.EndObject().Bytes(), nil
}

// Capabilities returns the capabilities of a greeting, {} if it has none.
func Capabilities(hello mcp.Hello) json.RawMessage {
	if !rawjson.IsObject(hello.Capabilities) {
		return json.RawMessage("{}")
	}
	return hello.Capabilities
}

// ServerInfo returns the server's description of itself. A server that has none gets one with name.
func ServerInfo(hello mcp.Hello, name string) json.RawMessage {
	if rawjson.IsObject(hello.ServerInfo) {
		return hello.ServerInfo
	}
	return rawjson.NewWriter(nil).Object().Key("name").String(name).Key("version").String("").EndObject().Bytes()
}

// ResourceServer tells of updates of resources. stop ends that and does not wait.
type ResourceServer interface {
	SubscribeResource(ctx context.Context, uri string, fn func(params json.RawMessage)) (stop func(), err error)
}

// Resources are the subscriptions of one legacy session to resources of one server. The zero value
// has none. All methods are safe for concurrent use.
type Resources struct {
	order sync.Mutex // held while a subscription begins or ends; before mu

	mu    sync.Mutex // guards below
	ended bool
	stops map[string]func() // by URI
}

// Subscribe calls fn for each update of a resource until Unsubscribe or End. A second subscription
// to the same resource changes nothing. A session has at most MaxResources.
func (s *Resources) Subscribe(ctx context.Context, server ResourceServer, uri string, fn func(params json.RawMessage)) error {
	s.order.Lock()
	defer s.order.Unlock()
	s.mu.Lock()
	_, double := s.stops[uri]
	n := len(s.stops)
	s.mu.Unlock()
	switch {
	case double:
		return nil
	case n >= MaxResources:
		return mcp.Errorf(mcp.KindOverloaded, "this session is subscribed to %d resources, which is the bound; unsubscribe from some", n)
	}
	stop, err := server.SubscribeResource(ctx, uri, fn)
	if err != nil {
		return err
	}
	s.mu.Lock()
	ended := s.ended
	if !ended {
		if s.stops == nil {
			s.stops = map[string]func(){}
		}
		s.stops[uri] = stop
	}
	s.mu.Unlock()
	if ended {
		stop()
	}
	return nil
}

// Unsubscribe ends the subscription to a resource, if there is one.
func (s *Resources) Unsubscribe(uri string) {
	s.order.Lock()
	defer s.order.Unlock()
	s.mu.Lock()
	stop := s.stops[uri]
	delete(s.stops, uri)
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// End ends all subscriptions. Later ones end at once.
func (s *Resources) End() {
	s.mu.Lock()
	stops := s.stops
	s.ended, s.stops = true, nil
	s.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
}
