package bridge

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// Server is the MCP server of a Relay. Its methods are called concurrently, on behalf of the
// session mcp.Caller(ctx).
type Server interface {
	mcp.Peer
	Leveler
	// Ready waits until the server can be called, and returns its greeting.
	Ready(ctx context.Context) (mcp.Hello, error)
	// Subscribe calls fn for each notification that belongs to no call, except updates of resources.
	// stop ends that and does not wait. fn must not block.
	Subscribe(ctx context.Context, fn func(method string, params json.RawMessage)) (stop func())
	// SubscribeResource does the same for updates of one resource.
	SubscribeResource(ctx context.Context, uri string, fn func(params json.RawMessage)) (stop func(), err error)
}

// Relay presents a server as a Handler to clients of both eras. It answers the handshake and ping
// itself, because the server has had its own handshake. It also counts and fans out the
// subscriptions of clients. All other messages go to the server unchanged:
//
//	client ── initialize, ping, setLevel, subscribe, listen ──▶ Relay
//	       ── tools/call … ─────────────────────────────────▶ Relay.Call ──▶ Server
//	       ◀── notifications: filtered by level, in order ── Post ◀── Subscribe ──┘
//
// Server must be set; all other fields may be zero. The fields must not change while the Relay is in
// use. All methods are safe for concurrent use. Serve and Call need mcp.WithCaller.
type Relay struct {
	// Name is used for a server that has not sent a name.
	Name string
	// Server is the server behind the Relay.
	Server Server
	// Tells reports whether the client that subscribed with the request of ctx may get an update of a
	// resource; nil permits all. params are the params of the notification. It must not block.
	Tells func(ctx context.Context, params json.RawMessage) bool
	// Failure returns the error that a client gets for a server's error; nil changes nothing.
	Failure func(error) error
	// Logger gets errors that cannot be sent to a client; nil discards them.
	Logger *slog.Logger

	fan    Fan
	levels Levels
}

// Close ends the goroutines that deliver notifications and waits for them.
func (x *Relay) Close() { x.fan.Close() }

// Answers reports whether the Relay answers a message of r's method itself. Such a message does not
// reach the server, or only in combination with messages of other clients.
func Answers(r *mcp.Request) bool {
	switch r.Method {
	case "initialize", "notifications/initialized", "server/discover":
		return true
	case "ping":
		return !r.Modern() && !r.IsNotification()
	case "logging/setLevel", "resources/unsubscribe":
		return !r.Modern()
	}
	return false
}

// Serve implements mcp.Handler.
func (x *Relay) Serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	switch {
	case r.Method == "initialize":
		return x.initialize(ctx, r)
	case r.Method == "notifications/initialized":
		return nil, nil
	case r.Method == "server/discover":
		return x.discover(ctx, r)
	case r.Method == "subscriptions/listen" && r.Modern():
		return x.listen(ctx, r)
	case r.Modern():
	case r.Method == "ping" && !r.IsNotification():
		return json.RawMessage("{}"), nil
	case r.Method == "logging/setLevel":
		return x.setLevel(ctx, r)
	case r.Method == "resources/subscribe":
		return x.subscribe(ctx, r)
	case r.Method == "resources/unsubscribe":
		return x.unsubscribe(r)
	}
	if r.IsNotification() {
		return nil, x.Server.Notify(ctx, r.Method, r.Params)
	}
	result, err := x.Call(ctx, r)
	if err != nil {
		return nil, err
	}
	return x.Complete(ctx, r, result), nil
}

// Call hands a request to the server and returns its result unchanged. Questions of the server
// during the call reach the client in the form of the client's era.
func (x *Relay) Call(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	back := Back{Request: r, Server: x.who()}
	var err error
	back.Level, err = x.levels.OfCall(ctx, r, x.Server, func(err error) {
		x.log().Debug("an upstream's log level could not be set", "upstream", x.Name, "err", err)
	})
	if err != nil {
		return nil, err
	}
	result, err := Call(ctx, x.Server, r.Method, r.Params, &back)
	return result, x.failure(err)
}

