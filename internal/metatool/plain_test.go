package metatool

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/text/token"
	"github.com/weir-mcp/weir/mcp"
)

const (
	outTool = `{"name":"report","title":"Report","description":"Makes a report.","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}},` +
		`"outputSchema":{"type":"object","properties":{"rows":{"type":"array","items":{"$ref":"#/$defs/row"}}},"required":["rows"],"$defs":{"row":{"type":"string"}}},"annotations":{"readOnlyHint":true}}`
	acceptedNames = `^[A-Za-z0-9_-]{1,64}$`
)

// call calls a tool by the name it is listed under.
func (h *harness) call(t testing.TB, name, args string) (json.RawMessage, error) {
	t.Helper()
	return h.Ask(t, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args))
}

func TestPlainListsWholeDefinitions(t *testing.T) {
	h := newHarness(t, Options{Mode: ModePlain})
	h.Add("sales", calltest.Echo, outTool)
	if got, want := h.names(t), []string{"tool_view", "files__drop", "files__read_file", "sales__report", "web__search"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	out, err := h.Ask(t, "tools/list", "{}")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		strings.Replace(calltest.ReadTool, `"read_file"`, `"files__read_file"`, 1),
		`{"name":"sales__report","title":"Report","description":"Makes a report.","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}},` +
			`"outputSchema":{"type":"object","$defs":{"row":{"type":"string"}},"anyOf":[{"properties":{"rows":{"type":"array","items":{"$ref":"#/$defs/row"}}},"required":["rows"]},{"required":["weir/held_back"]}]},"annotations":{"readOnlyHint":true}}`,
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s\nlacks\n%s", out, want)
		}
	}
}

func TestPlainCallsByName(t *testing.T) {
	h := newHarness(t, Options{Mode: ModePlain})
	out, err := h.call(t, "files__read_file", `{"path":"a"}`)
	if err != nil || !strings.Contains(string(out), `\"path\":\"a\"`) {
		t.Errorf("%s, %v", out, err)
	}
	if got := h.Called(); len(got) != 1 || !strings.HasPrefix(got[0], `files {"name":"read_file","arguments":{"path":"a"}`) {
		t.Errorf("the server got %q", got)
	}
	for _, args := range []string{`{}`, `{"path":1}`, `[1]`} {
		if out, err := h.call(t, "files__read_file", args); err != nil || !strings.Contains(string(out), "ARGS_INVALID") {
			t.Errorf("%s: %s, %v", args, out, err)
		}
	}
	if got := h.Called(); len(got) != 1 {
		t.Errorf("wrong arguments reached the server: %q", got)
	}
	for _, name := range []string{"files__nothing", "tool_execute", "tool_browse"} {
		if _, err := h.call(t, name, `{}`); err == nil || !strings.Contains(err.Error(), "tools/list shows") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Without arguments, a tool that needs none is called with an empty object.
	if out, err := h.Ask(t, "tools/call", `{"name":"web__search"}`); err != nil || !strings.Contains(string(out), `{}`) {
		t.Errorf("%s, %v", out, err)
	}
}

func TestPlainPassesTheControls(t *testing.T) {
	var events []Event
	h := newHarness(t, Options{
		Mode:       ModePlain,
		Policy:     &dispatch.Policy{Default: dispatch.Allow, Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tags: []string{"destructive"}}}},
		RateLimits: dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{ToolExecute: {PerSession: 1}}},
		OnEvent:    func(e Event) { events = append(events, e) },
	})
	denied, err := h.call(t, "files__drop", `{}`)
	if err != nil || !strings.Contains(string(denied), "PERMISSION_DENIED") || len(h.Called()) != 0 {
		t.Errorf("%s, %v, the server got %q", denied, err, h.Called())
	}
	if out, err := h.call(t, "files__read_file", `{"path":"a"}`); err != nil || strings.Contains(string(out), "isError") {
		t.Errorf("%s, %v", out, err)
	}
	if out, err := h.call(t, "web__search", `{}`); err != nil || !strings.Contains(string(out), "RATE_LIMITED") {
		t.Errorf("%s, %v", out, err)
	}
	if len(events) != 3 || events[0].Code != string(result.PermissionDenied) || events[1].MetaTool != ToolExecute || events[1].ToolID != h.ID(t, "files", "read_file") {
		t.Errorf("events %+v", events)
	}
}

