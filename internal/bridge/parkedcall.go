package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// parkedSize is the counted size of a parked call in addition to its params and questions.
const parkedSize = 2 << 10

// parkedCall is a call whose Handler may ask a modern agent questions. It is the Peer of that Handler's
// Request.
type parkedCall struct {
	rounds       *Rounds
	principal    string
	size         int64 // of its memory, without questions
	capabilities json.RawMessage
	refused      refusals
	params       json.RawMessage         // of the first request
	serving      memory.Scoped           // the parent of the Handler's context
	cancel       context.CancelCauseFunc // ends the Handler's context
	asked        chan struct{}           // capacity 1: there are new questions

	done   chan struct{} // closed when the Handler has returned
	result json.RawMessage
	err    error

	// Guarded by rounds.mu.
	counted int64 // bytes, while parked
	timer   *time.Timer

	// The agent's waiting request. Goroutines hold the lock for reading while they use peer, so
	// that they stop using it before the request is answered.
	attached sync.RWMutex // guards peer and token
	peer     mcp.Peer     // nil while parked
	token    json.RawMessage

	mu        sync.Mutex // guards below
	questions map[string]*asking
	order     []string // keys of questions, oldest first
	next      int
	weight    int64 // bytes of questions
	over      bool  // the Handler has returned
	abandoned bool  // the result has no receiver any more
	yes       yes   // of a person, until the first approval is asked for
}

// abandon ends a call whose result has no receiver any more.
func (h *parkedCall) abandon(cause error) {
	h.cancel(cause)
	h.mu.Lock()
	h.abandoned = true
	over := h.over
	h.mu.Unlock()
	if over {
		h.serving.Scope.End()
	}
}

// returned records that the Handler has returned.
func (h *parkedCall) returned() {
	h.mu.Lock()
	h.over = true
	abandoned := h.abandoned
	h.mu.Unlock()
	if abandoned {
		h.serving.Scope.End()
	}
	close(h.done)
}

// approvalKey is the key of a context in which weir itself asks.
type approvalKey struct{}

// Begun is the about of a call that has done something before its question, so that no other node may go on with it.
const Begun = "\x00begun"

// Approval returns a context for a Call that asks a person whether a call may run. A modern agent sees
// the question under the key approve-N. Questions of servers have the keys ask-N, so that a client can
// tell a person who asks. At another node, the answer counts for a call of which about is the same:
// about is the part that the question does not show, such as the definition of a tool.
func Approval(ctx context.Context, about string) context.Context {
	return context.WithValue(ctx, approvalKey{}, about)
}

// codeRejected is the error code with which a person refuses a completion (MCP, sampling).
const codeRejected = -1

// declined reports whether an answer to a question for a completion says that there will be none.
// 2026-07-28 has no form for that, so the actions of elicitation count.
func declined(answer json.RawMessage) bool {
	action := rawjson.Text(rawjson.Get(answer, "action"))
	return (action == "decline" || action == "cancel") && rawjson.Get(answer, "content") == nil
}

// asking is a question without an answer yet.
type asking struct {
	method string
	params json.RawMessage
	about  string               // of an approval
	answer chan json.RawMessage // capacity 1
}

var _ mcp.Peer = (*parkedCall)(nil)

// InRounds implements held. The agent is in rounds of weir's own as soon as weir has asked it.
func (h *parkedCall) InRounds() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.next > 0
}

// footprint returns the number of bytes that the call uses.
func (h *parkedCall) footprint() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.size + h.weight
}

// Call implements mcp.Peer. The question is sent with the next answer to the agent's request. Call
// returns when the agent has sent an answer.
func (h *parkedCall) Call(ctx context.Context, method string, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
	if err := h.refused.check(h.capabilities, method, params); err != nil {
		return nil, err
	}
	about, approves := ctx.Value(approvalKey{}).(string)
	if approves {
		if answer, ok := h.approved(params, about); ok {
			return answer, nil
		}
	}
	q := &asking{method: method, params: bytes.Clone(params), about: about, answer: make(chan json.RawMessage, 1)}
	h.mu.Lock()
	if len(h.questions) >= maxQuestions {
		h.mu.Unlock()
		return nil, mcp.Errorf(mcp.KindOverloaded, "%d questions of this call wait for answers already", maxQuestions)
	}
	h.next++
	key := "ask-" + strconv.Itoa(h.next)
	if approves {
		key = "approve-" + strconv.Itoa(h.next)
	}
	h.questions[key] = q
	h.order = append(h.order, key)
	h.weight += int64(len(q.params))
	h.mu.Unlock()
	h.signal()
	select {
	case answer := <-q.answer:
		if method == methodSample && declined(answer) {
			return nil, &jsonrpc.Error{Code: codeRejected, Message: "User rejected sampling request"}
		}
		return answer, nil
	case <-ctx.Done():
		h.forget(key)
		return nil, ctx.Err()
	}
}

