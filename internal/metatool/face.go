package metatool

import (
	"context"
	"strings"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// Mode is how tools are exposed.
type Mode uint8

// The modes (spec/gateway §4).
const (
	ModeGateway Mode = iota // three meta-tools
	ModeProxy               // every tool, stripped, and the meta-tools to use them
	ModePlain               // every tool with its schema, called by the name it is listed under
	ModeAuto                // plain while all definitions are small, else gateway
)

var modeNames = [...]string{ModeGateway: "gateway", ModeProxy: "proxy", ModePlain: "plain", ModeAuto: "auto"}

// String returns the name of the mode in a configuration.
func (m Mode) String() string { return modeNames[m] }

// ParseMode returns the mode of a name.
func ParseMode(name string) (m Mode, ok bool) {
	for i, known := range modeNames {
		if name == known {
			return Mode(i), true
		}
	}
	return 0, false
}

type modeKey struct{}

// WithMode returns a context for requests of an agent that asks for a mode, in place of the one in
// the gateway's Options.
func WithMode(ctx context.Context, m Mode) context.Context {
	return context.WithValue(ctx, modeKey{}, m)
}

// Mode returns the mode of a request: the mode that its agent asks for, otherwise the mode of the
// profile or of the gateway.
func (g *Gateway) Mode(ctx context.Context) Mode {
	if m, ok := ctx.Value(modeKey{}).(Mode); ok {
		return m
	}
	return g.viewed(viewerOf(ctx)).opts.Mode
}

// choice is the mode that an agent asks for. Its zero value is the mode of the gateway, which a new
// configuration may change.
type choice struct {
	mode Mode
	made bool
	by   viewer // who makes the request, and where
}

func choiceOf(ctx context.Context) choice {
	m, ok := ctx.Value(modeKey{}).(Mode)
	return choice{m, ok, viewerOf(ctx)}
}

// face is what agents see of a gateway in one mode.
type face struct {
	lists *listing
	meta  *metaTable
	// programs runs programs; nil: tool_run does not exist
	programs *programs
	direct   *dispatch.Pipeline // calls a tool by the name it is listed under; nil in gateway mode
}

// faces are the faces of one gateway. It is safe for concurrent use.
type faces struct {
	upstreams Upstreams
	mode      Mode // of agents that ask for none
	limit     int  // tokens below which auto is plain
	of        [ModeAuto]*face
}

// choose returns the face for an agent's choice. In auto mode it depends on nothing but the
// catalog: an agent meets another one only if the catalog has crossed the limit.
func (f *faces) choose(by choice) *face {
	switch mode := f.modeOf(by); {
	case mode != ModeAuto:
		return f.of[mode]
	case f.of[ModePlain].lists.cheaper(f.limit):
		return f.of[ModePlain]
	}
	return f.of[ModeGateway]
}

func (f *faces) modeOf(by choice) Mode {
	if by.made {
		return by.mode
	}
	return f.mode
}

// callable returns the faces whose tools an agent may call, the one that it sees first. In auto mode
// an agent that has not read its new list yet may still call what the other face lists.
func (f *faces) callable(by choice) []*face {
	first := f.choose(by)
	if f.modeOf(by) != ModeAuto {
		return []*face{first}
	}
	if first == f.of[ModePlain] {
		return []*face{first, f.of[ModeGateway]}
	}
	return []*face{first, f.of[ModePlain]}
}

// tool returns what answers a tools/call of a name, and the meta-tool that it is or does the work
// of.
func (f *faces) tool(by choice, name string) (tool *dispatch.Pipeline, verb string, err error) {
	s := f.upstreams.Snapshot()
	callable := f.callable(by)
	for _, face := range callable {
		if tool := face.meta.find(name, s); tool != nil {
			return tool, name, nil
		}
	}
	for _, face := range callable {
		if face.direct != nil && face.lists.knows(name) {
			return face.direct, ToolExecute, nil
		}
	}
	return nil, "", callable[0].lists.notMeta(name)
}

// Names reports whether an agent that sends a request in ctx can call a tool by a name now.
func (g *Gateway) Names(ctx context.Context, name string) bool {
	_, _, err := g.viewed(viewerOf(ctx)).faces.tool(choiceOf(ctx), name)
	return err == nil
}

// Instructions tell a model in a few words how to use the gateway in the mode that the agent of a
// request asks for; the value for mcp.Lifecycle.
func (g *Gateway) Instructions(ctx context.Context) string {
	switch g.Mode(ctx) {
	case ModeProxy:
		return "The tools listed here are cards without schemas. Run one with tool_execute(tool_id, args); tool_hydrate(tool_id) shows its schema first."
	case ModePlain:
		return "The tools of several servers, each named server__tool. Read more of a long result with tool_view."
	case ModeAuto:
		return g.naming(ctx, "The tools of several servers. Where they are few, each is listed as server__tool. Where they are many, find one with tool_browse (in English: verb, object, product) and run it with tool_execute. Read more of a long result with tool_view.")
	}
	return g.naming(ctx, "Many tools of many servers are behind these: find one with tool_browse (in English: verb, object, product), run it with tool_execute, read more of a long result with tool_view.")
}

// naming adds to a text which servers there are for the caller.
func (g *Gateway) naming(ctx context.Context, told string) string {
	list := g.viewed(viewerOf(ctx)).faces.of[ModeGateway].lists.gateway()
	return strings.TrimSuffix(told+" "+list.behind, " ")
}

// cursorOf returns the cursor of a request for a list, "" where there is none.
func cursorOf(r *mcp.Request) (string, error) {
	raw := rawjson.Get(r.Params, "cursor")
	if raw == nil || string(raw) == "null" {
		return "", nil
	}
	if cursor := rawjson.Text(raw); cursor != "" {
		return cursor, nil
	}
	return "", mcp.Errorf(mcp.KindInvalidParams, "%s: unknown cursor", r.Method)
}