func TestPlainHoldsBack(t *testing.T) {
	long := strings.Repeat("x", 5000)
	// The format of meta-tools is not that of plain calls: an envelope would not fit the output schema.
	h := newHarness(t, Options{Mode: ModePlain, Format: result.FormatJSON})
	h.Add("sales", calltest.Say(`{"content":[{"type":"text","text":"`+long+`"}],"structuredContent":{"rows":["`+long+`"]}}`), outTool)
	out, err := h.call(t, "sales__report", `{}`)
	if err != nil || len(out) > 3000 {
		t.Fatalf("%d bytes, %v", len(out), err)
	}
	if got := string(rawjson.Get(out, "structuredContent")); got != `{"weir/held_back":true}` {
		t.Errorf("structuredContent %s does not fit the output schema that is listed", got)
	}
	handle := regexp.MustCompile(`"handle":"([^"]+)"`).FindSubmatch(out)
	if handle == nil {
		t.Fatalf("no handle in %s", out)
	}
	view, err := h.Ask(t, "tools/call", fmt.Sprintf(`{"name":"tool_view","arguments":{"handle":%q,"selector":{"type":"head","chars":3}}}`, handle[1]))
	if err != nil || rawjson.Get(view, "isError") != nil && string(rawjson.Get(view, "isError")) == "true" {
		t.Errorf("%s, %v", view, err)
	}
	// A short result is the server's, byte for byte.
	short := `{"content":[{"type":"text","text":"ok"}],"structuredContent":{"rows":[]}}`
	h.Add("sales", calltest.Say(short), outTool)
	if out, err := h.call(t, "sales__report", `{}`); err != nil || string(rawjson.Get(out, "structuredContent")) != `{"rows":[]}` {
		t.Errorf("%s, %v", out, err)
	}
}

