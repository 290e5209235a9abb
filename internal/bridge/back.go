package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Methods of a server's requests to its client.
const (
	methodSample = "sampling/createMessage"
	methodElicit = "elicitation/create"
	methodRoots  = "roots/list"
)

// Back hands a server's requests and notifications during a call to the agent whose request the
// call serves. It is the back argument of the call, and must not be used after the request's Serve
// has returned.
type Back struct {
	Request *mcp.Request
	Server  string // for messages, such as `upstream "files"`
	Level   string // of the log messages that the agent wants
	// Subscription replaces the subscription id of notifications by the agent's request id, because
	// the server knows another id; "" leaves it.
	Subscription jsonrpc.ID
	// OnAsk, if set, is called before the server's first question is sent to the agent, on the
	// goroutine that received the question.
	OnAsk func()
	// OnTell, if set, is called with the params of each message of the server before the agent gets them.
	OnTell func(params json.RawMessage)
	// Question, if set, returns the params of a question of the server as the agent gets them. Its error
	// is the server's fault.
	Question func(method string, params json.RawMessage) (json.RawMessage, error)

	asked atomic.Bool
}

var _ mcp.Handler = (*Back)(nil)

// Asked reports whether the server has asked a question. Then the result depends on more than the
// request and must not be shared.
func (b *Back) Asked() bool { return b.asked.Load() }

// noteAsked records that the server asks a question.
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
		b.tells(params)
		return nil, b.Request.Peer.Notify(ctx, q.Method, params)
	}
	params, err := b.question(q.Method, q.Params)
	if err != nil {
		return nil, err
	}
	b.noteAsked()
	return b.ask(ctx, q.Method, params, mcp.Back(q))
}

func (b *Back) tells(params json.RawMessage) {
	if b.OnTell != nil {
		b.OnTell(params)
	}
}

// question returns the params of a question as the agent gets them.
func (b *Back) question(method string, params json.RawMessage) (json.RawMessage, error) {
	if _, known := capabilityOf(method); !known || b.Question == nil {
		return params, nil
	}
	return b.Question(method, params)
}

// ask asks the agent. If the agent cannot be asked, the error names the server.
func (b *Back) ask(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	var result json.RawMessage
	err := b.checkClient(method, params)
	if err == nil {
		b.tells(params)
		result, err = b.Request.Peer.Call(ctx, method, params, back)
	}
	var own *mcp.Error
	if errors.As(err, &own) && (own.Kind == mcp.KindNoBackChannel || own.Kind == mcp.KindMissingCapability) {
		return nil, &mcp.Error{Kind: own.Kind, Message: b.Server + " asked for " + clip(method) + ": " + own.Message, Data: own.Data, Err: err}
	}
	return result, err
}

// checkClient returns an error if a legacy agent lacks the capability for a question. On a
// connection that sessions share, the server sees capabilities that this agent may lack, and an
// agent may ignore a question that it does not know. Methods that are not questions of MCP pass. So
// do questions to modern agents, which are checked where they are asked, and to agents without a
// handshake.
func (b *Back) checkClient(method string, params json.RawMessage) error {
	if _, known := capabilityOf(method); !known || b.Request.Modern() || b.Request.Session.Version() == "" {
		return nil
	}
	return checkCapability(b.Request.ClientCapabilities(), method, params)
}

// MayAsk reports whether a modern server may answer a method with questions (2026-07-28: only these
// three).
func MayAsk(method string) bool {
	return method == "tools/call" || method == "prompts/get" || method == "resources/read"
}

// IsInputRequired reports whether a result is a request for input.
func IsInputRequired(result json.RawMessage) bool {
	// The search is several times cheaper than the scan, and nearly always enough.
	return rawjson.MayHold(result, "input_required") && rawjson.Text(rawjson.Get(result, "resultType")) == "input_required"
}

// capabilityOf returns the client capability that a question needs. ok is false if method is not a
// question of MCP.
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

// canBeAsked reports whether a client declares a capability to answer questions.
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

// checkCapability returns an error if the declared capabilities of a client do not cover a question
// (2026-07-28: a server must not send a question that the client did not declare). The error is of
// mcp.KindMissingCapability.
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
	case mode != "url" && url != nil && !rawjson.IsObject(form): // {} means only forms
		return missing(name, "form")
	}
	return nil
}

// missing returns the error for a capability, or a mode of it, that a client does not declare.
func missing(capability, mode string) *mcp.Error {
	name, value := capability, `{}`
	if mode != "" {
		name, value = capability+"."+mode, `{"`+mode+`":{}}`
	}
	e := mcp.Errorf(mcp.KindMissingCapability, "the client of this call does not declare the capability %q", name)
	e.Data = json.RawMessage(`{"kind":"` + e.Kind.String() + `","` + requiredCapabilities + `":{"` + capability + `":` + value + `}}`)
	return e
}

// requiredCapabilities is a key that the error's data must have (2026-07-28).
const requiredCapabilities = "requiredCapabilities"

// refusals has the first question of a call that its client could not be asked.
type refusals struct{ first atomic.Pointer[mcp.Error] }

// check is checkCapability and stores the first error.
func (f *refusals) check(capabilities json.RawMessage, method string, params json.RawMessage) error {
	err := checkCapability(capabilities, method, params)
	if e, ok := errors.AsType[*mcp.Error](err); ok && e.Kind == mcp.KindMissingCapability {
		f.first.CompareAndSwap(nil, e)
	}
	return err
}

// complete restores the error of a refused question. A server that fails because of it often
// answers with only its code and text, but a modern client must learn which capability is missing.
func (f *refusals) complete(err error) error {
	first := f.first.Load()
	wire, ok := errors.AsType[*jsonrpc.Error](err)
	if first == nil || !ok || wire.Code != first.Kind.Info().JSONRPC || rawjson.IsObject(rawjson.Get(wire.Data, requiredCapabilities)) {
		return err
	}
	return &jsonrpc.Error{Code: wire.Code, Message: wire.Message, Data: first.Data}
}
