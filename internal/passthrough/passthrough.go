package passthrough

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// passthrough is an upstream as a Handler of agents: a bridge.Relay behind the Judge, the Observer
// and the owners of tasks.
type passthrough struct {
	name        string
	up          Upstream
	relay       bridge.Relay
	sessionless principalSessions
	// rounds holds the calls during which modern agents are asked.
	rounds *bridge.Rounds
	asking mcp.Handler // serve, behind rounds
	tasks  taskOwners
	judge  Judge   // may be nil
	audit  Auditor // may be nil
	// observer may be nil.
	observer Observer
	// apart reports whether requests to the upstream state the principal and the upstream separates
	// tasks itself; nil means no.
	apart func() bool
	// principals says that all sessions stand for their principals.
	principals bool
}

func newPassthrough(name string, up Upstream, nodes *bridge.Nodes, log *slog.Logger) *passthrough {
	p := &passthrough{name: name, up: up, rounds: bridge.NewRounds(bridge.Options{Nodes: nodes, Logger: log})}
	p.relay = bridge.Relay{Name: name, Server: up, Tells: p.tellsOf, Failure: failedToReach, Logger: log}
	p.asking = mcp.HandlerFunc(p.serve)
	return p
}

// close ends the goroutines that belong to no request and waits for them.
func (p *passthrough) close() {
	p.rounds.Drain()
	p.sessionless.close()
	p.relay.Close()
	p.tasks.docs.close()
}

// Serve implements mcp.Handler.
func (p *passthrough) Serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	return p.rounds.Serve(ctx, r, p.asking)
}

// serve serves requests of agents that can be asked, in both eras.
func (p *passthrough) serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	ctx = mcp.WithCaller(ctx, p.caller(r))
	if bridge.Answers(r) {
		return p.relay.Serve(ctx, r)
	}
	// From here on the message reaches the upstream.
	r, err := p.admit(ctx, r)
	if err != nil {
		return nil, err
	}
	return audited(ctx, p.audit, p.name, r, p.deliver)
}

// deliver hands an admitted message to the upstream.
func (p *passthrough) deliver(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	switch {
	case r.Method == "resources/subscribe" && !r.Modern(), r.Method == "subscriptions/listen" && r.Modern():
		return p.relay.Serve(ctx, r)
	case r.Method == "subscriptions/listen" && r.IsNotification():
		return nil, nil
	case r.Method == "subscriptions/listen":
		return p.call(ctx, r) // the upstream may know the method; weir does not
	case r.IsNotification():
		return nil, p.up.Notify(ctx, r.Method, r.Params)
	}
	return p.observed(ctx, r, p.call) // the Judge reports its own refusals
}

// call hands a request to the upstream.
func (p *passthrough) call(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	if r.Modern() {
		if err := p.checkParamHeaders(ctx, r); err != nil {
			return nil, err
		}
	}
	owner := r.Session.Principal()
	if err := p.checkTask(ctx, owner, r.Method, r.Params); err != nil {
		return nil, err
	}
	result, err := p.relay.Call(ctx, r)
	if err != nil {
		return nil, plainCode(ctx, r, err)
	}
	if result, err = p.ownTasks(ctx, owner, r, result); err != nil {
		return nil, err
	}
	if result, err = p.shown(ctx, r, result); err != nil {
		return nil, err
	}
	return p.relay.Complete(ctx, r, result), nil
}

// checkParamHeaders checks the headers that repeat arguments. The last reader of the headers must
// do that.
func (p *passthrough) checkParamHeaders(ctx context.Context, r *mcp.Request) error {
	h := streamable.Header(ctx)
	if r.Method != "tools/call" || h == nil {
		return nil
	}
	return p.up.CheckParamHeaders(ctx, rawjson.Text(r.Fields().Name), r.Params, h)
}