// Notify implements mcp.Peer. Without a waiting request of the agent the notification is dropped.
// Progress gets the token of the waiting request.
func (h *parkedCall) Notify(ctx context.Context, method string, params json.RawMessage) error {
	h.attached.RLock()
	defer h.attached.RUnlock()
	if h.peer == nil {
		return nil
	}
	if method == progressMade {
		if h.token == nil {
			return nil
		}
		out, err := rawjson.Set(params, "progressToken", h.token)
		if err != nil {
			return mcp.Errorf(mcp.KindUpstreamProtocol, "progress: %v", err)
		}
		params = out
	}
	return h.peer.Notify(ctx, method, params)
}

func (h *parkedCall) attach(peer mcp.Peer, token json.RawMessage) {
	h.attached.Lock()
	defer h.attached.Unlock()
	h.peer, h.token = peer, bytes.Clone(token)
}

// detach waits until no goroutine uses the request's Peer any more.
func (h *parkedCall) detach() { h.attach(nil, nil) }

func (h *parkedCall) signal() {
	select {
	case h.asked <- struct{}{}:
	default:
	}
}

// forget removes a question whose caller has stopped waiting.
func (h *parkedCall) forget(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropLocked(key)
}

func (h *parkedCall) dropLocked(key string) *asking {
	q := h.questions[key]
	if q == nil {
		return nil
	}
	delete(h.questions, key)
	h.weight -= int64(len(q.params))
	for i, k := range h.order {
		if k == key {
			h.order = append(h.order[:i], h.order[i+1:]...)
			break
		}
	}
	return q
}

// deliver hands answers to the waiting callers. Unanswered questions are asked again.
func (h *parkedCall) deliver(given map[string]json.RawMessage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, answer := range given {
		if q := h.dropLocked(key); q != nil {
			q.answer <- answer
		}
	}
	if len(h.questions) > 0 {
		h.signal()
	}
}

// wait waits within the agent's request r for the result, or for questions.
func (h *parkedCall) wait(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	defer h.detach()
	for {
		select {
		case <-h.done:
			return h.serving.Scope.Hand(ctx, h.result), h.err
		default:
		}
		select {
		case <-h.done:
		case <-h.asked:
			if requests := h.round(); requests != nil {
				return h.leave(ctx, r, requests)
			}
		case <-ctx.Done():
			h.abandon(ctx.Err())
			<-h.done
			return nil, ctx.Err()
		}
	}
}

// round returns the object of the waiting questions, nil if there are none.
func (h *parkedCall) round() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.order) == 0 {
		return nil
	}
	w := rawjson.NewWriter(make([]byte, 0, int(h.weight)+64*len(h.order))).Object()
	for _, key := range h.order {
		q := h.questions[key]
		w.Key(key).Object().Key("method").String(q.method)
		if len(q.params) > 0 {
			w.Key("params").Raw(q.params)
		}
		w.EndObject()
	}
	return w.EndObject().Bytes()
}

// leave parks the call and returns the result that contains the questions.
func (h *parkedCall) leave(ctx context.Context, r *mcp.Request, requests []byte) (json.RawMessage, error) {
	h.detach() // before an agent can resume the call
	state, err := h.rounds.park(ctx, h, r)
	if err != nil {
		h.abandon(err)
		<-h.done
		return nil, err
	}
	out := append([]byte(`{"resultType":"input_required","inputRequests":`), requests...)
	out = rawjson.AppendString(append(out, `,"requestState":`...), state)
	return append(out, '}'), nil
}
