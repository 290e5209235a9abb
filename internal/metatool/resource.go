package metatool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/text/uritemplate"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

var resourceKeys = []string{"resource_id", "args"}

// lookupPrimitive finds a resource or prompt by its exact id.
func lookupPrimitive(c *dispatch.Call, from *catalog.Catalog, raw []byte) (*catalog.Entry, error) {
	kind, code, browse := primitive.KindResource, result.ResourceNotFound, ResourceBrowse
	if c.Verb == PromptGet {
		kind, code, browse = primitive.KindPrompt, result.PromptNotFound, PromptBrowse
	}
	if raw == nil {
		return nil, metaArgs(c.Verb, "%s is missing", dispatch.IdKey(kind))
	}
	id, err := rawjson.String(raw)
	if err != nil {
		return nil, metaArgs(c.Verb, "%s must be a string, not %s", dispatch.IdKey(kind), text.Value(raw))
	}
	e, ok := from.Lookup(id)
	switch {
	case !ok:
		return nil, result.NewError(code, fmt.Sprintf("no %s has the id %q; find one with %s", kind, text.Fit(id, 120), browse))
	case e.Kind == kind || kind == primitive.KindResource && e.Kind == primitive.KindTemplate:
		c.Entry = e
		return e, nil
	}
	return nil, result.NewError(code, notTheKind(e, false))
}

// notTheKind explains an id that was passed to a meta-tool of another kind. In proxy mode, the
// methods of MCP read resources and prompts.
func notTheKind(e *catalog.Entry, proxy bool) string {
	read, get := ResourceRead, PromptGet
	if proxy {
		read, get = dispatch.MethodRead, dispatch.MethodGet
	}
	use := "tool: run it with " + ToolExecute
	switch e.Kind {
	case primitive.KindResource, primitive.KindTemplate:
		use = "resource: read it with " + read
	case primitive.KindPrompt:
		use = "prompt: render it with " + get
	}
	return fmt.Sprintf("%s is a %s", text.Fit(e.ID, maxIDChars), use)
}

// newRead returns a Call of a method of MCP about a resource or prompt.
func newRead(r *mcp.Request, st *sessionState, from *catalog.Catalog, e *catalog.Entry, method string, args json.RawMessage) *dispatch.Call {
	return &dispatch.Call{Request: r, Verb: dispatch.VerbOf(e.Kind), Session: st, Entry: e, Args: args, Method: method, Catalog: from, Passed: -1, Provenance: result.Provenance{Protocol: "mcp"}}
}

// resource parses a call of resource_read (spec/gateway §6.4) and finds its resource, by its id or its
// URI. The args of a resource template are the values of its variables.
func (f *finder) resource(ctx context.Context, c *dispatch.Call) error {
	var out [2][]byte
	c.Arguments = understoodRead(c.Arguments)
	if err := readArguments(c, resourceKeys, out[:]); err != nil {
		return err
	}
	for i, value := range out { // both become a URI, which the session keeps
		if len(value) > memory.Free {
			return metaArgs(ResourceRead, "%s has %d bytes, and may have %d", resourceKeys[i], len(value), memory.Free)
		}
	}
	s := f.upstreams.Snapshot()
	c.Catalog, c.Method = s.Catalog, dispatch.MethodRead
	e, uri, err := f.readable(c, s, out[0])
	if err != nil {
		return err
	}
	c.Provenance = result.Provenance{Protocol: "mcp", ResourceID: e.ID, Primitive: "resource"}
	switch {
	case uri == "":
		if uri, err = f.expand(ctx, c, out[1]); err != nil {
			return err
		}
		c.URI = uri
		if !s.gives(e, uri) {
			return unreadable(uri, noResource(uri))
		}
	case out[1] != nil && !isEmptyObject(out[1]):
		return metaArgs(ResourceRead, "%s is no template, so it takes no args", text.Fit(rawjson.Text(out[0]), 120))
	}
	c.Args, c.URI = rawjson.Quote(uri), uri
	return nil
}

// noteRead records the URI that a call has read, for later subscriptions.
func noteRead(_ context.Context, c *dispatch.Call, err error) error {
	if err == nil {
		sessionOf(c).readURI(c.URI, c.Entry.Upstream)
	}
	return err
}

