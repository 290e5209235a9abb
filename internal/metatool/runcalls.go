package metatool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/program"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/runs"
	"github.com/weir-mcp/weir/internal/tasks"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/text/visible"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/s2sp/plane"
)

// runCalls makes the calls of one program. It is safe for concurrent use.
type runCalls struct {
	p     *programs
	outer *dispatch.Call
	run   *runs.Run
	peer  *runPeer
	meta  json.RawMessage // of the outer request, for the inner ones
}

var _ runs.Gateway = (*runCalls)(nil)

func newRunCalls(p *programs, c *dispatch.Call, r *runs.Run) *runCalls {
	peer := &runPeer{peer: c.Request.Peer}
	meta := c.Request.Fields().RawMeta
	if m, err := c.Request.Fields().Meta(); err == nil {
		peer.token = m.ProgressToken
	}
	if without, err := rawjson.Delete(meta, result.MetaFormat); err == nil {
		meta = without
	}
	return &runCalls{p: p, outer: c, run: r, peer: peer, meta: meta}
}

// begin returns a call of a meta-tool that the program makes, and a context whose bytes end with it.
func (k *runCalls) begin(ctx context.Context, verb, tool string, arguments json.RawMessage) (context.Context, *memory.Scope, *dispatch.Call, error) {
	ctx, scope := memory.WithScope(ctx)
	of := k.outer.Request
	scope.Count(k.p.g.opts.Memory, "principal ", of.Session.Principal())
	if err := memory.Take(ctx, int64(2*len(arguments)+len(k.meta))); err != nil {
		scope.End()
		return nil, nil, nil, dispatch.Classify(ctx, "", mcp.NoRoom("the arguments of a call", err))
	}
	w := rawjson.NewWriter(make([]byte, 0, len(arguments)+len(k.meta)+80)).Object().Key("name").String(verb).Key("arguments").Raw(arguments)
	if k.meta != nil {
		w.Key("_meta").Raw(k.meta)
	}
	r := &mcp.Request{ID: of.ID, Method: methodCall, Params: w.EndObject().Bytes(), Version: of.Version, Session: of.Session, Peer: k.peer.of(tool)}
	c := &dispatch.Call{Request: r, Verb: verb, Arguments: r.Fields().Arguments, Format: result.FormatText, Session: k.outer.Session, Start: time.Now(), Run: k.run.Run, Passed: -1}
	return ctx, scope, c, nil
}

// Resolve implements runs.Gateway. It finds no tool that is hidden from the caller.
func (k *runCalls) Resolve(ctx context.Context, call program.Call) (runs.Tool, error) {
	e, err := k.find(call)
	if err != nil {
		k.p.g.opts.Await(ctx) // its server may be starting
		e, err = k.find(call)
	}
	if err != nil {
		return runs.Tool{}, err
	}
	return runs.Tool{ID: e.ID, ReadOnly: e.ReadOnly, Idempotent: e.Idempotent}, nil
}

func (k *runCalls) find(call program.Call) (*catalog.Entry, error) {
	c := &dispatch.Call{Verb: ToolExecute, Session: k.outer.Session, Request: k.outer.Request}
	from := k.p.finder.upstreams.Snapshot().Catalog
	var e *catalog.Entry
	var err error
	if call.Tool != "" {
		e, _, err = k.p.finder.lookup(c, from, rawjson.Quote(call.Tool))
	} else {
		e, err = k.p.names.find(from, k.p.g.outages, sessionOf(c), call.Server, call.Name)
	}
	if err == nil && k.p.isSaved(e) {
		err = result.NewError(result.ArgsInvalid, e.ID+" is a saved program, and a program starts no other one: call the tools that it calls")
	}
	return e, err
}

// Called implements runs.Gateway: the agent's progress names the call.
func (k *runCalls) Called(ctx context.Context, n int, tool string) { k.peer.called(ctx, n, tool) }

