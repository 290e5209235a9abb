package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/gateway/dispatch"
	"github.com/weir-mcp/weir/internal/gateway/result"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/visible"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// What a client, rather than a model, does with resources and prompts: a person
// picks one from a list, and the client reads it and hears of its changes. That
// needs the methods of MCP as every server has them. The definitions and contents
// are those of the upstreams, and they cost a model nothing until its client puts
// them into the context.

// resourcePage is how many entries one page of a list has.
const resourcePage = 500

// serveResources answers the methods of resources.
func (g *Gateway) serveResources(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	switch r.Method {
	case "resources/list":
		return g.listEntries(r, catalog.KindResource, "resources")
	case "resources/templates/list":
		return g.listEntries(r, catalog.KindTemplate, "resourceTemplates")
	case dispatch.MethodRead:
		return g.readNative(ctx, r)
	case "resources/subscribe":
		return g.subscribe(ctx, r)
	case "resources/unsubscribe":
		return g.unsubscribe(r)
	}
	return nil, mcp.MethodNotFound(r.Method)
}

// servePrompts answers the methods of prompts.
func (g *Gateway) servePrompts(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	if r.Method == "prompts/list" {
		return g.listEntries(r, catalog.KindPrompt, "prompts")
	}
	name, err := rawjson.String(r.Fields().Name)
	if err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "prompts/get needs a name")
	}
	s := g.opts.Upstreams.Snapshot()
	e, err := s.prompt(name)
	if err != nil {
		return nil, err
	}
	args := r.Fields().Arguments
	if args == nil {
		args = json.RawMessage("{}")
	}
	call := newRead(&metaCall{request: r, state: g.state.session(r.Session)}, s.Catalog, e, dispatch.MethodGet, args)
	return g.nativeCall(ctx, call, dispatch.UpstreamParams)
}

// listEntries answers a list with definitions as their upstreams wrote them, without
// what nobody sees in their texts. Of
// resources or templates with one URI only the one that it reaches is listed. A prompt
// whose name reaches another one, or none, is listed by its id, and so is a resource
// whose URI reaches no resource.
func (g *Gateway) listEntries(r *mcp.Request, kind catalog.Kind, key string) (json.RawMessage, error) {
	from := 0
	if cursor := rawjson.Get(r.Params, "cursor"); cursor != nil && string(cursor) != "null" {
		n, err := strconv.Atoi(rawjson.Text(cursor))
		if err != nil || n < 1 {
			return nil, mcp.Errorf(mcp.KindInvalidParams, "%s: unknown cursor", r.Method)
		}
		from = n
	}
	g.follow(r, g.state.session(r.Session))
	out := append([]byte(`{"`+key+`":`), '[')
	start, n := len(out), 0
	more := false
	s := g.opts.Upstreams.Snapshot()
	for _, e := range s.Catalog.Entries() {
		if e.Kind != kind {
			continue
		}
		if kind != catalog.KindPrompt && s.hidden(e) {
			continue
		}
		if n++; n <= from {
			continue
		}
		if more = n > from+resourcePage; more {
			break
		}
		definition := dispatch.ShownSchema(e, e.Raw)
		if kind != catalog.KindTemplate && !s.reached(e) {
			member := "uri"
			if kind == catalog.KindPrompt {
				member = "name"
			}
			if byID, err := rawjson.Set(definition, member, rawjson.Quote(e.ID)); err == nil {
				definition = byID
			}
		}
		if len(out) > start {
			out = append(out, ',')
		}
		out = append(out, definition...)
	}
	out = append(out, ']')
	if more {
		out = append(out, `,"nextCursor":"`+strconv.Itoa(from+resourcePage)+`"`...)
	}
	out = append(out, '}')
	if r.Modern() {
		return mcp.Cacheable(out, 0, "private"), nil
	}
	return out, nil
}

// wantedResource finds what a client means with a uri: the entry, and the URI at
// its upstream. It may be the URI of a resource, the id of one, a URI that a
// template makes, or one that the session has read.
func (g *Gateway) wantedResource(r *mcp.Request, st *sessionState) (uri string, e *catalog.Entry, err error) {
	uri, err = rawjson.String(r.Fields().URI)
	if err != nil || uri == "" {
		return "", nil, mcp.Errorf(mcp.KindInvalidParams, "%s needs a uri", r.Method)
	}
	if e, err = g.opts.Upstreams.Snapshot().resource(uri, st.readFrom(uri)); err != nil {
		return "", nil, err
	}
	if e.Kind == catalog.KindResource {
		uri = e.URI // it may have been the id
	}
	return uri, e, nil
}

