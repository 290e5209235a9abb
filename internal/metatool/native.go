package metatool

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/bounded"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/text/visible"
	"github.com/weir-mcp/weir/mcp"
)

// Clients use the methods of MCP for resources and prompts: a person picks one from a list, and the
// client reads it and subscribes to changes. Definitions and contents come from the upstreams. They
// cost a model nothing until the client adds them to the context.

// resourcePage is the number of entries in one page of a list.
const resourcePage = 500

// natives answers the methods of MCP for resources, prompts and completions. It is safe for
// concurrent use.
type natives struct {
	caller    *caller
	ctl       *dispatch.Controls
	accounts  *accounts
	followers *followers
	subjects  dispatch.SubjectsOf
}

// serveResources answers the methods of resources.
func (n *natives) serveResources(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	if r.Modern() && (r.Method == methodSubscribe || r.Method == "resources/unsubscribe") {
		return nil, mcp.MethodNotFound(r.Method) // mcp.Lifecycle refuses them as well, where it stands before the gateway
	}
	switch r.Method {
	case "resources/list":
		return n.listEntries(ctx, r, primitive.KindResource, "resources")
	case "resources/templates/list":
		return n.listEntries(ctx, r, primitive.KindTemplate, "resourceTemplates")
	case dispatch.MethodRead:
		return n.read(ctx, r)
	case methodSubscribe:
		return n.subscribe(ctx, r)
	case "resources/unsubscribe":
		return n.unsubscribe(r)
	}
	return nil, mcp.MethodNotFound(r.Method)
}

// servePrompts answers the methods of prompts.
func (n *natives) servePrompts(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	if r.Method == "prompts/list" {
		return n.listEntries(ctx, r, primitive.KindPrompt, "prompts")
	}
	name, err := rawjson.String(r.Fields().Name)
	if err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "prompts/get needs a name")
	}
	s := n.caller.upstreams.Snapshot()
	e, err := s.prompt(name)
	if err != nil {
		return nil, err
	}
	args := r.Fields().Arguments
	if args == nil {
		args = json.RawMessage("{}")
	}
	call := newRead(r, n.caller.state.session(r), s.Catalog, e, dispatch.MethodGet, args)
	return n.call(ctx, call, dispatch.UpstreamParams)
}

