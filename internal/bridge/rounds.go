package bridge

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// Options bound a Rounds. Zero values mean the defaults given below.
type Options struct {
	// MaxParked bounds the calls that wait for answers of agents: 1,000. MaxPrincipal bounds the
	// waiting calls of one principal: 64.
	MaxParked, MaxPrincipal int
	// MaxBytes bounds the params and questions of all parked calls: 64 MB.
	MaxBytes int64
	// MaxAge is how long an agent may take to answer: 5 minutes.
	MaxAge time.Duration
	// Nodes is for a node of a cluster; nil is for a gateway of one node.
	Nodes *Nodes
	// Logger gets calls that were given up; nil discards them.
	Logger *slog.Logger
}

// Rounds lets Handlers ask modern agents questions, although these agents cannot be asked during a
// call. To the Handler a question is an ordinary Call of its Request's Peer. The agent gets the
// question as the result of its request, and answers by repeating the request (2026-07-28, "multi
// round-trip requests"). Meanwhile the call is parked: the Handler's goroutine blocks in Peer.Call
// and its context stays alive.
//
//	request ──▶ parked call ──▶ Handler.Serve ──▶ Peer.Call (a question)
//	   ◀── input_required, requestState ── parked ── at most MaxAge ──▶ cancelled
//	request with inputResponses, requestState ──▶ resumed: Peer.Call returns
//	   ◀── result, or the next questions
//
// The state that the agent returns is sealed: it names this process, the parked call, its
// principal, its request and its expiry. It works once, and is useless with any other request or
// principal. In a cluster, any node goes on with a call whose only question is weir's own, whether the call may run:
// see IsWhole. Parked calls are bounded in number, age and bytes; beyond these bounds the Handler's
// context ends.
//
// Rounds is safe for concurrent use. Close it to end the parked calls.
type Rounds struct {
	o    Options
	seal sealer
	ctx  context.Context // ends with Close
	stop context.CancelFunc
	wg   sync.WaitGroup // Handlers of parked calls; Add under mu

	mu     sync.Mutex // guards below
	closed bool
	parked map[parkID]*parkedCall
	count  map[string]int // parked calls by principal
	bytes  int64
}

// NewRounds returns an empty Rounds.
func NewRounds(o Options) *Rounds {
	if o.MaxParked <= 0 {
		o.MaxParked = 1000
	}
	if o.MaxPrincipal <= 0 {
		o.MaxPrincipal = 64
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 64 << 20
	}
	if o.MaxAge <= 0 {
		o.MaxAge = 5 * time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Nodes == nil {
		o.Nodes = soleNode()
	}
	x := &Rounds{o: o, seal: newSealer(o.Nodes), parked: map[parkID]*parkedCall{}, count: map[string]int{}}
	x.ctx, x.stop = context.WithCancel(context.Background())
	return x
}

// Parked returns the number of calls that wait for answers of agents, and their bytes.
func (x *Rounds) Parked() (calls int, size int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.parked), x.bytes
}

// Drain cancels the parked calls, waits until their Handlers have returned, and parks no more.
// Calls with a waiting request continue and end with the request.
func (x *Rounds) Drain() {
	x.mu.Lock()
	x.closed = true
	parked := x.parked
	x.parked, x.count, x.bytes = map[parkID]*parkedCall{}, map[string]int{}, 0
	x.mu.Unlock()
	for _, h := range parked {
		h.timer.Stop()
		h.abandon(errShuttingDown())
	}
	for _, h := range parked {
		<-h.done
	}
}

// Close is Drain and also cancels all other calls, with an error of mcp.KindShuttingDown for the
// agent. It waits until all Handlers have returned.
func (x *Rounds) Close() {
	x.Drain()
	x.stop()
	x.wg.Wait()
}