// readNative answers resources/read.
func (g *Gateway) readNative(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	st := g.state.session(r.Session)
	uri, e, err := g.wantedResource(r, st)
	if err != nil {
		return nil, err
	}
	call := newRead(&metaCall{request: r, state: st}, nil, e, dispatch.MethodRead, rawjson.Quote(uri))
	call.URI = uri
	result, err := g.nativeCall(ctx, call, dispatch.UpstreamParams)
	if err != nil {
		return nil, err
	}
	st.readURI(uri, e.Upstream)
	if r.Modern() && !bridge.IsInputRequired(result) {
		return mcp.Cacheable(result, 0, "private"), nil
	}
	return result, nil
}

// admitNative is admitCall for the methods of MCP: a refusal is an error of the
// protocol, and an event of the meta-tool that does the same.
func (g *Gateway) admitNative(ctx context.Context, call *dispatch.Call) error {
	start := time.Now()
	err := g.ctl.AdmitCall(ctx, call, g.about)
	if err != nil {
		g.nativeEvent(call, err, start)
		return asProtocol(err)
	}
	return nil
}

func (g *Gateway) nativeEvent(call *dispatch.Call, failure error, start time.Time) {
	if g.opts.OnEvent != nil {
		c := metaCall{name: dispatch.VerbOf(call.Entry.Kind), request: call.Request, state: g.state.session(call.Request.Session), entry: call.Entry, attempts: call.Attempts}
		g.opts.OnEvent(g.event(&c, failure, time.Since(start)))
	}
}

// nativeCall answers with what the upstream answers to params. Controls are those
// of the meta-tool that does the same, and so is the event. A completion, which a
// client asks for with each key that is pressed, is an event only if it is refused.
func (g *Gateway) nativeCall(ctx context.Context, call *dispatch.Call, params func(*dispatch.Call) (json.RawMessage, error)) (result json.RawMessage, err error) {
	start := time.Now()
	if err := g.admitNative(ctx, call); err != nil {
		return nil, err
	}
	failure := error(nil) // as it is classified
	defer func() {
		if call.Method != methodComplete {
			g.nativeEvent(call, failure, start)
		}
	}()
	sent, err := params(call)
	if err != nil {
		failure = err
		return nil, err
	}
	call.Attempts++
	result, err = g.caller.callUpstream(ctx, call, call.Method, sent)
	if err != nil {
		failure = dispatch.Classify(ctx, call.Entry.Upstream, err)
		return nil, g.redactError(err)
	}
	if g.opts.RedactResults {
		result = g.opts.Redactor.Results(result)
	}
	return result, nil
}

// redactError removes secrets, and what is not seen, from the error of an upstream
// that an agent gets as an error of the protocol. Where there are none, err itself is returned.
func (g *Gateway) redactError(err error) error {
	var answered *jsonrpc.Error
	var own *mcp.Error
	switch {
	case errors.As(err, &answered): // before what wraps it: it is what goes out
		message, data := g.opts.Redactor.Redact(visible.Text(answered.Message)), g.opts.Redactor.Results(answered.Data)
		if message != answered.Message || !bytes.Equal(data, answered.Data) {
			return &jsonrpc.Error{Code: answered.Code, Message: message, Data: data}
		}
	case errors.As(err, &own):
		message, data := g.opts.Redactor.Redact(visible.Text(own.Message)), g.opts.Redactor.Results(own.Data)
		if message != own.Message || !bytes.Equal(data, own.Data) {
			return &mcp.Error{Kind: own.Kind, Message: message, Data: data, Err: err}
		}
	}
	return err
}

// asProtocol turns an error of a meta-tool into one of the protocol, for methods
// whose results have no isError.
func asProtocol(err error) error {
	e, ok := err.(*result.Error) //nolint:errorlint // made here, not wrapped
	if !ok {
		return err
	}
	kind := mcp.KindInternal
	switch e.Code {
	case result.PermissionDenied:
		kind = mcp.KindPermissionDenied
	case result.RateLimited:
		kind = mcp.KindRateLimited
	}
	out := &mcp.Error{Kind: kind, Message: text.Line(e.Message, text.MaxMessageChars), Err: err}
	if data, err := rawjson.Set(e.Details, "kind", rawjson.Quote(kind.String())); err == nil {
		out.Data = data
	}
	return out
}

// maxRead bounds the URIs that are remembered as read by one session.
const maxRead = 1024

// readURI remembers that a session has read a URI of an upstream: its client may
// subscribe to that.
func (st *sessionState) readURI(uri, upstream string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.read == nil {
		st.read = map[string]string{}
	}
	if _, known := st.read[uri]; known || len(st.read) < maxRead {
		st.read[uri] = upstream
	}
}

func (st *sessionState) readFrom(uri string) string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.read[uri]
}
