package router

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// passthrough is an upstream as a Handler: the handshake and ping are answered
// here, because the upstream has had its own; what agents subscribe to is
// counted and fanned out; everything else is the upstream's, unread.
type passthrough struct {
	name string
	up   Upstream
	log  *slog.Logger
	fan  bridge.Fan
	lone loneSessions
	// levels are whose log messages the upstream's are.
	levels bridge.Levels
	// rounds hold the calls during which modern agents are asked.
	rounds *bridge.Rounds
	asking mcp.Handler // serve behind rounds
	tasks  taskOwners
	judge  Judge // may be nil
	// observer may be nil.
	observer Observer
	// apart says that the upstream knows on whose behalf it is called, and keeps
	// tasks apart itself; nil says that it does not.
	apart func() bool
}

func newPassthrough(name string, up Upstream, log *slog.Logger) *passthrough {
	p := &passthrough{name: name, up: up, log: log, rounds: bridge.NewRounds(bridge.Options{Logger: log})}
	p.asking = p.rounds.Wrap(mcp.HandlerFunc(p.serve))
	return p
}

// close ends what runs beside requests and waits for it.
func (p *passthrough) close() {
	p.rounds.Drain()
	p.lone.close()
	p.fan.Close()
}

// Serve implements mcp.Handler.
func (p *passthrough) Serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	return p.asking.Serve(ctx, r)
}

// serve serves requests of agents that can be asked, in both eras.
func (p *passthrough) serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	ctx = mcp.WithCaller(ctx, p.caller(r))
	switch r.Method {
	case "initialize":
		return p.initialize(ctx, r)
	case "notifications/initialized":
		return nil, nil
	case "ping":
		if !r.Modern() && !r.IsNotification() {
			return json.RawMessage("{}"), nil
		}
	case "server/discover":
		return p.discover(ctx, r)
	case "logging/setLevel":
		if !r.Modern() {
			return p.setLevel(ctx, r)
		}
	case "resources/unsubscribe":
		if !r.Modern() {
			return p.unsubscribe(r)
		}
	}
	// From here on the upstream hears of it.
	r, err := p.admit(ctx, r)
	if err != nil {
		return nil, err
	}
	switch {
	case r.Method == "resources/subscribe" && !r.Modern():
		return p.subscribe(ctx, r)
	case r.Method == "subscriptions/listen":
		return p.listen(ctx, r)
	case r.IsNotification():
		return nil, p.up.Notify(ctx, r.Method, r.Params)
	}
	return p.observed(ctx, r, p.call) // of what it refuses, the Judge tells itself
}

// hello returns what the upstream said of itself.
func (p *passthrough) hello(ctx context.Context) (mcp.Hello, error) {
	hello, err := p.up.Ready(ctx)
	return hello, failedToReach(err)
}

// initialize answers the handshake of an agent with what the upstream answered to weir's.
func (p *passthrough) initialize(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	if r.IsNotification() {
		return nil, nil
	}
	result, err := bridge.Initialize(ctx, r, p.name, p.hello)
	if err == nil {
		p.attach(ctx, r.Session)
	}
	return result, err
}

// discover answers a modern agent with what the upstream said of itself.
func (p *passthrough) discover(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	if !r.Modern() {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "server/discover needs params._meta[%q]", mcp.MetaVersion)
	}
	hello, err := p.hello(ctx)
	if err != nil {
		return nil, err
	}
	if hello.Modern && rawjson.IsObject(hello.Raw) {
		return hello.Raw, nil
	}
	versions, err := json.Marshal(mcp.Versions)
	if err != nil {
		return nil, err
	}
	out := append([]byte(`{"supportedVersions":`), versions...)
	out = append(append(out, `,"capabilities":`...), bridge.Capabilities(hello)...)
	out = append(appendInstructions(out, hello), '}')
	return mcp.Complete(mcp.Cacheable(out, 0, "private"), bridge.ServerInfo(hello, p.name)), nil
}

func appendInstructions(out []byte, hello mcp.Hello) []byte {
	if hello.Instructions == "" {
		return out
	}
	return rawjson.AppendString(append(out, `,"instructions":`...), hello.Instructions)
}

// who is what messages call the upstream.
func (p *passthrough) who() string { return `upstream "` + p.name + `"` }

// call hands a request on and bridges what differs between the eras: completed
// results for a modern agent, and what the upstream asks in either's way.
func (p *passthrough) call(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	modern := r.Modern()
	back := bridge.Back{Request: r, Server: p.who()}
	var err error
	if back.Level, err = p.levelOf(ctx, r); err != nil {
		return nil, err
	}
	if modern {
		if err := p.checkParamHeaders(ctx, r); err != nil {
			return nil, err
		}
	}
	owner := r.Session.Principal()
	if err := p.checkTask(owner, r.Method, r.Params); err != nil {
		return nil, err
	}
	result, err := bridge.Call(ctx, p.up, r.Method, r.Params, &back)
	if err != nil {
		return nil, plainCode(ctx, r, failedToReach(err))
	}
	if result, err = p.ownTasks(owner, r, result); err != nil {
		return nil, err
	}
	if modern {
		return p.complete(ctx, r.Method, result)
	}
	return result, nil
}

// checkParamHeaders checks the headers that repeat arguments, which whoever is
// the last to see them has to do.
func (p *passthrough) checkParamHeaders(ctx context.Context, r *mcp.Request) error {
	h := streamable.Header(ctx)
	if r.Method != "tools/call" || h == nil {
		return nil
	}
	return p.up.CheckParamHeaders(rawjson.Text(r.Fields().Name), r.Params, h)
}

// complete adds to the result of a legacy upstream what a modern agent expects
// of every result.
func (p *passthrough) complete(ctx context.Context, method string, result json.RawMessage) (json.RawMessage, error) {
	hello, err := p.hello(ctx)
	if err != nil || hello.Modern {
		return result, nil //nolint:nilerr // the result is there; what it is completed with is not worth losing it
	}
	switch method {
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read":
		result = mcp.Cacheable(result, 0, "private")
	}
	return mcp.Complete(result, bridge.ServerInfo(hello, p.name)), nil
}