// Serve serves a request with next, which can ask agents of both eras. Requests that cannot be
// answered with questions pass unchanged. So do requests of legacy agents, whose transports can ask.
func (x *Rounds) Serve(ctx context.Context, r *mcp.Request, next mcp.Handler) (json.RawMessage, error) {
	if !r.Modern() || r.IsNotification() || !MayAsk(r.Method) {
		return next.Serve(ctx, r)
	}
	p := r.Fields()
	meta, err := p.Meta()
	if err != nil || p.Unique("requestState") != nil {
		return next.Serve(ctx, r) // its readers report the fault
	}
	if state := rawjson.Text(p.RequestState); x.seal.owns(state) {
		return x.resume(ctx, r, next, state, meta.ProgressToken)
	}
	if !canBeAsked(meta.ClientCapabilities) {
		q := *r
		peer := &unaskable{Peer: r.Peer}
		q.Peer = peer
		result, err := next.Serve(ctx, &q)
		return result, peer.refused.complete(err)
	}
	return x.begin(ctx, r, next, meta.ClientCapabilities, meta.ProgressToken, yes{})
}

// unaskable is the Peer of a modern client without a capability to answer questions.
type unaskable struct {
	mcp.Peer
	refused refusals
}

// Call implements mcp.Peer.
func (u *unaskable) Call(_ context.Context, method string, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
	return nil, u.refused.check(nil, method, params)
}

// begin serves a request in a goroutine, which outlives the request if it asks. y is the approval
// of a person.
func (x *Rounds) begin(ctx context.Context, r *mcp.Request, next mcp.Handler, capabilities, token json.RawMessage, y yes) (json.RawMessage, error) {
	q := *r
	q.Params = bytes.Clone(r.Params)
	h := &parkedCall{
		rounds: x, principal: strings.Clone(r.Session.Principal()), size: int64(len(q.Params)) + parkedSize,
		capabilities: bytes.Clone(capabilities), asked: make(chan struct{}, 1), done: make(chan struct{}),
		questions: map[string]*asking{}, yes: y, params: q.Params,
	}
	q.Peer = h
	// Keep the values of the request's context: the caller and the headers.
	h.serving.Context = context.WithoutCancel(ctx)
	serving, cancel := context.WithCancelCause(&h.serving)
	h.cancel = cancel
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		cancel(nil)
		return nil, errShuttingDown()
	}
	h.attach(r.Peer, token)
	x.wg.Go(func() {
		defer context.AfterFunc(x.ctx, func() { cancel(errShuttingDown()) })()
		h.result, h.err = next.Serve(serving, &q)
		h.err = h.refused.complete(h.err)
		if h.err != nil && x.ctx.Err() != nil {
			h.err = errShuttingDown()
		}
		cancel(nil)
		h.returned()
	})
	x.mu.Unlock()
	return h.wait(ctx, r)
}

func errShuttingDown() error {
	return mcp.Errorf(mcp.KindShuttingDown, "weir is shutting down; make the call again when it is back")
}

// resume hands the answers in r to the call that its state names. If the call is not here and the state is whole, next
// serves the call from its beginning.
func (x *Rounds) resume(ctx context.Context, r *mcp.Request, next mcp.Handler, state string, token json.RawMessage) (json.RawMessage, error) {
	id, asked, err := x.seal.open(ctx, state, r, time.Now())
	if err != nil {
		return nil, err
	}
	var answers []byte
	if err := rawjson.Scan(r.Params, rawjson.Key("inputResponses", &answers)); err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "params: %v", err)
	}
	given, err := readAnswers(answers)
	if err != nil {
		return nil, err
	}
	whole := asked != (digest{})
	if whole {
		if x.drained() {
			return nil, errShuttingDown()
		}
		if err := x.once(ctx, id); err != nil {
			return nil, err
		}
	}
	x.mu.Lock()
	h := x.parked[id]
	switch {
	case x.closed:
		x.mu.Unlock()
		return nil, errShuttingDown()
	case h == nil && whole:
		x.mu.Unlock()
		return x.goesOn(ctx, r, next, yes{asked, given[approvalFirst]})
	case h == nil && StateNode(state) != x.o.Nodes.Inc():
		x.mu.Unlock()
		return nil, mcp.Errorf(mcp.KindInvalidParams, "the node that waited for these answers is gone; make the call again without requestState")
	case h == nil:
		x.mu.Unlock()
		return nil, x.unawaited()
	}
	x.unparkLocked(id, h)
	h.timer.Stop()
	x.mu.Unlock()
	h.attach(r.Peer, token)
	h.deliver(given)
	return h.wait(ctx, r)
}