// Complete adds to a legacy server's result the members that a modern client requires.
func (x *Relay) Complete(ctx context.Context, r *mcp.Request, result json.RawMessage) json.RawMessage {
	if !r.Modern() {
		return result
	}
	hello, err := x.hello(ctx)
	if err != nil || hello.Modern {
		return result // an incomplete result is better than none
	}
	switch r.Method {
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read":
		result = mcp.Cacheable(result, 0, "private")
	}
	return mcp.Complete(result, x.serverInfo(hello))
}

// hello returns the server's greeting.
func (x *Relay) hello(ctx context.Context) (mcp.Hello, error) {
	hello, err := x.Server.Ready(ctx)
	return hello, x.failure(err)
}

// initialize answers the handshake of a legacy client with the server's greeting. The version is
// the requested one, or the server's own if that is older. From then on the client's session gets
// notifications of changes.
func (x *Relay) initialize(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	if r.IsNotification() {
		return nil, nil
	}
	if r.Version != "" {
		return nil, mcp.Errorf(mcp.KindInvalidRequest, "this session is initialized already")
	}
	shown(r)
	server, err := x.hello(ctx)
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
	x.attach(ctx, r.Session)
	if !server.Modern && rawjson.IsObject(server.Raw) {
		return rawjson.Set(server.Raw, "protocolVersion", rawjson.Quote(version))
	}
	w := rawjson.NewWriter(nil).Object().Key("protocolVersion").String(version)
	w.Key("capabilities").Raw(capabilities(server)).Key("serverInfo").Raw(x.serverInfo(server))
	if server.Instructions != "" {
		w.Key("instructions").String(server.Instructions)
	}
	return w.EndObject().Bytes(), nil
}

// shown notes the client's capabilities, before the server is waited for: a server program of the client's own
// starts then, and hears of the same capabilities. Without that it would hear of all capabilities, as the program of
// a client without sessions does.
func shown(r *mcp.Request) {
	var declared, info []byte
	if rawjson.Scan(r.Params, rawjson.Key("capabilities", &declared), rawjson.Key("clientInfo", &info)) != nil {
		return // the handshake is refused
	}
	if !rawjson.IsObject(declared) {
		declared = []byte("{}")
	}
	r.Session.SetClient(info, declared)
}

// discover answers server/discover of a modern client with the server's greeting.
func (x *Relay) discover(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	if !r.Modern() {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "server/discover needs params._meta[%q]", mcp.MetaVersion)
	}
	hello, err := x.hello(ctx)
	if err != nil {
		return nil, err
	}
	if hello.Modern && rawjson.IsObject(hello.Raw) {
		return hello.Raw, nil
	}
	w := rawjson.NewWriter(nil).Object().Key("supportedVersions").Strings(mcp.Versions).Key("capabilities").Raw(capabilities(hello))
	if hello.Instructions != "" {
		w.Key("instructions").String(hello.Instructions)
	}
	return mcp.Complete(mcp.Cacheable(w.EndObject().Bytes(), 0, "private"), x.serverInfo(hello)), nil
}

// capabilities returns the capabilities of a greeting, {} if it has none.
func capabilities(hello mcp.Hello) json.RawMessage {
	if !rawjson.IsObject(hello.Capabilities) {
		return json.RawMessage("{}")
	}
	return hello.Capabilities
}

// serverInfo returns the server's description of itself, or one with the Relay's name.
func (x *Relay) serverInfo(hello mcp.Hello) json.RawMessage {
	if rawjson.IsObject(hello.ServerInfo) {
		return hello.ServerInfo
	}
	return rawjson.NewWriter(nil).Object().Key("name").String(x.Name).Key("version").String("").EndObject().Bytes()
}

// who returns the server's name for messages.
func (x *Relay) who() string { return `upstream "` + x.Name + `"` }

func (x *Relay) failure(err error) error {
	if err == nil || x.Failure == nil {
		return err
	}
	return x.Failure(err)
}

func (x *Relay) tells(ctx context.Context, params json.RawMessage) bool {
	return x.Tells == nil || x.Tells(ctx, params)
}

func (x *Relay) log() *slog.Logger {
	if x.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return x.Logger
}