// Call implements runs.Gateway.
func (k *runCalls) Call(ctx context.Context, tool runs.Tool, args json.RawMessage, sending func(context.Context) error) runs.Answer {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	arguments := rawjson.NewWriter(make([]byte, 0, len(args)+len(tool.ID)+32)).Object().Key("tool_id").String(tool.ID).Key("args").Raw(args).EndObject().Bytes()
	ctx, scope, c, err := k.begin(ctx, ToolExecute, tool.ID, arguments)
	if err != nil {
		return runs.Answer{Err: err}
	}
	defer scope.End()
	reply, err := k.p.call.Run(context.WithValue(ctx, sendingKey{}, sending), c)
	var value json.RawMessage
	if err == nil {
		value, err = k.value(ctx, c, reply)
	}
	if err != nil {
		return runs.Answer{Err: k.failure(err), Ran: c.Sent && perhapsRan(err)}
	}
	return runs.Answer{Value: bytes.Clone(value), Mark: c.Label.Mark()} // the bytes of the reply end with the scope
}

// sendingKey is the key of the function that the journal of a run has for a call.
type sendingKey struct{}

// journal returns the step that tells the journal of the run that a call of its program is about to be sent.
func (p *programs) journal() dispatch.Step {
	return dispatch.Step{Phase: dispatch.PhaseRecord, Name: "journal", Before: func(ctx context.Context, _ *dispatch.Call) error {
		return ctx.Value(sendingKey{}).(func(context.Context) error)(ctx)
	}}
}

// perhapsRan reports whether a call that was sent and failed may have run. It has not if the server, or the tool
// itself, has answered an error, or if there was no connection.
func perhapsRan(err error) bool {
	var tool *program.ToolError
	var answered *jsonrpc.Error
	var dial *net.OpError
	return !(errors.As(err, &tool) && tool.Code == runs.CodeTool || errors.As(err, &answered) || errors.As(err, &dial) && dial.Op == "dial")
}

// failure returns an error as a program may see it: in one line, without secrets.
func (k *runCalls) failure(err error) error {
	redact := k.p.g.opts.Redactor
	line := func(s string) string { return text.Line(redact.Redact(visible.Text(s)), text.MaxMessageChars) }
	var tool *program.ToolError
	var own *result.Error
	switch {
	case errors.As(err, &tool):
		out := *tool
		out.Details = redact.Results(out.Details)
		return &out
	case errors.As(err, &own):
		return &program.ToolError{Code: string(own.Code), Message: line(own.Message), Retryable: own.Retryable(), Details: redact.Results(own.Details)}
	}
	if code, _ := codeOf(err); code != "" && !errors.Is(err, context.Canceled) {
		return &program.ToolError{Code: code, Message: line(err.Error())}
	}
	return err
}

// value returns the result of a call as a program gets it.
func (k *runCalls) value(ctx context.Context, c *dispatch.Call, reply json.RawMessage) (json.RawMessage, error) {
	if c.Task != "" {
		return rawjson.Object("task", rawjson.Quote(c.Task)), nil
	}
	if len(reply) > memory.Free {
		if err := memory.Take(ctx, int64(2*len(reply))); err != nil {
			return nil, dispatch.Classify(ctx, c.Entry.Upstream, mcp.NoRoom("the result as a value", err))
		}
	}
	return runs.Value(reply, func(mediaType string, data []byte) (string, error) {
		kept, err := k.p.g.opts.Artifacts.At(identity.RouteOf(ctx).Profile).Marked(c.Label.Mark()).PutDigested(ctx, c.Request.Session.Principal(), mediaType, c.Entry.ID, data, artifact.DigestOf(data))
		return kept.Handle, err
	})
}

// Find implements runs.Gateway.
func (k *runCalls) Find(ctx context.Context, query string, options json.RawMessage) (json.RawMessage, error) {
	w := rawjson.NewWriter(nil).Object().Key("query").String(query)
	if rawjson.IsObject(options) {
		w.Key("options").Raw(options)
	}
	ctx, scope, c, err := k.begin(ctx, ToolBrowse, "", w.EndObject().Bytes())
	if err != nil {
		return nil, err
	}
	defer scope.End()
	found, err := k.p.find.Run(ctx, c)
	if err != nil {
		return nil, k.failure(err)
	}
	return found, nil
}