func TestPlainPages(t *testing.T) {
	h := newHarness(t, Options{Mode: ModePlain})
	var tools []string
	for i := range 1100 {
		tools = append(tools, fmt.Sprintf(`{"name":"t%04d","description":"d"}`, i))
	}
	h.Add("many", calltest.Echo, tools...)
	seen := map[string]bool{}
	cursor, pages := "", 0
	for {
		params := "{}"
		if cursor != "" {
			params = fmt.Sprintf(`{"cursor":%q}`, cursor)
		}
		out, err := h.Ask(t, "tools/list", params)
		if err != nil {
			t.Fatal(err)
		}
		var page struct {
			Tools      []struct{ Name string }
			NextCursor string
		}
		if err := json.Unmarshal(out, &page); err != nil {
			t.Fatalf("%v: %.200s", err, out)
		}
		if pages++; len(page.Tools) > plainPageTools+1 || len(page.Tools) == 0 {
			t.Fatalf("page %d has %d tools", pages, len(page.Tools))
		}
		for _, tool := range page.Tools {
			if seen[tool.Name] {
				t.Errorf("%s is listed twice", tool.Name)
			}
			seen[tool.Name] = true
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
		if pages == 1 { // a walk survives a change of the catalog
			h.Add("aaa", calltest.Echo, `{"name":"early","description":"d"}`)
		}
	}
	if pages != 3 || len(seen) != 1104 {
		t.Errorf("%d tools on %d pages", len(seen), pages)
	}
	for _, bad := range []string{`{"cursor":"2"}`, `{"cursor":7}`} {
		if _, err := h.Ask(t, "tools/list", bad); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

func TestPlainPagesAreBoundedInBytes(t *testing.T) {
	h := newHarness(t, Options{Mode: ModePlain})
	var tools []string
	for i := range 60 {
		tools = append(tools, fmt.Sprintf(`{"name":"t%d","description":"%s"}`, i, strings.Repeat("dam ", 15<<10)))
	}
	h.Add("large", calltest.Echo, tools...)
	out, err := h.Ask(t, "tools/list", "{}")
	if err != nil || len(out) > plainPageBytes+8<<10 || rawjson.Get(out, "nextCursor") == nil {
		t.Errorf("a page of %d bytes, %v", len(out), err)
	}
}

func catalogOf(t testing.TB, listings ...primitive.Listing) *catalog.Catalog {
	t.Helper()
	c := catalog.New(catalog.Limits{})
	for _, l := range listings {
		c, _ = c.With(l)
	}
	return c
}

func toolsNamed(server string, names ...string) primitive.Listing {
	l := primitive.Listing{Upstream: server, Namespace: server}
	for _, name := range names {
		l.Tools = append(l.Tools, json.RawMessage(`{"name":`+string(rawjson.Quote(name))+`,"description":"d"}`))
	}
	return l
}

func TestCollidingToolNames(t *testing.T) {
	both := toolsNamed("x", "a b", "a/b")
	var n toolNames
	first := n.assign(catalogOf(t, both))
	if len(first.ids) != 2 || first.ids["x__a_b"] != "" {
		t.Errorf("of two new tools that collide, each has a hash: %q", first.ids)
	}
	var again toolNames
	if other := again.assign(catalogOf(t, both)); !maps.Equal(other.ids, first.ids) {
		t.Errorf("%q in one process and %q in another", first.ids, other.ids)
	}
	// The tool that has a name keeps it, and also when it is gone for a while.
	var kept toolNames
	if one := kept.assign(catalogOf(t, toolsNamed("x", "a b"))); one.ids["x__a_b"] == "" {
		t.Fatalf("%q", one.ids)
	}
	if two := kept.assign(catalogOf(t, both)); len(two.ids) != 2 || two.ids["x__a_b"] == "" {
		t.Errorf("%q", two.ids)
	}
	if other := kept.assign(catalogOf(t, toolsNamed("x", "a/b"))); other.ids["x__a_b"] != "" {
		t.Errorf("the name of another tool is given on: %q", other.ids)
	}
	// Names of two servers may collide, too.
	var across toolNames
	if got := across.assign(catalogOf(t, toolsNamed("a", "b__c"), toolsNamed("a__b", "c"))); len(got.ids) != 2 || got.ids["a__b__c"] != "" {
		t.Errorf("%q", got.ids)
	}
}

// TestToolNameSurvivesAnotherSchema: a tool whose parameters change has another id, and the same name.
func TestToolNameSurvivesAnotherSchema(t *testing.T) {
	h := newHarness(t, Options{Mode: ModePlain})
	h.names(t)
	before := h.ID(t, "web", "search")
	h.Add("web", calltest.Echo, `{"name":"search","description":"d","inputSchema":{"type":"object","properties":{"other":{"type":"string"}}}}`)
	if h.ID(t, "web", "search") == before || !slices.Contains(h.names(t), "web__search") {
		t.Errorf("%q", h.names(t))
	}
	if _, err := h.call(t, "web__search", `{"other":"x"}`); err != nil {
		t.Error(err)
	}
}

func FuzzToolNames(f *testing.F) {
	f.Add("files", "read", "read ", strings.Repeat("n", 90))
	f.Add("tool", "view", "a.b", "a/b")
	f.Add("ä", "_", "-", "\u202e")
	f.Fuzz(func(t *testing.T, server, a, b, c string) {
		l := toolsNamed("s", a, b, c)
		l.Namespace = server
		snapshot := catalogOf(t, l, toolsNamed("s", a, c))
		var n toolNames
		first, second := n.assign(snapshot), n.assign(snapshot)
		if len(first.names) != len(first.ids) || !maps.Equal(first.ids, second.ids) || len(first.names) != len(toolsOf(snapshot)) {
			t.Fatalf("%q, then %q", first.ids, second.ids)
		}
		for name := range first.ids {
			if !regexp.MustCompile(acceptedNames).MatchString(name) || isMetaTool(name) {
				t.Errorf("the name %q", name)
			}
		}
	})
}

func TestAutoFollowsTheCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, Options{Mode: ModeAuto, AutoTokens: 400})
		defer h.g.state.Close(context.Background())
		peer := newTelling()
		h.Session.SetPeer(peer)
		if got := h.names(t); !slices.Contains(got, "files__drop") || slices.Contains(got, ToolBrowse) {
			t.Errorf("few tools are listed as %q", got)
		}
		h.g.state.Refresh(h.Snapshot().Catalog)
		synctest.Wait()
		if got := peer.take(); len(got) != 0 {
			t.Errorf("told %q of no change", got)
		}
		h.Add("big", calltest.Echo, `{"name":"t","description":"`+strings.Repeat("a word of many ", 200)+`"}`)
		h.g.state.Refresh(h.Snapshot().Catalog)
		synctest.Wait()
		if got := fmt.Sprint(peer.take()); got != "[notifications/tools/list_changed]" {
			t.Errorf("told %s", got)
		}
		if got := h.names(t); !slices.Equal(got, []string{ToolBrowse, ToolExecute, ToolView}) {
			t.Errorf("many tools are listed as %q", got)
		}
		// What the list before had can still be called, and so can the meta-tools.
		if out, err := h.call(t, "files__read_file", `{"path":"a"}`); err != nil || strings.Contains(string(out), `"isError":true`) {
			t.Errorf("%s, %v", out, err)
		}
		if s := h.Tool(t, ToolBrowse, `{"path":"/"}`); s.IsError {
			t.Errorf("%+v", s)
		}
	})
}