// listEntries returns definitions as the upstreams wrote them, without invisible characters. If
// several resources or templates share a URI, it lists only the one that the URI resolves to. If a
// prompt's name or a resource's URI resolves to another entry or to none, it is listed by its id.
func (n *natives) listEntries(ctx context.Context, r *mcp.Request, kind primitive.Kind, key string) (json.RawMessage, error) {
	from := 0
	if cursor := rawjson.Get(r.Params, "cursor"); cursor != nil && string(cursor) != "null" {
		at, err := strconv.Atoi(rawjson.Text(cursor))
		if err != nil || at < 1 {
			return nil, mcp.Errorf(mcp.KindInvalidParams, "%s: unknown cursor", r.Method)
		}
		from = at
	}
	st := n.caller.state.session(r)
	n.followers.follow(choiceOf(ctx), r, st)
	out := append([]byte(`{"`+key+`":`), '[')
	start, count := len(out), 0
	more := false
	s := n.caller.upstreams.Snapshot()
	n.caller.shownDefinitions(ctx, st, s.Catalog, kind)
	for _, e := range s.Catalog.Entries() {
		if e.Kind != kind {
			continue
		}
		if kind != primitive.KindPrompt && s.hidden(e) {
			continue
		}
		if count++; count <= from {
			continue
		}
		if more = count > from+resourcePage; more {
			break
		}
		definition := dispatch.ShownSchema(e, e.Raw)
		if kind != primitive.KindPrompt { // a prompt is asked for by its name, a resource by its URI
			definition = withoutHiddenName(definition)
		}
		if kind != primitive.KindTemplate && !s.reached(e) {
			member := "uri"
			if kind == primitive.KindPrompt {
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

// withoutHiddenName removes invisible characters from the name in the definition of a resource.
func withoutHiddenName(definition []byte) []byte {
	name := rawjson.Text(rawjson.Get(definition, "name"))
	seen := visible.Text(name)
	if seen == name {
		return definition
	}
	clean, err := rawjson.Set(definition, "name", rawjson.Quote(seen))
	if err != nil {
		return definition // cannot happen: the catalog has validated it
	}
	return clean
}

// wanted resolves a client's uri to an entry and to the URI at its upstream. The uri may be a
// resource's URI or id, a URI that a template matches, one that the session has read, one that a
// result has linked to, or the page of a tool.
func (n *natives) wanted(r *mcp.Request, st *sessionState) (uri string, e *catalog.Entry, err error) {
	uri, err = rawjson.String(r.Fields().URI)
	if err != nil || uri == "" {
		return "", nil, mcp.Errorf(mcp.KindInvalidParams, "%s needs a uri", r.Method)
	}
	s := n.caller.upstreams.Snapshot()
	if e, err = s.resource(uri, st.readFrom(uri)); err != nil {
		if e = cmp.Or(n.caller.state.links.entry(s, r.Session.Principal(), uri), s.page(uri)); e == nil {
			return "", nil, err
		}
	}
	if e.Kind == primitive.KindResource {
		uri = e.URI // it may have been the id
	}
	return uri, e, nil
}

// read answers resources/read.
func (n *natives) read(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	st := n.caller.state.session(r)
	uri, e, err := n.wanted(r, st)
	if err != nil {
		return nil, err
	}
	call := newRead(r, st, nil, e, dispatch.MethodRead, rawjson.Quote(uri))
	call.URI = uri
	result, err := n.call(ctx, call, dispatch.UpstreamParams)
	if err != nil {
		return nil, err
	}
	st.readURI(uri, e.Upstream)
	if r.Modern() && !bridge.IsInputRequired(result) {
		return mcp.Cacheable(result, 0, "private"), nil
	}
	return result, nil
}

// admit applies the controls. A refusal is a protocol error, and an event of the corresponding
// meta-tool.
func (n *natives) admit(ctx context.Context, call *dispatch.Call) error {
	start := time.Now()
	err := n.ctl.AdmitCall(ctx, call, n.subjects)
	if err != nil {
		n.event(call, err, start)
		n.accounts.audit.outcome(ctx, call, nil, err)
		return asProtocol(err)
	}
	return nil
}

func (n *natives) event(call *dispatch.Call, failure error, start time.Time) {
	if n.accounts.onEvent != nil {
		n.accounts.onEvent(n.accounts.event(call, failure, time.Since(start)))
	}
}

// call returns the upstream's answer to params. It uses the controls and the event of the
// corresponding meta-tool. Clients send a completion with each key press, so a completion is an
// event only if it is refused.
func (n *natives) call(ctx context.Context, call *dispatch.Call, params func(*dispatch.Call) (json.RawMessage, error)) (result json.RawMessage, err error) {
	start := time.Now()
	if err := n.admit(ctx, call); err != nil {
		return nil, err
	}
	failure := error(nil) // after Classify
	defer func() {
		if call.Method != methodComplete {
			n.event(call, failure, start)
		}
	}()
	give, err := takeParams(ctx, call)
	if err != nil {
		failure = dispatch.Classify(ctx, call.Entry.Upstream, err)
		return nil, err
	}
	defer give()
	sent, err := params(call)
	if err != nil {
		failure = err
		return nil, err
	}
	if err := n.accounts.audit.start(ctx, call); err != nil {
		failure = err
		return nil, err
	}
	call.Tells(ctx, n.caller.flow)
	defer func() { // after all that changes the answer
		n.caller.flow.Read(ctx, call.Session.Flow(), call.Label, func() json.RawMessage { return result })
	}()
	call.Attempts++
	result, err = n.caller.callUpstream(ctx, call, call.Method, sent)
	refused := error(nil)
	if err == nil {
		refused = n.ctl.AdmitAnswer(ctx, call, result)
	}
	n.accounts.audit.ended(call, result, cmp.Or(err, refused))
	switch {
	case err != nil:
		failure = dispatch.Classify(ctx, call.Entry.Upstream, err)
		return nil, n.caller.redactError(err)
	case refused != nil:
		failure = refused
		return nil, asProtocol(refused)
	}
	if result, err = n.caller.clean(ctx, result); err != nil {
		failure = dispatch.Classify(ctx, call.Entry.Upstream, err)
		return nil, err
	}
	return result, nil
}

// asProtocol converts an error of a meta-tool into a protocol error, for methods whose results have
// no isError.
func asProtocol(err error) error {
	e, ok := err.(*result.Error) // created here, not wrapped
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

// Bounds of the URIs that one session has read. The oldest go first.
const (
	maxRead      = 1024
	maxReadBytes = bridge.MaxResourceBytes
)

// readURI records that a session has read a URI of an upstream, so that its client may subscribe to
// it.
func (st *sessionState) readURI(uri, upstream string) {
	st.mu.Lock()
	if st.read == nil {
		st.read = bounded.New(bounded.Options[string, string]{MaxCount: maxRead, MaxBytes: maxReadBytes, KeepUsed: true})
	}
	read := st.read
	st.mu.Unlock()
	read.Put(strings.Clone(uri), upstream, int64(len(uri)))
}

func (st *sessionState) readFrom(uri string) string {
	st.mu.Lock()
	read := st.read
	st.mu.Unlock()
	if read == nil {
		return ""
	}
	upstream, _ := read.Get(uri)
	return upstream
}
