package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/protocol/listchange"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/s2sp"
)

// toolHandler serves one tool. *s2sp.ToolHandler is one.
type toolHandler interface {
	// Definition returns the tool's entry in tools/list.
	Definition() json.RawMessage
	// Call answers tools/call. The error is the one of ctx.
	Call(ctx context.Context, arguments json.RawMessage) (*s2sp.Result, error)
}

// resource is an entry of resources/list.
type resource struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MIMEType    string `json:"mimeType,omitempty"`
}

// contents is the text of a resource, in resources/read and in embedded resources.
type contents struct {
	URI      string `json:"uri"`
	MIMEType string `json:"mimeType,omitempty"`
	Text     string `json:"text"`
}

// resourceTemplate is an entry of resources/templates/list.
type resourceTemplate struct {
	URITemplate string `json:"uriTemplate"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MIMEType    string `json:"mimeType,omitempty"`
}

// prompt is an entry of prompts/list with its function.
type prompt struct {
	Name        string           `json:"name"`
	Title       string           `json:"title,omitempty"`
	Description string           `json:"description,omitempty"`
	Arguments   []promptArgument `json:"arguments,omitempty"`

	get func(arguments map[string]string) promptResult
}

type promptArgument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
}

type promptResult struct {
	Description string          `json:"description,omitempty"`
	Messages    []promptMessage `json:"messages"`
}

type promptMessage struct {
	Role    string `json:"role"`
	Content any    `json:"content"` // a content block
}

// textContent returns a content block of text.
func textContent(text string) any {
	return map[string]string{"type": "text", "text": text}
}

// server is an MCP server with tools, resources and prompts. Tools, templates and prompts are added
// before it serves, resources at any time. It is safe for concurrent use. close ends it.
type server struct {
	name, title, instructions string

	tools     map[string]toolHandler
	templates []resourceTemplate
	// read returns a resource, false if there is none; nil offers no resources.
	read    func(uri string) (contents, bool)
	prompts map[string]prompt
	changes *listchange.Notifier

	mu        sync.Mutex // guards below
	resources map[string]resource
}

func newServer(name, title, instructions string) *server {
	return &server{
		name: name, title: title, instructions: instructions,
		tools: map[string]toolHandler{}, prompts: map[string]prompt{}, resources: map[string]resource{}, changes: listchange.New(),
	}
}

func (s *server) close() { s.changes.Close() }

// addTool adds a tool under the name in its definition.
func (s *server) addTool(t toolHandler) {
	s.tools[rawjson.Text(rawjson.Get(t.Definition(), "name"))] = t
}

// addResource lists a resource and notifies the clients.
func (s *server) addResource(r resource) {
	s.mu.Lock()
	s.resources[r.URI] = r
	s.mu.Unlock()
	s.changes.Tell(listchange.Resources)
}

// removeResource takes a resource off the list and notifies the clients.
func (s *server) removeResource(uri string) {
	s.mu.Lock()
	delete(s.resources, uri)
	s.mu.Unlock()
	s.changes.Tell(listchange.Resources)
}

// handler returns the server as a Handler, for any transport.
func (s *server) handler() (mcp.Handler, error) {
	info, err := json.Marshal(map[string]string{"name": s.name, "title": s.title, "version": version})
	if err != nil {
		return nil, err
	}
	life := &mcp.Lifecycle{
		ServerInfo: info, Instructions: s.instructions,
		Capabilities: func(*mcp.Request) json.RawMessage { return s.capabilities() },
		Next:         &mcp.Mux{Methods: s.methods()},
	}
	return mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		if r.Method == "notifications/initialized" {
			s.changes.Add(r.Session)
		}
		return life.Serve(ctx, r)
	}), nil
}

// capabilities names the lists that the server has.
func (s *server) capabilities() json.RawMessage {
	w := rawjson.NewWriter(nil).Object()
	offer := func(list string) { w.Key(list).Object().Key("listChanged").Bool(true).EndObject() }
	if len(s.prompts) > 0 {
		offer("prompts")
	}
	if s.read != nil {
		offer("resources")
	}
	if len(s.tools) > 0 {
		offer("tools")
	}
	return w.EndObject().Bytes()
}

func (s *server) methods() map[string]mcp.Handler {
	methods := map[string]mcp.Handler{
		"subscriptions/listen": mcp.HandlerFunc(s.changes.Listen),
		"tools/call":           mcp.HandlerFunc(s.callTool),
		"tools/list":           list("tools", func() any { return s.definitions() }),
	}
	if s.read != nil {
		methods["resources/list"] = list("resources", func() any { return s.listed() })
		methods["resources/templates/list"] = list("resourceTemplates", func() any { return s.templates })
		methods["resources/read"] = mcp.HandlerFunc(s.readResource)
	}
	if len(s.prompts) > 0 {
		methods["prompts/list"] = list("prompts", func() any { return sorted(s.prompts) })
		methods["prompts/get"] = mcp.HandlerFunc(s.getPrompt)
	}
	return methods
}

// sorted returns the values of a map in the order of their keys.
func sorted[V any](m map[string]V) []V {
	values := make([]V, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		values = append(values, m[key])
	}
	return values
}

func (s *server) definitions() []json.RawMessage {
	definitions := make([]json.RawMessage, 0, len(s.tools))
	for _, t := range sorted(s.tools) {
		definitions = append(definitions, t.Definition())
	}
	return definitions
}

func (s *server) listed() []resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sorted(s.resources)
}

// list serves a list as one page.
func list(member string, entries func() any) mcp.Handler {
	return mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
		if rawjson.Text(rawjson.Get(r.Params, "cursor")) != "" {
			return nil, mcp.Errorf(mcp.KindInvalidParams, "no such cursor: the list has one page")
		}
		result, err := json.Marshal(map[string]any{member: entries()})
		if err != nil {
			return nil, err
		}
		return cacheable(r, result), nil
	})
}

// cacheable adds that clients must not keep a result, which 2026-07-28 requires to be said.
func cacheable(r *mcp.Request, result json.RawMessage) json.RawMessage {
	if !r.Modern() {
		return result
	}
	return mcp.Cacheable(result, 0, "private")
}

func (s *server) callTool(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	params := r.Fields()
	if err := params.Unique("name", "arguments"); err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "tools/call: %v", err)
	}
	name := rawjson.Text(params.Name)
	t, ok := s.tools[name]
	if !ok {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "unknown tool %q", name)
	}
	result, err := t.Call(ctx, params.Arguments)
	if err != nil {
		return nil, err
	}
	return result.MarshalJSON()
}

func (s *server) readResource(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
	uri := rawjson.Text(r.Fields().URI)
	found, ok := s.read(uri)
	if !ok {
		e := mcp.Errorf(mcp.KindResourceNotFound, "no such resource: %q", uri)
		e.Data = fmt.Appendf(nil, `{"kind":%s,"uri":%s}`, rawjson.Quote(e.Kind.String()), rawjson.Quote(uri))
		return nil, e
	}
	result, err := json.Marshal(map[string]any{"contents": []contents{found}})
	if err != nil {
		return nil, err
	}
	return cacheable(r, result), nil
}

func (s *server) getPrompt(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
	params := r.Fields()
	name := rawjson.Text(params.Name)
	p, ok := s.prompts[name]
	if !ok {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "unknown prompt %q: there are %s", name, strings.Join(slices.Sorted(maps.Keys(s.prompts)), ", "))
	}
	var arguments map[string]string
	if len(params.Arguments) > 0 {
		if err := json.Unmarshal(params.Arguments, &arguments); err != nil {
			return nil, mcp.Errorf(mcp.KindInvalidParams, "arguments of the prompt %q must be strings: %w", name, err)
		}
	}
	return json.Marshal(p.get(arguments))
}