// TestManyToolsHaveNoNames: names that no agent sees are not made, and are there for calls of them.
func TestManyToolsHaveNoNames(t *testing.T) {
	h := newHarness(t, Options{Mode: ModeAuto, AutoTokens: 400})
	var tools []string
	for i := range 400/leastTokens + 1 {
		tools = append(tools, fmt.Sprintf(`{"name":"t%d"}`, i))
	}
	h.snapshotOf("big", tools...)
	if got := h.names(t); !slices.Contains(got, ToolBrowse) {
		t.Errorf("many tools are listed as %q", got)
	}
	plain := h.g.faces.of[ModePlain].lists
	if n := plain.named.Load(); n != nil {
		t.Errorf("%d names were made", len(n.names))
	}
	if out, err := h.call(t, "big__t7", `{}`); err != nil || strings.Contains(string(out), `"isError":true`) {
		t.Errorf("%s, %v", out, err)
	}
}

// TestLeastTokens: the smallest definition has more tokens than cheaper takes for granted.
func TestLeastTokens(t *testing.T) {
	h := newHarness(t, Options{Mode: ModePlain})
	h.snapshotOf("s", `{"name":"a"}`)
	lists := h.g.faces.of[ModePlain].lists
	for e, name := range lists.naming().names {
		for _, name := range []string{name, "a", "aaaaaaaa", "________________________________", ""} {
			if doc := lists.define(e, name, nil); token.Count(string(doc)) < leastTokens {
				t.Errorf("%s has %d tokens", doc, token.Count(string(doc)))
			}
		}
	}
}

func TestAutoWithoutToolsIsGateway(t *testing.T) {
	h := newHarness(t, Options{Mode: ModeAuto})
	h.Listed = NewSnapshot(catalog.Limits{})
	if got := h.names(t); !slices.Contains(got, ToolBrowse) {
		t.Errorf("%q", got)
	}
}

func TestAgentsAskForAMode(t *testing.T) {
	h := newHarness(t, Options{})
	for mode, want := range map[Mode]string{ModeGateway: ToolBrowse, ModePlain: "files__drop", ModeAuto: "files__drop", ModeProxy: ToolHydrate} {
		out, err := h.g.Serve(WithMode(t.Context(), mode), &mcp.Request{ID: "1", Method: "tools/list", Params: json.RawMessage("{}"), Version: mcp.V20251125, Session: h.Session, Peer: mcp.NoPeer})
		if err != nil || !strings.Contains(string(out), `"name":"`+want+`"`) {
			t.Errorf("%s: %s, %v", mode, out, err)
		}
	}
}
