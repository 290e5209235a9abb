package metatool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text"
)

// Names of the meta-tools (spec/gateway §4.2).
const (
	ToolBrowse  = "tool_browse"
	ToolExecute = dispatch.VerbExecute
	ToolView    = "tool_view"
	ToolHydrate = "tool_hydrate"

	// Meta-tools of the other primitives (spec/gateway §6.4). They are listed in gateway mode while
	// an upstream offers the primitive. In both modes clients can also use the methods of MCP.
	ResourceBrowse = "resource_browse"
	ResourceRead   = dispatch.VerbRead
	PromptBrowse   = "prompt_browse"
	PromptGet      = dispatch.VerbGet
)

// Bounds of top_k.
const (
	DefaultTopK = 10
	MaxTopK     = 50
)

// Definitions of the meta-tools as compact JSON. Each agent pays for them in each conversation: the
// first three have at most 680 tokens. How to ask is in the definition of tool_browse, because queries
// that are asked so find the right tool several times as often.
const (
	browseSchema = `{"type":"object","properties":{` +
		`"query":{"type":"string"},` +
		`"path":{"type":"string","description":"/, /server or /server/group"},` +
		`"top_k":{"type":"integer","minimum":1,"maximum":50,"description":"most cards"}},` +
		`"additionalProperties":false}`
	executeSchema = `{"type":"object","properties":{` +
		`"tool_id":{"type":"string"},` +
		`"args":{"type":"object","description":"the tool's arguments; {\"$table\":\"<handle or resource_url>\",\"columns\":[],\"where\":[],\"limit\":9} stands for rows of a table"},` +
		`"abstract_domains":{"type":["string","array"],"items":{"type":"string"},"description":"only where a next tool takes a resource_url: the few columns to read; else a view is cheaper"},` +
		`"mode":{"type":"string","enum":["async","sync"],"description":"of abstract_domains; sync: one consumer, no fetch"},` +
		`"dry_run":{"type":"boolean","description":"check only"}},` +
		`"required":["tool_id","args"],"additionalProperties":false}`
	viewSchema = `{"type":"object","properties":{` +
		`"handle":{"type":"string","description":"from the result, art_…"},` +
		`"selector":{"type":"object","description":"one of the examples, with your own values"}},` +
		`"required":["handle","selector"],"additionalProperties":false}`
	hydrateSchema = `{"type":"object","properties":{"tool_id":{"type":"string"}},"required":["tool_id"],"additionalProperties":false}`

	resourceBrowseSchema = `{"type":"object","properties":{` +
		`"query":{"type":"string"},"path":{"type":"string"},` +
		`"top_k":{"type":"integer","minimum":1,"maximum":50}},"additionalProperties":false}`
	promptBrowseSchema = resourceBrowseSchema
	resourceReadSchema = `{"type":"object","properties":{"resource_id":{"type":"string","description":"exact id from a card, or a URI"},` +
		`"args":{"type":"object","description":"of a template: its variables"}},"required":["resource_id"],"additionalProperties":false}`
	promptGetSchema = `{"type":"object","properties":{"prompt_id":{"type":"string","description":"exact id from a card"},` +
		`"args":{"type":"object"}},"required":["prompt_id"],"additionalProperties":false}`

	resourceBrowseTool = `{"name":"resource_browse","description":"Find resources (documents, records), as tool_browse finds tools.","inputSchema":` +
		resourceBrowseSchema + `,"annotations":{"readOnlyHint":true}}`
	resourceReadTool = `{"name":"resource_read","description":"Read a resource. A long one comes back as a summary and a handle for tool_view.","inputSchema":` +
		resourceReadSchema + `,"annotations":{"readOnlyHint":true}}`
	promptBrowseTool = `{"name":"prompt_browse","description":"Find prompts, as tool_browse finds tools.","inputSchema":` +
		promptBrowseSchema + `,"annotations":{"readOnlyHint":true}}`
	promptGetTool = `{"name":"prompt_get","description":"Render a prompt. If args do not fit, the error holds their schema.","inputSchema":` +
		promptGetSchema + `,"annotations":{"readOnlyHint":true}}`

	browseTool = `{"name":"tool_browse","description":"Find tools. Ask by query, in English, 2 to 6 words: verb, object, product (\"create issue jira\"), or walk the catalog by path. ` +
		`Answers one card a line: tool_id (arguments, optional?) — what it does [tags].","inputSchema":` + browseSchema + `,"annotations":{"readOnlyHint":true}}`
	executeText = `{"name":"tool_execute","description":"Run a tool by its tool_id, whole, with the part after #. Its own arguments go into args. Not sure which? dry_run true with args {} answers its schema and runs nothing.`
	executeTool = executeText + ` A long result comes back as a summary and a handle for tool_view.","inputSchema":` + executeSchema + `}`
	// The text for gateways without tool_view, which hold nothing back.
	executeRawTool = executeText + `","inputSchema":` + executeSchema + `}`
	viewTool       = `{"name":"tool_view","description":"Read part of a long result. Examples of selectors: ` +
		`{\"type\":\"table\",\"where\":[{\"column\":\"status\",\"op\":\"eq\",\"value\":\"late\"}],\"group_by\":[\"customer\"],\"aggregate\":[{\"op\":\"sum\",\"column\":\"total\"}]} ` +
		`(also columns, order_by [\"-total\"], offset, limit; ops eq ne gt ge lt le contains regex in; count sum avg min max); ` +
		`{\"type\":\"search\",\"pattern\":\"(?i)error\",\"context\":2,\"limit\":20}; {\"type\":\"lines\",\"start\":0,\"end\":40}; {\"type\":\"tail\",\"lines\":20}; ` +
		`{\"type\":\"rows\",\"start\":0,\"end\":5}; {\"type\":\"json_path\",\"path\":\"$.items[?(@.n>3)].name\"}; {\"type\":\"json_keys\",\"keys\":[\"a\"]}; ` +
		`{\"type\":\"headings\"}, {\"type\":\"section\",\"heading\":\"Usage\"} of Markdown; {\"type\":\"head\",\"chars\":2000}. ` +
		`Counting starts at 0, below 0 from the end; end is not included.","inputSchema":` +
		viewSchema + `,"annotations":{"readOnlyHint":true}}`
	hydrateTool = `{"name":"tool_hydrate","description":"Show a tool's full definition with its input schema.","inputSchema":` + hydrateSchema + `,"annotations":{"readOnlyHint":true}}`
)