// readable finds the entry of a resource_id and stores it in c. It returns the URI to read, or "" for
// a template that still needs its args. A URI that a result has linked to belongs to the server of
// that result; any other belongs to the server that resources/read would ask.
func (f *finder) readable(c *dispatch.Call, s *Snapshot, raw []byte) (*catalog.Entry, string, error) {
	uri := rawjson.Text(raw)
	if _, known := s.Catalog.Lookup(uri); known || len(raw) == 0 || raw[0] != '"' || !strings.Contains(uri, ":") || isID(uri) {
		e, err := lookupPrimitive(c, s.Catalog, raw)
		if err != nil || e.Kind == primitive.KindTemplate {
			return e, "", err
		}
		return e, e.URI, nil
	}
	e, err := s.template(uri)
	if err == nil {
		c.Entry = e
		return e, "", nil
	}
	if e = f.links.entry(s, c.Request.Session.Principal(), uri); e == nil {
		e, err = s.resource(uri, sessionOf(c).readFrom(uri))
	} else {
		err = nil
	}
	if err != nil {
		return nil, "", unreadable(uri, err)
	}
	c.Entry = e
	return e, uri, nil
}

// unreadable returns the error for a URI that resolves to no resource, or to several.
func unreadable(uri string, err error) *result.Error {
	var e *mcp.Error
	if errors.As(err, &e) && e.Kind == mcp.KindInvalidParams {
		return result.NewError(result.ResourceNotFound, e.Message)
	}
	return result.NewError(result.ResourceNotFound, fmt.Sprintf(
		"no server lists the URI %q and no recent result links to it; find resources with %s and pass their ids", text.Fit(uri, 120), ResourceBrowse))
}

func isEmptyObject(raw []byte) bool {
	return rawjson.IsObject(raw) && len(strings.TrimSpace(strings.Trim(strings.TrimSpace(string(raw)), "{}"))) == 0
}

// expand replaces the variables of a template by the agent's values.
func (f *finder) expand(ctx context.Context, call *dispatch.Call, args json.RawMessage) (string, error) {
	e := call.Entry
	if args == nil {
		args = json.RawMessage("{}")
	}
	if problem := e.SchemaError(); problem != nil {
		return "", &result.Error{Code: result.SchemaInvalid, Cause: problem,
			Message: fmt.Sprintf("the URI template of %s cannot be read (%v): its owner, server %q, has to mend it", e.ID, problem, e.Upstream)}
	}
	if err := e.Validate(args); err != nil {
		return "", dispatch.ArgsError(ctx, call, err, f.store)
	}
	t, err := uritemplate.Parse(e.URI)
	if err != nil {
		return "", &result.Error{Code: result.SchemaInvalid, Message: fmt.Sprintf("the URI template of %s cannot be read", e.ID), Cause: err}
	}
	values := map[string]uritemplate.Value{}
	err = rawjson.EachMember(args, func(m rawjson.Member) bool {
		values[string(m.Key)] = templateValue(m.Value)
		return true
	})
	if err != nil { // impossible: the values were validated
		return "", metaArgs(ResourceRead, "args: %v", err)
	}
	return t.Expand(values), nil
}

// templateValue converts a validated argument into the value of a template's variable.
func templateValue(raw []byte) uritemplate.Value {
	text := func(v []byte) string {
		if v[0] == '"' {
			return rawjson.Text(v)
		}
		return string(v)
	}
	var items []string
	switch raw[0] {
	case '[':
		_ = rawjson.EachElement(raw, func(e []byte) bool { items = append(items, text(e)); return true })
		return uritemplate.List(items...)
	case '{':
		_ = rawjson.EachMember(raw, func(m rawjson.Member) bool { items = append(items, string(m.Key), text(m.Value)); return true })
		return uritemplate.Pairs(items...)
	}
	return uritemplate.Text(text(raw))
}

var notFoundWords = regexp.MustCompile(`(?i)not found|no such|unknown (?:resource|prompt)|does not exist`)