// Open implements runs.Gateway.
func (k *runCalls) Open(ctx context.Context, handle string, selector json.RawMessage) (json.RawMessage, error) {
	w := rawjson.NewWriter(nil).Object().Key("handle").String(handle)
	if len(selector) > 0 && string(selector) != "null" {
		w.Key("selector").Raw(selector)
	}
	ctx, scope, c, err := k.begin(ctx, ToolView, "", w.EndObject().Bytes())
	if err != nil {
		return nil, err
	}
	defer scope.End()
	value, err := k.p.open.Run(ctx, c)
	if err == nil && tasks.IsHandle(handle) {
		value, err = k.value(ctx, c, value)
	}
	if err != nil {
		return nil, k.failure(err)
	}
	return bytes.Clone(value), nil
}

// found answers find of a program: the tools as tool_browse ranks them, as values.
func (p *programs) found(ctx context.Context, c *dispatch.Call) (json.RawMessage, error) {
	query := strings.TrimSpace(rawjson.Text(rawjson.Get(c.Arguments, "query")))
	if query == "" {
		return nil, metaArgs(ToolBrowse, "query is empty; say what you look for")
	}
	options := rawjson.Get(c.Arguments, "options")
	topK := DefaultTopK
	if raw := rawjson.Get(options, "top_k"); raw != nil {
		n, ok := rawjson.Int(raw)
		if !ok || n < 1 || n > MaxTopK {
			return nil, metaArgs(ToolBrowse, "top_k must be a whole number from 1 to %d, not %s", MaxTopK, text.Value(raw))
		}
		topK = n
	}
	server := rawjson.Text(rawjson.Get(options, "server"))
	most := topK
	if server != "" {
		most = MaxTopK
	}
	p.g.opts.Await(ctx)
	s := p.finder.upstreams.Snapshot()
	learnt := p.g.opts.Learned.Search(ctx)
	cards, _, err := s.Search(ctx, primitive.KindTool, query, learnt, most)
	if err != nil {
		p.g.opts.Logger.DebugContext(ctx, "ranked by words alone", "session", sessionOf(c).tag, "err", p.g.opts.Redactor.Redact(err.Error()))
	}
	w := rawjson.NewWriter(nil).Array()
	var shown []catalog.Card
	for i := range cards {
		e, ok := s.Catalog.Lookup(cards[i].ID)
		if !ok || p.isSaved(e) || server != "" && e.Namespace != server && e.Upstream != server || len(shown) == topK {
			continue
		}
		shown = append(shown, cards[i])
		p.g.opts.Flow.ProgramRead(c.Run.Flow, p.g.opts.Flow.Definition(e), e, nil, nil)
		w.Object().Key("tool_id").String(e.ID).Key("server").String(e.Namespace).Key("description").String(cards[i].Description).
			Key("signature").String(cards[i].Signature).Key("read_only").Bool(e.ReadOnly).EndObject()
	}
	sessionOf(c).offerCards(s.Catalog, shown)
	showTools(c, learnt, shown)
	return p.g.caller.clean(ctx, w.EndArray().Bytes())
}

// opened answers open of a program: a result that was held back as a value, or a view of it.
func (p *programs) opened(ctx context.Context, c *dispatch.Call) (json.RawMessage, error) {
	handle, selector := rawjson.Text(rawjson.Get(c.Arguments, "handle")), rawjson.Get(c.Arguments, "selector")
	if tasks.IsHandle(handle) {
		return p.work.view(ctx, c, handle, false)
	}
	if selector != nil {
		view, err := p.g.viewArtifact(ctx, c)
		if err != nil {
			return nil, err
		}
		return runs.TextValue(rawjson.GetPath(firstBlock(view), "text")), nil
	}
	lease, err := p.g.opts.Artifacts.At(identity.RouteOf(ctx).Profile).Open(ctx, c.Request.Session.Principal(), handle)
	if err != nil {
		var ae *artifact.Error
		if !errors.As(err, &ae) {
			return nil, err
		}
		return nil, &result.Error{Code: result.ViewFailed, Message: "handle: " + ae.Error()}
	}
	defer lease.Close()
	c.Label = c.Label.Join(flow.Marked(lease.Mark))
	size := lease.SizeBytes
	if size > p.runner.Limits.Memory/2 {
		return nil, &result.Error{Code: result.ViewFailed, Message: fmt.Sprintf("handle: the result has %d bytes, too many for a program; pass a selector as the second argument of open", size)}
	}
	if err := memory.Take(ctx, 2*size); err != nil {
		return nil, dispatch.Classify(ctx, "", mcp.NoRoom("the result as a value", err))
	}
	return wholeValue(ctx, lease)
}