// metaTools are the meta-tools in the order of their lists. example is a correct call, for errors: an
// agent has the schema already.
var metaTools = []struct{ name, definition, example string }{
	{ToolBrowse, browseTool, `{"query":"read a text file"}`},
	{ToolExecute, executeTool, `{"tool_id":"files:read#1a2b3c4d","args":{"path":"a.txt"}}`},
	{ToolView, viewTool, `{"handle":"art_1a2b3c4d5e6f","selector":{"type":"lines","start":0,"end":40}}`},
	{ToolRun, runTool, `{"program":"return await tools.files.list({path: input.path})","input":{"path":"docs"}}`},
	{ToolHydrate, hydrateTool, `{"tool_id":"files:read#1a2b3c4d"}`},
	{ResourceBrowse, resourceBrowseTool, `{"query":"install guide"}`},
	{ResourceRead, resourceReadTool, `{"resource_id":"resource::docs:guide#1a2b3c4d"}`},
	{PromptBrowse, promptBrowseTool, `{"query":"review a change"}`},
	{PromptGet, promptGetTool, `{"prompt_id":"prompt::docs:review#1a2b3c4d","args":{"file":"a.go"}}`},
}

// metaTable holds the meta-tools that one gateway serves.
type metaTable struct {
	tools     map[string]*dispatch.Pipeline
	holdsBack bool // the firewall is on, so tool_view is served
}

// find returns the meta-tool of a name. It returns nil if the gateway does not serve the name, or
// if no upstream offers the primitive.
func (t *metaTable) find(name string, s *Snapshot) *dispatch.Pipeline {
	if !t.shows(name, s.hasResources(), s.hasPrompts()) {
		return nil
	}
	return t.tools[name]
}

// shows reports whether a meta-tool is served while upstreams offer resources or prompts.
func (t *metaTable) shows(name string, resources, prompts bool) bool {
	switch name {
	case ResourceBrowse, ResourceRead:
		return resources && t.tools[name] != nil
	case PromptBrowse, PromptGet:
		return prompts && t.tools[name] != nil
	}
	return t.tools[name] != nil
}

// definitions returns the definitions of the meta-tools that are served while upstreams offer
// resources or prompts, separated by commas. Their order never changes. behind, if not "", is what
// tool_browse says of the servers.
func (t *metaTable) definitions(resources, prompts bool, behind string) []byte {
	var out []byte
	for _, m := range metaTools {
		if !t.shows(m.name, resources, prompts) {
			continue
		}
		definition := m.definition
		switch {
		case m.name == ToolExecute && !t.holdsBack:
			definition = executeRawTool
		case m.name == ToolBrowse:
			definition = withBehind(definition, behind)
		}
		out = result.AppendBlock(out, []byte(definition))
	}
	return out
}

// names lists the meta-tools that are served over a snapshot.
func (t *metaTable) names(s *Snapshot) string {
	var names []string
	for _, m := range metaTools {
		if t.find(m.name, s) != nil {
			names = append(names, m.name)
		}
	}
	return strings.Join(names, ", ")
}

// maxOwnArguments is the size of the largest arguments of a meta-tool, without those that it passes to a
// server. A query, an id or a selector has a small part of it.
const maxOwnArguments = 256 << 10

