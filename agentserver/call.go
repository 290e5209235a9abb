package agentserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/work"
	"github.com/weir-mcp/weir/internal/queue"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// maxNames bounds the names listed for a caller who mistyped one.
const maxNames = 100

// callTool serves tools/call:
//
//	name ▶ token ▶ headers ▶ arguments against the schema ▶ queue ▶ result, or the id of a task
func (s *Server) callTool(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	p := r.Fields()
	var task []byte
	err := p.Unique("name", "arguments")
	if err == nil && !p.Plain() {
		err = rawjson.Scan(r.Params, rawjson.Key("task", &task))
	}
	if err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "params: %v", err)
	}
	name := rawjson.Text(p.Name)
	if name == "" {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "tools/call needs params.name, the name of a tool")
	}
	t := s.offer.Load().tools[name]
	if t == nil {
		return nil, s.unknownTool(r, name)
	}
	if err := checkClaims(ctx, name); err != nil {
		return nil, err
	}
	if h := streamable.Header(ctx); len(t.headers) > 0 && r.Modern() && h != nil {
		if err := t.headers.Check(h, r.Params); err != nil {
			return nil, err
		}
	}
	args := p.Arguments
	if args == nil || string(args) == "null" {
		args = []byte("{}")
	}
	if err := s.validate(ctx, t, args); err != nil {
		return nil, invalidArguments(name, err)
	}
	metadata := s.metadata(r)
	payload := rawjson.NewWriter(make([]byte, 0, len(args)+len(metadata)+32))
	payload.Object().Key("input").Raw(args).Key("metadata").Raw(metadata).EndObject()
	spec := queue.Spec{Owner: r.Session.Principal(), Name: name, Payload: payload.Bytes(), Priority: t.Priority, Idempotent: t.Idempotent, Timeout: t.timeout(s.o.Timeout)}
	if answer, ok, err := s.callAsTask(r, t, task, spec); ok {
		return answer, err
	}
	meta, err := p.Meta()
	if err != nil {
		return nil, err
	}
	// The params are invalid after Serve has returned, but a function may outlive its cancellation.
	spec.Value = &waiting{peer: r.Peer, token: bytes.Clone(meta.ProgressToken)}
	result, err := s.queue.Do(ctx, spec)
	if _, failed := isFailure(err); err == nil || failed && result != nil {
		return result, nil
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
		return nil, err // the transport reports it
	}
	return nil, s.queueError(fmt.Sprintf("tool %q", name), err)
}

// timeout returns how long the tool may run.
func (t *Tool) timeout(def time.Duration) time.Duration {
	switch {
	case t.Timeout != 0:
		return t.Timeout
	case t.Async:
		return defaultAsyncTimeout
	}
	return def
}

// waiting is the caller of a call that does not run as a task.
type waiting struct {
	peer  mcp.Peer
	token json.RawMessage
}

// unknownTool returns the error for an unknown tool. Clients of agent servers expect an unknown
// method; from 2026-07-28 on, it is wrong params.
func (s *Server) unknownTool(r *mcp.Request, name string) error {
	names := slices.Sorted(maps.Keys(s.offer.Load().tools))
	if len(names) > maxNames {
		names = names[:maxNames]
	}
	data, err := json.Marshal(map[string]any{"kind": mcp.KindNotFound.String(), "tools": names})
	if err != nil {
		return err
	}
	message := fmt.Sprintf("Tool '%s' not found", clip(name))
	if r.Modern() {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: message, Data: data}
	}
	return &mcp.Error{Kind: mcp.KindNotFound, Message: message, Data: data}
}

// validate checks the arguments of a call until ctx ends, for at most the tool's timeout.
func (s *Server) validate(ctx context.Context, t *offered, args json.RawMessage) error {
	var m *work.Meter
	timeout := t.timeout(s.o.Timeout)
	err := t.entry.ValidateWithin(args, func() *work.Meter {
		m = work.NewMeter(ctx, work.Options{Turns: s.turns, Timeout: timeout})
		return m
	})
	m.Close()
	if errors.Is(err, work.ErrTime) {
		return mcp.Errorf(mcp.KindUpstreamTimeout, "the arguments could not be checked within %s", timeout)
	}
	return err
}