// notThere gives a server's error for a missing resource or prompt the code that agents know
// (-32002, and -32602 from 2026-07-28 on).
func notThere(call *dispatch.Call, err error) error {
	var e *result.Error
	var answered *jsonrpc.Error
	if !errors.As(err, &e) || !errors.As(err, &answered) || e.Code != result.UpstreamError && e.Code != result.ResourceNotFound {
		return err
	}
	if answered.Code != mcpResourceNotFound && !(answered.Code == jsonrpc.CodeInvalidParams && notFoundWords.MatchString(answered.Message)) {
		return err
	}
	code := result.ResourceNotFound
	if call.Method == dispatch.MethodGet {
		code = result.PromptNotFound
	}
	return &result.Error{Code: code, Message: e.Message, Cause: err}
}

// mcpResourceNotFound is the legacy code for a missing resource.
const mcpResourceNotFound = -32002

// resourceResult converts the result of resources/read into a tool result: text becomes text
// blocks, images and audio become blocks of their type, and other bytes become embedded resources,
// which the firewall stores.
func resourceResult(w io.Writer, raw json.RawMessage) error {
	contents := rawjson.Get(raw, "contents")
	if !rawjson.IsArray(contents) {
		return errors.New("contents is no array")
	}
	out := newBlocks(w)
	var bad error
	err := rawjson.EachElement(contents, func(v []byte) bool {
		var part [3][]byte
		if bad = rawjson.Fields(v, []string{"text", "blob", "mimeType"}, part[:]); bad != nil {
			return false
		}
		mime := rawjson.Text(part[2])
		major, _, _ := strings.Cut(mime, "/")
		switch {
		case len(part[0]) > 0 && part[0][0] == '"':
			out.add(`{"type":"text","text":`, part[0], "}")
		case len(part[1]) > 0 && part[1][0] == '"' && (major == "image" || major == "audio"):
			out.add(`{"type":"`+major+`","data":`, part[1], `,"mimeType":`, part[2], "}")
		default:
			out.add(`{"type":"resource","resource":`, v, "}")
		}
		return true
	})
	return cmp.Or(bad, err, out.end(raw))
}

// blocks writes a tool result from parts of another result, which it does not copy.
type blocks struct {
	w   io.Writer
	any bool // a block is written
	err error
}

func newBlocks(w io.Writer) *blocks {
	b := &blocks{w: w}
	b.write([]byte(`{"content":[`))
	return b
}

func (b *blocks) write(p []byte) {
	if b.err == nil {
		_, b.err = b.w.Write(p)
	}
}

// add writes a block. Its parts are strings and slices.
func (b *blocks) add(parts ...any) {
	if b.any {
		b.write([]byte{','})
	}
	b.any = true
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			b.write([]byte(p))
		case []byte:
			b.write(p)
		}
	}
}

// end writes the rest of the tool result, with the _meta of the other one.
func (b *blocks) end(other json.RawMessage) error {
	b.write([]byte{']'})
	if meta := rawjson.Get(other, "_meta"); rawjson.IsObject(meta) {
		b.write([]byte(`,"_meta":`))
		b.write(meta)
	}
	b.write([]byte{'}'})
	return b.err
}

// templates holds the parsed URI templates of a snapshot.
type templates struct {
	once sync.Once
	list []parsedTemplate
}

type parsedTemplate struct {
	entry    *catalog.Entry
	template *uritemplate.Template
	spelt    *uritemplate.Template // in normal form; nil if template is
}

// makes reports whether the template matches a URI in any of its spellings.
func (t *parsedTemplate) makes(uri string) bool {
	_, ok := t.template.Match(uri)
	if !ok && t.spelt != nil {
		_, ok = t.spelt.Match(uri)
	}
	return ok
}

// parsedTemplates returns the templates in the order of their ids. It parses them once.
func (s *Snapshot) parsedTemplates() []parsedTemplate {
	s.templates.once.Do(func() {
		for _, e := range s.Catalog.Entries() {
			if e.Kind != primitive.KindTemplate {
				continue
			}
			t, err := uritemplate.Parse(e.URI)
			if err != nil {
				continue
			}
			one := parsedTemplate{entry: e, template: t}
			if normal := dispatch.Spelled(e.URI, true); normal != "" && normal != e.URI {
				one.spelt, _ = uritemplate.Parse(normal) // an unreadable template matches nothing
			}
			s.templates.list = append(s.templates.list, one)
		}
	})
	return s.templates.list
}
