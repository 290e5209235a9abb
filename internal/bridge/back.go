package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Methods with which a server asks its client something.
const (
	methodSample = "sampling/createMessage"
	methodElicit = "elicitation/create"
	methodRoots  = "roots/list"
)

// Back takes what a server asks and tells during a call that is made on behalf
// of an agent's request, and hands it to that agent. It is the back argument of
// the call, and must not be used after the request's Serve has returned.
type Back struct {
	Request *mcp.Request
	Server  string // for messages, such as `upstream "files"`
	Level   string // of the log messages that the agent wants
	// Subscription replaces the subscription id of notifications; "" leaves it.
	// It is the agent's request id, of which the server saw another.
	Subscription jsonrpc.ID
	// OnAsk, if set, is called before the server's first question goes on, from
	// the goroutine that brought it.
	OnAsk func()

	asked atomic.Bool
}

var _ mcp.Handler = (*Back)(nil)

// Asked reports whether the server has asked anything: then the result depends
// on more than the request, and is nobody else's.
func (b *Back) Asked() bool { return b.asked.Load() }

// noteAsked notes that the server asks something.
func (b *Back) noteAsked() {
	if !b.asked.Swap(true) && b.OnAsk != nil {
		b.OnAsk()
	}
}

// Serve implements mcp.Handler.
func (b *Back) Serve(ctx context.Context, q *mcp.Request) (json.RawMessage, error) {
	if q.IsNotification() {
		if q.Method == logMessage && !wantedLevel(b.Level, q.Params) {
			return nil, nil
		}
		params := q.Params
		if b.Subscription != "" {
			var err error
			if params, err = WithSubscription(params, b.Subscription); err != nil {
				return nil, err
			}
		}
		return nil, b.Request.Peer.Notify(ctx, q.Method, params)
	}
	b.noteAsked()
	return b.ask(ctx, q.Method, q.Params, mcp.Back(q))
}

// ask asks the agent. Where it cannot be asked, the error names the server.
func (b *Back) ask(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	var result json.RawMessage
	err := b.checkClient(method, params)
	if err == nil {
		result, err = b.Request.Peer.Call(ctx, method, params, back)
	}
	var own *mcp.Error
	if errors.As(err, &own) && (own.Kind == mcp.KindNoBackChannel || own.Kind == mcp.KindMissingCapability) {
		return nil, &mcp.Error{Kind: own.Kind, Message: b.Server + " asked for " + clip(method) + ": " + own.Message, Data: own.Data, Err: err}
	}
	return result, err
}

// checkClient says whether a legacy agent may be asked this: on a connection that
// sessions share, a server is told of capabilities that this agent may lack, and
// one that does not know a question need not answer it. What is no question of
// MCP today is for the agent to judge. Modern agents are looked at where they are
// asked, and so is whoever has made no handshake.
func (b *Back) checkClient(method string, params json.RawMessage) error {
	if _, known := capabilityOf(method); !known || b.Request.Modern() || b.Request.Session.Version() == "" {
		return nil
	}
	return checkCapability(b.Request.ClientCapabilities(), method, params)
}

// MayAsk reports whether a modern server may answer a method with questions
// (2026-07-28: these three only).
func MayAsk(method string) bool {
	return method == "tools/call" || method == "prompts/get" || method == "resources/read"
}

// IsInputRequired reports whether a result asks for input instead of being one.
func IsInputRequired(result json.RawMessage) bool {
	return rawjson.Text(rawjson.Get(result, "resultType")) == "input_required"
}

// capabilityOf is the client capability that a question needs. ok is false for
// what is no question of MCP.
func capabilityOf(method string) (capability string, ok bool) {
	switch method {
	case methodSample:
		return "sampling", true
	case methodElicit:
		return "elicitation", true
	case methodRoots:
		return "roots", true
	}
	return "", false
}

// canBeAsked reports whether a client declares that it answers any question.
func canBeAsked(capabilities json.RawMessage) bool {
	var out [3][]byte
	if rawjson.Fields(capabilities, []string{"sampling", "elicitation", "roots"}, out[:]) != nil {
		return false
	}
	for _, v := range out {
		if rawjson.IsObject(v) {
			return true
		}
	}
	return false
}

// checkCapability says whether a client that declares capabilities may be asked
// this (2026-07-28: a server must not ask for what the client did not declare).
// The error is of mcp.KindMissingCapability.
func checkCapability(capabilities json.RawMessage, method string, params json.RawMessage) error {
	name, ok := capabilityOf(method)
	if !ok {
		return mcp.MethodNotFound(method)
	}
	declared := rawjson.Get(capabilities, name)
	if !rawjson.IsObject(declared) {
		return missing(name, "")
	}
	if method != methodElicit {
		return nil
	}
	form, url := rawjson.Get(declared, "form"), rawjson.Get(declared, "url")
	switch mode := rawjson.Text(rawjson.Get(params, "mode")); {
	case mode == "url" && !rawjson.IsObject(url):
		return missing(name, "url")
	case mode != "url" && url != nil && !rawjson.IsObject(form): // {} alone stands for forms
		return missing(name, "form")
	}
	return nil
}

// missing is the error for a capability, or a mode of it, that a client does not
// declare.
func missing(capability, mode string) *mcp.Error {
	name, value := capability, `{}`
	if mode != "" {
		name, value = capability+"."+mode, `{"`+mode+`":{}}`
	}
	e := mcp.Errorf(mcp.KindMissingCapability, "the client of this call does not declare the capability %q", name)
	e.Data = json.RawMessage(`{"kind":"` + e.Kind.String() + `","` + requiredCapabilities + `":{"` + capability + `":` + value + `}}`)
	return e
}

// requiredCapabilities is what the data of the error must have (2026-07-28).
const requiredCapabilities = "requiredCapabilities"

// refusals are the questions of one call that its client could not be asked.
type refusals struct{ first atomic.Pointer[mcp.Error] }

// check is checkCapability that remembers.
func (f *refusals) check(capabilities json.RawMessage, method string, params json.RawMessage) error {
	err := checkCapability(capabilities, method, params)
	if e, ok := errors.AsType[*mcp.Error](err); ok && e.Kind == mcp.KindMissingCapability {
		f.first.CompareAndSwap(nil, e)
	}
	return err
}

// complete puts back what the error of a refused question has lost on its way: a
// server that fails because of it often answers with its code and text alone, and
// a modern client must be told which capability it is.
func (f *refusals) complete(err error) error {
	first := f.first.Load()
	wire, ok := errors.AsType[*jsonrpc.Error](err)
	if first == nil || !ok || wire.Code != first.Kind.Info().JSONRPC || rawjson.IsObject(rawjson.Get(wire.Data, requiredCapabilities)) {
		return err
	}
	return &jsonrpc.Error{Code: wire.Code, Message: wire.Message, Data: first.Data}
}