// fitting refuses too large arguments before they are decoded. Without it each step that reads them
// makes texts of their size, which are in no account.
func fitting() dispatch.Step {
	return dispatch.Step{Phase: dispatch.PhaseName, Name: "size", Before: func(_ context.Context, c *dispatch.Call) error {
		n := len(c.Arguments)
		if n > maxOwnArguments {
			switch c.Verb {
			case ToolRun:
				n -= len(rawjson.Get(c.Arguments, "input"))
			case ToolExecute, ResourceRead, PromptGet:
				n -= len(rawjson.Get(c.Arguments, "args")) + len(rawjson.Get(c.Arguments, "arguments"))
			}
		}
		if n > maxOwnArguments {
			return metaArgs(c.Verb, "arguments of %d bytes that are for no server; the most are %d", n, maxOwnArguments)
		}
		return nil
	}}
}

// Bounds of the unknown arguments in an error.
const (
	toldKeys     = 3
	toldKeyChars = 20
)

// readArguments parses a meta-tool's arguments: out[n] becomes the value of keys[n], or nil if it
// is absent or null. An unknown member is an ArgsInvalid error.
func readArguments(c *dispatch.Call, keys []string, out [][]byte) error {
	tool := c.Verb
	if c.Arguments == nil || string(c.Arguments) == "null" {
		return nil
	}
	if c.Arguments[0] != '{' {
		return metaArgs(tool, "arguments must be an object, not %s", text.Value(c.Arguments))
	}
	problem := ""
	var unknown []string
	err := rawjson.EachCheckedMember(c.Arguments, func(m rawjson.Member) bool {
		n := -1
		for i, key := range keys {
			if string(m.Key) == key {
				n = i
				break
			}
		}
		switch {
		case n < 0:
			unknown = append(unknown, strconv.Quote(text.Fit(string(m.Key), toldKeyChars)))
		case out[n] != nil:
			problem = keys[n] + " stands twice"
		default:
			out[n] = m.Value
		}
		return problem == "" && len(unknown) < toldKeys
	})
	switch {
	case problem == "" && len(unknown) > 0:
		problem = fmt.Sprintf("unknown argument%s %s; known are %s", strings.Repeat("s", min(1, len(unknown)-1)), strings.Join(unknown, ", "), strings.Join(keys, ", "))
		if !slices.Contains(keys, "args") {
			return metaArgs(tool, "%s", problem)
		}
		e := metaArgs(tool, "%s; others go into args", problem)
		if right := putRight(c.Arguments, keys); right != nil {
			e.Details = rawjson.NewWriter(nil).Object().Key("example").Raw(right).EndObject().Bytes()
		}
		return e
	case problem != "":
		return metaArgs(tool, "%s", problem)
	case err != nil:
		return metaArgs(tool, "arguments: %v", err)
	}
	for n := range out {
		if string(out[n]) == "null" {
			out[n] = nil
		}
	}
	return nil
}

// maxRight is the size of the largest call that an error shows put right.
const maxRight = 500

// putRight returns arguments whose unknown members are in args. It returns nil if the first of keys is
// missing, if they are too long, or if a member stands twice.
func putRight(arguments json.RawMessage, keys []string) []byte {
	inner := rawjson.Get(arguments, "args")
	if len(arguments) > maxRight || rawjson.Get(arguments, keys[0]) == nil || inner != nil && !rawjson.IsObject(inner) {
		return nil
	}
	out, args := rawjson.NewWriter(nil).Object(), rawjson.NewWriter(nil).Object()
	seen := map[string]bool{}
	into := func(w *rawjson.Writer, m rawjson.Member) bool {
		w.Key(string(m.Key)).Raw(m.Value)
		twice := seen[string(m.Key)]
		seen[string(m.Key)] = true
		return !twice
	}
	sure := inner == nil || rawjson.EachMember(inner, func(m rawjson.Member) bool { return into(args, m) }) == nil
	err := rawjson.EachMember(arguments, func(m rawjson.Member) bool {
		switch {
		case string(m.Key) == "args":
		case slices.Contains(keys, string(m.Key)):
			out.Key(string(m.Key)).Raw(m.Value)
		default:
			sure = into(args, m) && sure
		}
		return sure
	})
	if !sure || err != nil {
		return nil
	}
	return out.Key("args").Raw(args.EndObject().Bytes()).EndObject().Bytes()
}

// executeArgs is metaArgs for tool_execute.
func executeArgs(format string, args ...any) error { return metaArgs(ToolExecute, format, args...) }

// metaArgs returns the error for invalid arguments of a meta-tool. It carries an example, so that the
// next call can be correct.
func metaArgs(tool, format string, args ...any) *result.Error {
	e := result.NewError(result.ArgsInvalid, tool+": "+fmt.Sprintf(format, args...))
	for _, t := range metaTools {
		if t.name == tool {
			e.Details = json.RawMessage(`{"example":` + t.example + `}`)
		}
	}
	return e
}