// unawaited is the error for answers that no call waits for.
func (x *Rounds) unawaited() error {
	return mcp.Errorf(mcp.KindInvalidParams, "nothing waits for these answers any more: they were given before, or came after %s; make the call again without requestState", x.o.MaxAge)
}

// drained reports whether Drain was called.
func (x *Rounds) drained() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.closed
}

// readAnswers reads inputResponses: one object per question.
func readAnswers(raw json.RawMessage) (map[string]json.RawMessage, error) {
	given := map[string]json.RawMessage{}
	if len(raw) == 0 || string(raw) == "null" {
		return given, nil
	}
	if !rawjson.IsObject(raw) {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "inputResponses must be an object")
	}
	bad, refused := "", false
	err := rawjson.EachMember(raw, func(m rawjson.Member) bool {
		key := string(m.Key)
		if _, twice := given[key]; twice || !rawjson.IsObject(m.Value) || len(given) == maxQuestions {
			bad, refused = key, true
			return false
		}
		given[key] = bytes.Clone(m.Value)
		return true
	})
	switch {
	case refused:
		return nil, mcp.Errorf(mcp.KindInvalidParams, "inputResponses[%q] must be there once and be the result that answers the question, an object; at most %d are taken", clip(bad), maxQuestions)
	case err != nil:
		return nil, mcp.Errorf(mcp.KindInvalidParams, "inputResponses: %v", err)
	}
	return given, nil
}

// park stores a call until its answers arrive and returns the state that names it. If there is no
// room, it returns an error of mcp.KindOverloaded.
func (x *Rounds) park(ctx context.Context, h *parkedCall, r *mcp.Request) (string, error) {
	var id parkID
	_, _ = rand.Read(id[:]) // never fails
	expires := time.Now().Add(x.o.MaxAge)
	state := x.seal.close(ctx, id, r, expires, h.whole())
	x.mu.Lock()
	defer x.mu.Unlock()
	full := ""
	switch {
	case x.closed:
		return "", errShuttingDown()
	case len(x.parked) >= x.o.MaxParked:
		full = "too many calls"
	case x.count[h.principal] >= x.o.MaxPrincipal:
		full = "too many calls of this principal"
	case x.bytes+h.footprint() > x.o.MaxBytes:
		full = "too many bytes of calls"
	}
	if full != "" {
		return "", mcp.Errorf(mcp.KindOverloaded, "the server asks for input, but %s wait for answers already; answer or give up some, and make the call again", full)
	}
	h.counted = h.footprint()
	x.parked[id] = h
	x.count[h.principal]++
	x.bytes += h.counted
	h.timer = time.AfterFunc(x.o.MaxAge, func() { x.expire(id, h) })
	return state, nil
}

// unparkLocked removes a call from the table.
func (x *Rounds) unparkLocked(id parkID, h *parkedCall) {
	delete(x.parked, id)
	x.bytes -= h.counted
	if x.count[h.principal]--; x.count[h.principal] <= 0 {
		delete(x.count, h.principal)
	}
}

// expire gives up a call whose agent has not answered.
func (x *Rounds) expire(id parkID, h *parkedCall) {
	x.mu.Lock()
	if x.parked[id] != h {
		x.mu.Unlock()
		return
	}
	x.unparkLocked(id, h)
	x.mu.Unlock()
	x.o.Logger.Info("a call is cancelled: its agent did not answer what the server asked", "principal", h.principal, "after", x.o.MaxAge)
	h.abandon(mcp.Errorf(mcp.KindUpstreamTimeout, "the agent did not answer within %s", x.o.MaxAge))
}