// invalidArguments returns the error for arguments that do not match the schema.
func invalidArguments(name string, err error) error {
	var invalid *catalog.Error
	if !errors.As(err, &invalid) {
		return err
	}
	var parts []string
	for _, p := range invalid.Problems {
		if len(parts) == 3 {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, strings.TrimSpace(p.Path+" "+p.Message))
	}
	if parts == nil {
		parts = []string{invalid.Message}
	}
	e := mcp.Errorf(mcp.KindInvalidParams, "the arguments do not fit the input schema of tool %q: %s", name, strings.Join(parts, "; "))
	problems := invalid.Problems
	if problems == nil {
		problems = []catalog.Problem{}
	}
	e.Data, _ = json.Marshal(map[string]any{"kind": e.Kind.String(), "problems": problems})
	return e
}

// metadata returns the caller's metadata for a command: never a token.
func (s *Server) metadata(r *mcp.Request) json.RawMessage {
	w := rawjson.NewWriter(nil).Object().Key("agent").String(s.name).Key("principal").String(r.Session.Principal())
	if meta := r.Fields().RawMeta; rawjson.IsObject(meta) {
		own := rawjson.NewWriter(nil).Object()
		_ = rawjson.EachMember(meta, func(m rawjson.Member) bool {
			// Keys of the protocol itself are not the caller's.
			if !bytes.HasPrefix(m.Key, []byte("io.modelcontextprotocol/")) {
				own.Key(string(m.Key)).Raw(m.Value)
			}
			return true
		})
		if own := own.EndObject().Bytes(); !rawjson.IsEmptyObject(own) {
			w.Key("meta").Raw(own)
		}
	}
	return w.EndObject().Bytes()
}

// execute is the queue's Run. It runs a tool.
func (s *Server) execute(ctx context.Context, job *queue.Job) (json.RawMessage, error) {
	t := s.offer.Load().tools[job.Name]
	if t == nil {
		return nil, fmt.Errorf("the tool %q is no longer there", job.Name)
	}
	var input, metadata []byte
	if err := rawjson.Scan(job.Payload, rawjson.Key("input", &input), rawjson.Key("metadata", &metadata)); err != nil {
		return nil, err
	}
	c := &Call{Tool: job.Name, Principal: job.Owner, TaskID: job.ID, Metadata: metadata, Writer: job, input: input, keeper: &s.children}
	if w, ok := job.Value.(*waiting); ok && w != nil {
		c.peer, c.token = w.peer, w.token
	}
	if _, ok := t.run.(*command); ok {
		c.line = c.stdin()
	}
	out, err := t.run.run(ctx, c)
	if f, ok := isFailure(err); ok {
		return f.result(), f
	}
	if err != nil {
		return nil, err
	}
	return out.result(), nil
}

// stdin returns the line that a tool's command reads.
func (c *Call) stdin() []byte {
	line := make([]byte, 0, len(c.input)+len(c.Metadata)+len(c.Tool)+96)
	line = rawjson.AppendString(append(line, `{"tool":`...), c.Tool)
	line = rawjson.StripNewlines(append(line, `,"input":`...), c.input)
	line = rawjson.StripNewlines(append(line, `,"metadata":`...), c.Metadata)
	if c.TaskID != "" {
		line = rawjson.AppendString(append(line, `,"taskId":`...), c.TaskID)
	}
	return append(line, '}', '\n')
}

// result returns the tool's result. Structured content is an object in every version.
func (o *output) result() json.RawMessage {
	w := rawjson.NewWriter(make([]byte, 0, 2*len(o.text)+64))
	w.Object().Key("content").Array()
	writeText(w, o.text)
	w.EndArray()
	if o.json != nil {
		w.Key("structuredContent").Raw(o.json)
	}
	return w.EndObject().Bytes()
}

// result returns the tool's result after a failure.
func (f *failure) result() json.RawMessage {
	w := rawjson.NewWriter(nil).Object().Key("content").Array()
	if len(f.out) > 0 {
		writeText(w, f.out)
	}
	writeText(w, []byte(f.message))
	w.EndArray().Key("isError").Bool(true)
	w.Key("_meta").Object().Key("code").Int(int64(mcp.KindToolExecution.Info().JSONRPC)).Key("exit").Int(int64(f.exit))
	switch {
	case f.reason != "":
		w.Key("limit").String(f.reason)
	case f.signal != "":
		w.Key("signal").String(f.signal)
	}
	return w.EndObject().EndObject().Bytes()
}

func writeText(w *rawjson.Writer, text []byte) {
	w.Object().Key("type").String("text").Key("text").Text(text).EndObject()
}