// wholeValue returns the bytes of a result as a value: rows as an array of objects, JSON as it is, other text as a
// string.
func wholeValue(ctx context.Context, lease *artifact.Lease) (json.RawMessage, error) {
	data, err := lease.Bytes(ctx)
	if err != nil {
		return nil, dispatch.Classify(ctx, "", mcp.NoRoom("the result as a value", err))
	}
	if value := bytes.TrimSpace(data); rawjson.Valid(value) == nil {
		return bytes.Clone(value), nil
	}
	if lease.MediaType == plane.TypeNDJSON {
		w := rawjson.NewWriter(make([]byte, 0, len(data)+2)).Array()
		for line := range bytes.Lines(data) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				w.Raw(line)
			}
		}
		return w.EndArray().Bytes(), nil
	}
	if strings.HasPrefix(lease.MediaType, "text/") || lease.MediaType == "" {
		return rawjson.QuoteText(data), nil
	}
	return nil, &result.Error{Code: result.ViewFailed, Message: "handle: the result is of type " + lease.MediaType + ", which is no value of a program; pass its handle on"}
}

// firstBlock returns the first block of a tool result.
func firstBlock(raw json.RawMessage) (block json.RawMessage) {
	_ = rawjson.EachElement(rawjson.Get(raw, "content"), func(v []byte) bool { // weir's own result
		block = v
		return false
	})
	return block
}

// runPeer is the Peer of the calls of a program. Questions of servers pass to the agent as in any call. Progress
// counts the calls of the program, because progress must only grow.
type runPeer struct {
	peer  mcp.Peer
	token json.RawMessage // of the outer request; nil: the agent wants no progress

	mu   sync.Mutex // guards below; held while progress is sent, so that it arrives in order
	n    int        // of the last call that was told
	more int        // what was told since
}

// called tells the agent of a call.
func (p *runPeer) called(ctx context.Context, n int, tool string) {
	if p.token == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n, p.more = max(p.n, n), 0
	p.tell(ctx, float64(p.n), "call "+strconv.Itoa(n)+": "+shortTool(tool))
}

// shortTool is a tool_id without its version and hash.
func shortTool(id string) string {
	if i := strings.IndexAny(id, "@#"); i > 0 {
		return id[:i]
	}
	return id
}

func (p *runPeer) tell(ctx context.Context, progress float64, message string) {
	params := rawjson.NewWriter(nil).Object().Key("progressToken").Raw(p.token).Key("progress").Float(progress).Key("message").String(message).EndObject().Bytes()
	_ = p.peer.Notify(ctx, "notifications/progress", params) // the agent may be gone
}

// of returns the Peer of one call.
func (p *runPeer) of(tool string) mcp.Peer {
	return &runCallPeer{Peer: p.peer, run: p, tool: shortTool(tool)}
}

// runCallPeer is the Peer of one call of a program.
type runCallPeer struct {
	mcp.Peer
	run  *runPeer
	tool string
	told atomic.Int64
}

// maxToldProgress bounds the progress of one call of a program that the agent is told.
const maxToldProgress = 1000

// InRounds tells bridge.Call that only weir can ask a modern agent while its program runs.
func (p *runCallPeer) InRounds() bool { return true }

// Notify implements mcp.Peer.
func (p *runCallPeer) Notify(ctx context.Context, method string, params json.RawMessage) error {
	if method != "notifications/progress" {
		return p.Peer.Notify(ctx, method, params)
	}
	if p.run.token == nil || p.told.Add(1) > maxToldProgress {
		return nil
	}
	message := p.tool
	if said := rawjson.Text(rawjson.Get(params, "message")); said != "" {
		message += ": " + text.Line(visible.Text(said), text.MaxMessageChars)
	}
	p.run.mu.Lock()
	defer p.run.mu.Unlock()
	p.run.more++
	p.run.tell(ctx, float64(p.run.n)+float64(p.run.more)/1e6, message)
	return nil
}
