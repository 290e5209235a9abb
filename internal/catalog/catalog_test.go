package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/text/token"
)

func raws(defs ...string) []json.RawMessage {
	var out []json.RawMessage
	for _, d := range defs {
		out = append(out, json.RawMessage(d))
	}
	return out
}

// tool returns a definition with a schema of one property.
func tool(name string) string {
	return fmt.Sprintf(`{"name":%q,"description":"Does %s.","inputSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`, name, name)
}

func mustLookup(t *testing.T, c *Catalog, id string) *Entry {
	t.Helper()
	e, ok := c.Lookup(id)
	if !ok {
		var ids []string
		for _, e := range c.Entries() {
			ids = append(ids, e.ID)
		}
		t.Fatalf("no entry %q among %q", id, ids)
	}
	return e
}

func only(t *testing.T, c *Catalog) *Entry {
	t.Helper()
	if c.Len() != 1 || len(c.Entries()) != 1 {
		t.Fatalf("catalog has %d entries, want 1", c.Len())
	}
	return c.Entries()[0]
}

func TestEntryKeepsItsBytes(t *testing.T) {
	def := `{ "zeta":12345678901234567890, "name":"t", "Name":"wrong", "inputSchema":{"type":"object","properties":{"n":{"default":1.50,"maximum":12345678901234567890}}},
		"outputSchema":{"type":"object"}, "annotations":{"x":1,"title":"Tea"}, "description":"D", "Description":"wrong" }`
	source := []byte(def)
	c, report := New(Limits{}).With(primitive.Listing{Upstream: "u", Namespace: "u", Tools: []json.RawMessage{source}})
	for i := range source {
		source[i] = 'x' // the catalog keeps copies
	}
	e := only(t, c)
	if string(e.Raw) != strings.TrimSpace(def) {
		t.Errorf("Raw = %s", e.Raw)
	}
	if want := `{"type":"object","properties":{"n":{"default":1.50,"maximum":12345678901234567890}}}`; string(e.InputSchema) != want {
		t.Errorf("InputSchema = %s", e.InputSchema)
	}
	if string(e.OutputSchema) != `{"type":"object"}` || string(e.Annotations) != `{"x":1,"title":"Tea"}` {
		t.Errorf("OutputSchema = %s, Annotations = %s", e.OutputSchema, e.Annotations)
	}
	if e.RawName != "t" || e.Description != "D" || e.Title != "Tea" || e.Upstream != "u" || e.Namespace != "u" || e.Kind != primitive.KindTool {
		t.Errorf("entry = %+v", e)
	}
	if len(report.Findings) != 0 || report.Tools != 1 {
		t.Errorf("report = %+v", report)
	}
}

func TestIDsOfEntries(t *testing.T) {
	tests := []struct {
		name, namespace, def, want string
	}{
		{"version", "github", `{"name":"github.create_issue","_meta":{"version":"1.4.0"},"inputSchema":{}}`, "github:create_issue@1.4.0"},
		{"version under a prefix", "w", `{"name":"get","_meta":{"example.com/version":"2024-05"},"inputSchema":{}}`, "w:get@2024-05"},
		{"no version", "", `{"name":"read_file","inputSchema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}`, "mcp:read_file#85b56782"},
		{"inferred", "", `{"name":"a.b.c","inputSchema":{}}`, "a:b.c#98265582"},
		{"configured", "Git Hub", `{"name":"read_file"}`, "git_hub:read_file#559d82ea"},
		{"illegal version", "m", `{"name":"read_file","_meta":{"version":"1 beta"}}`, "m:read_file#559d82ea"},
		{"version of a wrong type", "m", `{"name":"read_file","_meta":{"version":true}}`, "m:read_file#559d82ea"},
		{"version that is a number", "v", `{"name":"int","_meta":{"version":3}}`, "v:int@3"},
		{"number as it is written", "v", `{"name":"float","_meta":{"version": 1.10 }}`, "v:float@1.10"},
		{"number under a prefix", "v", `{"name":"int","_meta":{"example.com/version":7}}`, "v:int@7"},
		{"number that no id can have", "m", `{"name":"read_file","_meta":{"version":1E+5}}`, "m:read_file#559d82ea"},
		{"illegal name", "m", `{"name":"tool_é","inputSchema":{"properties":{"naïve":{}}}}`, "m:tool__#64175415"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := New(Limits{}).With(primitive.Listing{Upstream: "u", Namespace: tt.namespace, Tools: raws(tt.def)})
			e := only(t, c)
			if e.ID != tt.want || e.Card.ID != tt.want {
				t.Errorf("ID = %q, card %q, want %q", e.ID, e.Card.ID, tt.want)
			}
			if _, err := ParseToolID(e.ID); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFindings(t *testing.T) {
	const ok = `{"type":"object"}`
	tests := []struct {
		name    string
		listing primitive.Listing
		want    FindingKind
		entries int
		message string // part of
	}{
		{"not JSON", primitive.Listing{Tools: raws(`{"name":`)}, FoundInvalid, 0, "not valid JSON"},
		{"no object", primitive.Listing{Tools: raws(`["t"]`)}, FoundInvalid, 0, "array"},
		{"no name", primitive.Listing{Tools: raws(`{"Name":"t"}`)}, FoundInvalid, 0, "without a name"},
		{"no uri", primitive.Listing{Resources: raws(`{"name":"r"}`)}, FoundInvalid, 0, "without a URI"},
		{"duplicate tool", primitive.Listing{Tools: raws(tool("t"), tool("t"))}, FoundDuplicate, 1, `server "web" offers the tool "t" twice`},
		{"duplicate resource", primitive.Listing{Resources: raws(`{"uri":"a:b","name":"x"}`, `{"uri":"a:b","name":"y"}`)}, FoundDuplicate, 1, "twice"},
		{"mapped name", primitive.Listing{Tools: raws(`{"name":"do it","description":"d","inputSchema":{}}`)}, FoundMapped, 1, `"do it" is not legal in an id and becomes "do_it"`},
		{"mapped namespace", primitive.Listing{Namespace: "My Web", Tools: raws(tool("t"))}, FoundMapped, 1, `"my_web": set mcpServers.web.namespace`},
		{"illegal version", primitive.Listing{Tools: raws(`{"name":"t","description":"d","inputSchema":{},"_meta":{"version":"a b"}}`)}, FoundVersion, 1, "ignored"},
		{"no schema", primitive.Listing{Tools: raws(`{"name":"t","description":"d"}`)}, FoundNoSchema, 1, "any object"},
		{"schema is no schema", primitive.Listing{Tools: raws(`{"name":"t","description":"d","inputSchema":"x"}`)}, FoundSchema, 1, "SCHEMA_INVALID"},
		{"broken schema", primitive.Listing{Tools: raws(`{"name":"t","description":"d","inputSchema":{"type":"objekt"}}`)}, FoundSchema, 1, `inputSchema of tool "t" of server "web" is invalid (/type must be one of "array",`},
		{"broken output schema", primitive.Listing{Tools: raws(`{"name":"t","description":"d","inputSchema":{},"outputSchema":{"required":"a"}}`)}, FoundSchema, 1, "outputSchema"},
		{"remote reference", primitive.Listing{Tools: raws(`{"name":"t","description":"d","inputSchema":{"$ref":"http://127.0.0.1:1/x.json"}}`)}, FoundSchema, 1, "not followed"},
		{"reference to a file", primitive.Listing{Tools: raws(`{"name":"t","description":"d","inputSchema":{"$ref":"file:///etc/hostname"}}`)}, FoundSchema, 1, "not followed"},
		{"unchecked pattern", primitive.Listing{Tools: raws(`{"name":"t","description":"d","inputSchema":{"properties":{"p":{"type":"string","pattern":"^(?=.*\\d).+$"}}}}`)}, FoundPattern, 1, "left to the server"},
		{"tags", primitive.Listing{Tags: []string{"https://10.0.0.1/x"}, Tools: raws(tool("t"))}, FoundTags, 1, "left out"},
		{"no description", primitive.Listing{Tools: raws(`{"name":"t","inputSchema":{}}`)}, FoundNoText, 1, "no description"},
		{"over budget", primitive.Listing{Namespace: strings.Repeat("xq", 32), Tools: raws(`{"name":"` + strings.Repeat("Zq9_", 31) + `","description":"d","inputSchema":{}}`)}, FoundOverBudget, 1, "tokens"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.listing.Upstream = "web"
			if tt.listing.Namespace == "" {
				tt.listing.Namespace = "web"
			}
			// A good tool beside it is never harmed.
			tt.listing.Tools = append(tt.listing.Tools, json.RawMessage(`{"name":"good","description":"Fine.","inputSchema":`+ok+`}`))
			c, report := New(Limits{}).With(tt.listing)
			if c.Len() != tt.entries+1 {
				t.Errorf("%d entries, want %d and the good one", c.Len(), tt.entries)
			}
			for _, f := range report.Findings {
				if f.Kind == tt.want && strings.Contains(f.Message, tt.message) && f.Upstream == "web" {
					if strings.ContainsAny(f.String(), "\n\r") {
						t.Errorf("finding %q is not one line", f)
					}
					return
				}
			}
			t.Errorf("no finding %s with %q in %q", tt.want, tt.message, report.Findings)
		})
	}
}

func TestLimits(t *testing.T) {
	nested := strings.Repeat(`{"properties":{"a":`, 3) + `{}` + strings.Repeat(`}}`, 3)
	var many strings.Builder
	for i := range 6 {
		fmt.Fprintf(&many, `%s"p%d":{}`, map[bool]string{true: ",", false: ""}[i > 0], i)
	}
	tests := []struct {
		name, schema string
		limits       Limits
	}{
		{"bytes", `{"description":"` + strings.Repeat("x", 200) + `"}`, Limits{SchemaBytes: 200}},
		{"depth", nested, Limits{SchemaDepth: 5}},
		{"properties", `{"properties":{` + many.String() + `}}`, Limits{SchemaProperties: 5}},
		{"properties of nested objects", `{"properties":{"a":{"properties":{"b":{},"c":{}}},"d":{"items":{"properties":{"e":{},"f":{}}}}}}`, Limits{SchemaProperties: 5}},
		{"broken", `{"type":1}`, Limits{}},
	}
	for _, tt := range tests {
		for _, mode := range []OnInvalid{flagInvalid, rejectInvalid} {
			t.Run(tt.name+" "+string(mode), func(t *testing.T) {
				limits := tt.limits
				limits.OnInvalid = mode
				c, report := New(limits).With(primitive.Listing{Upstream: "u", Namespace: "u",
					Tools: raws(`{"name":"t","description":"d","inputSchema":`+tt.schema+`}`, tool("good"))})
				want := map[OnInvalid]int{flagInvalid: 2, rejectInvalid: 1}[mode]
				if c.Len() != want || report.Has(FoundRejected) != (mode == rejectInvalid) || len(report.Findings) == 0 {
					t.Errorf("%d entries, want %d; findings %q", c.Len(), want, report.Findings)
				}
			})
		}
		t.Run(tt.name+" within", func(t *testing.T) {
			_, report := New(Limits{SchemaBytes: 250, SchemaDepth: 7, SchemaProperties: 6, OnInvalid: rejectInvalid}).With(
				primitive.Listing{Upstream: "u", Namespace: "u", Tools: raws(`{"name":"t","description":"d","inputSchema":` + tt.schema + `}`)})
			if len(report.Findings) > 0 && tt.name != "broken" {
				t.Errorf("findings %q", report.Findings)
			}
		})
	}
}

func TestMeasure(t *testing.T) {
	tests := []struct {
		schema            string
		depth, properties int
	}{
		{`{}`, 1, 0},
		{`true`, 0, 0},
		{`{"properties":{"a":{},"b":{"type":["string"]}}}`, 4, 2},
		{`{"properties":{"properties":{"properties":{"properties":{}}}}}`, 5, 2},
		{`{"default":"properties","x":["properties",{"a":1}],"properties":{"a":{}}}`, 3, 1},
		{`{"properties":3,"a":{"b":1}}`, 2, 0},
	}
	for _, tt := range tests {
		if d, p := measure([]byte(tt.schema)); d != tt.depth || p != tt.properties {
			t.Errorf("measure(%s) = %d, %d; want %d, %d", tt.schema, d, p, tt.depth, tt.properties)
		}
	}
}

func TestConflictBetweenUpstreams(t *testing.T) {
	web := primitive.Listing{Upstream: "web", Namespace: "shared", Tools: raws(tool("search"), tool("fetch"))}
	files := primitive.Listing{Upstream: "files", Namespace: "shared", Tools: raws(tool("search"), tool("read"))}
	c0 := New(Limits{})
	c1, _ := c0.With(web)
	c2, report := c1.With(files)
	if c0.Len() != 0 || c1.Len() != 2 || c2.Len() != 3 {
		t.Fatalf("lengths %d %d %d, want 0 2 3", c0.Len(), c1.Len(), c2.Len())
	}
	id := "shared:search#" + hashTool("search", json.RawMessage(`{"properties":{"a":{}}}`))
	if e := mustLookup(t, c2, id); e.Upstream != "web" {
		t.Errorf("%s is of %q, want the first, web", id, e.Upstream)
	}
	want := `two servers offer the tool "search": "web" and "files". Give one a namespace: mcpServers.files.namespace`
	i := slices.IndexFunc(report.Findings, func(f Finding) bool { return f.Kind == FoundConflict })
	if i < 0 || report.Findings[i].Message != want || report.Findings[i].Upstream != "files" {
		t.Errorf("findings %q, want %q", report.Findings, want)
	}
	if report.Tools != 1 {
		t.Errorf("report.Tools = %d, want 1", report.Tools)
	}

	// A refresh of either keeps the winner.
	c3, report := c2.With(web)
	if e := mustLookup(t, c3, id); e.Upstream != "web" || !report.Has(FoundConflict) {
		t.Errorf("after a refresh of web %s is of %q; findings %q", id, e.Upstream, report.Findings)
	}
	// Without the winner the other one comes back.
	c4 := c3.Without("web")
	if e := mustLookup(t, c4, id); e.Upstream != "files" || c4.Len() != 2 || len(c4.Findings()) != 0 {
		t.Errorf("without web: %s is of %q, %d entries, findings %q", id, e.Upstream, c4.Len(), c4.Findings())
	}
	// An order in the configuration decides whoever comes first.
	web.Order, files.Order = 2, 1
	c5, _ := New(Limits{}).With(web)
	c6, _ := c5.With(files)
	if e := mustLookup(t, c6, id); e.Upstream != "files" {
		t.Errorf("with an order %s is of %q, want files", id, e.Upstream)
	}
	if got := c6.Without("absent"); got != c6 {
		t.Error("Without an unknown upstream is another catalog")
	}
}

// TestFoundOrder: servers that were found and have one place are sorted by name, so that all gateways have them in the
// same order, whichever came first.
func TestFoundOrder(t *testing.T) {
	for _, names := range [][]string{{"a", "b", "c"}, {"c", "a", "b"}, {"b", "c", "a"}} {
		c := New(Limits{})
		for _, name := range names {
			c, _ = c.With(primitive.Listing{Upstream: name, Namespace: name, Order: 3, Found: true, Tools: raws(tool("read"))})
		}
		if got := c.Upstreams(); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("those that came as %q are %q", names, got)
		}
	}
}

func TestPrimitives(t *testing.T) {
	l := primitive.Listing{
		Upstream:          "docs",
		Resources:         raws(`{"uri":"file:///docs/readme.md","name":"README","mimeType":"text/markdown"}`),
		ResourceTemplates: raws(`{"uriTemplate":"file:///{path}","name":"any file"}`),
		Prompts:           raws(`{"name":"summarize_pr","description":"Sums up.","arguments":[{"name":"repo","required":true,"description":"where"},{"name":"pr"}]}`),
		Tools:             raws(tool("summarize_pr")),
	}
	c, report := New(Limits{}).With(l)
	if report.Tools != 1 || report.Resources != 2 || report.Prompts != 1 {
		t.Errorf("report %+v", report)
	}
	readme := mustLookup(t, c, "resource::file:README#a8c506b1")
	if readme.Card.Kind != primitive.KindResource || readme.Card.SideEffects || readme.URI != "file:///docs/readme.md" {
		t.Errorf("readme %+v", readme)
	}
	prompt := mustLookup(t, c, "prompt::mcp:summarize_pr#d72fe684")
	if !prompt.Card.HasSchema || prompt.Card.Kind != primitive.KindPrompt || prompt.Card.SideEffects {
		t.Errorf("prompt card %+v", prompt.Card)
	}
	want := `{"type":"object","properties":{"repo":{"type":"string","description":"where"},"pr":{"type":"string"}},"required":["repo"]}`
	if string(prompt.InputSchema) != want {
		t.Errorf("prompt schema %s", prompt.InputSchema)
	}
	if err := prompt.Validate(json.RawMessage(`{"pr":"1"}`)); err == nil {
		t.Error("a prompt without its required argument is valid")
	}
	for kind, paths := range map[primitive.Kind]int{primitive.KindTool: 1, primitive.KindResource: 1, primitive.KindPrompt: 1} {
		cards, err := c.ChildrenOf(kind, "/")
		if err != nil || len(cards) != paths {
			t.Errorf("%s: %d cards at /, %v", kind, len(cards), err)
		}
	}
	cards, err := c.ChildrenOf(primitive.KindTemplate, "/file")
	if err != nil || len(cards) != 2 {
		t.Errorf("resources at /file: %v, %v", cards, err)
	}
}

func TestPrimitivesWithOneIDAreNumbered(t *testing.T) {
	l := primitive.Listing{Namespace: "shared", Resources: raws(`{"uri":"a:1","name":"x","description":"d"}`)}
	c := New(Limits{})
	for _, upstream := range []string{"one", "two", "three"} {
		l.Upstream = upstream
		c, _ = c.With(l)
	}
	base := "resource::shared:x#" + hashResource("a:1")
	for suffix, upstream := range map[string]string{"": "one", "~2": "two", "~3": "three"} {
		e := mustLookup(t, c, base+suffix)
		if e.Upstream != upstream || e.Card.ID != e.ID {
			t.Errorf("%s is of %q, want %q; card %q", e.ID, e.Upstream, upstream, e.Card.ID)
		}
	}
	_, body := splitKind(base + "~2")
	if _, err := ParseToolID(body); err == nil {
		t.Error("a numbered key parses as a canonical id")
	}
	if cards, err := c.ChildrenOf(primitive.KindResource, "/shared"); err != nil || len(cards) != 3 {
		t.Errorf("%d cards, %v", len(cards), err)
	}
}

func TestWithSharesTheRest(t *testing.T) {
	c1, _ := New(Limits{}).With(primitive.Listing{Upstream: "a", Namespace: "a", Tools: raws(tool("x"))})
	c2, _ := c1.With(primitive.Listing{Upstream: "b", Namespace: "b", Tools: raws(tool("y"))})
	c3, _ := c2.With(primitive.Listing{Upstream: "b", Namespace: "b", Tools: raws(tool("z"))})
	x := only(t, c1)
	if got := mustLookup(t, c3, x.ID); got != x {
		t.Error("the entry of another upstream was built again")
	}
	if _, ok := c3.Lookup(c2.Of("b")[0].ID); ok {
		t.Error("a tool that is gone is still found")
	}
	if c3.Without("a").Without("b").Len() != 0 {
		t.Error("an emptied catalog has entries")
	}
}

func TestHashIsOfTheContent(t *testing.T) {
	a := primitive.Listing{Upstream: "a", Namespace: "a", Tools: raws(tool("x"), tool("y"))}
	swapped := primitive.Listing{Upstream: "a", Namespace: "a", Tools: raws(tool("y"), tool("x"))}
	b := primitive.Listing{Upstream: "b", Namespace: "b", Prompts: raws(`{"name":"p"}`)}
	build := func(ls ...primitive.Listing) *Catalog {
		c := New(Limits{})
		for _, l := range ls {
			c, _ = c.With(l)
		}
		return c
	}
	want := build(a, b).Hash()
	for name, c := range map[string]*Catalog{
		"other order": build(b, a), "other order of tools": build(swapped, b), "a refresh": build(a, b, a), "a detour": build(b, a, primitive.Listing{Upstream: "c"}).Without("c"),
	} {
		if c.Hash() != want {
			t.Errorf("%s: another hash", name)
		}
	}
	prose := primitive.Listing{Upstream: "a", Namespace: "a", Tools: raws(tool("x"), strings.Replace(tool("y"), "Does", "Did", 1))}
	for name, c := range map[string]*Catalog{"less": build(a), "other prose": build(prose, b), "empty": build()} {
		if c.Hash() == want {
			t.Errorf("%s: the same hash", name)
		}
	}
}

func TestNearest(t *testing.T) {
	c, _ := New(Limits{}).With(primitive.Listing{Upstream: "github", Namespace: "github", Prompts: raws(`{"name":"create_issue"}`), Tools: raws(
		tool("create_issue"), tool("create_issues_bulk"), tool("close_issue"), tool("list_pull_requests"), tool("delete_repository"))})
	c, _ = c.With(primitive.Listing{Upstream: "gitlab", Namespace: "gitlab", Tools: raws(tool("create_issue"))})
	id := func(ns, name string) string {
		return ns + ":" + name + "#" + hashTool(name, json.RawMessage(`{"properties":{"a":{}}}`))
	}
	tests := []struct {
		in, first string
	}{
		{"github:create_issue#00000000", id("github", "create_issue")},
		{"github:create_issue", id("github", "create_issue")},
		{"gitlab:craete_issue", id("gitlab", "create_issue")},
		{"GitHub:Create_Issue@1", id("github", "create_issue")},
		{"create_issue", id("github", "create_issue")},
		{"github/close_issues", id("github", "close_issue")},
		{"github:list_pull_request", id("github", "list_pull_requests")},
		{"prompt::github:create_isue", "prompt::github:create_issue#" + hashPrompt("create_issue", nil)},
	}
	for _, tt := range tests {
		got := c.Nearest(tt.in, 3)
		if len(got) == 0 || got[0] != tt.first {
			t.Errorf("Nearest(%q) = %q, want first %q", tt.in, got, tt.first)
		}
	}
	for _, in := range []string{"", "weather:forecast", strings.Repeat("z", 1000), "\xff\x00"} {
		if got := c.Nearest(in, 3); len(got) != 0 {
			t.Errorf("Nearest(%q) = %q, want nothing", clip(in, 20), got)
		}
	}
	if got := c.Nearest("github:create_issue", 0); got != nil {
		t.Errorf("Nearest of 0 = %q", got)
	}
}

func TestCardBudgets(t *testing.T) {
	long := strings.Repeat("Searches the documents of the whole company for words, dates and people. ", 20)
	c, _ := New(Limits{}).With(primitive.Listing{Upstream: "u", Namespace: "docs", Tools: raws(
		fmt.Sprintf(`{"name":"search","description":%q,"annotations":{"readOnlyHint":true},"inputSchema":{"type":"object"}}`, long),
		fmt.Sprintf(`{"name":"endless","description":%q,"inputSchema":{}}`, strings.Repeat("word ", 500)),
		`{"name":"lines","description":"  one\n\ttwo \u0000 three\u00a0four  ","inputSchema":{}}`,
		fmt.Sprintf(`{"name":%q,"description":"Searches.","inputSchema":{}}`, strings.Repeat("検索", 10)),
	)})
	for _, e := range c.Entries() {
		rendered := e.Card.Render()
		if n := token.Count(rendered); n != e.Card.Tokens || n > cardTarget {
			t.Errorf("%q has %d tokens, counted %d", rendered, n, e.Card.Tokens)
		}
		if strings.ContainsAny(rendered, "\n\t") {
			t.Errorf("%q is not one line", rendered)
		}
		switch e.RawName {
		case "search":
			if d := e.Card.Description; !strings.HasSuffix(d, "people.") || !strings.HasPrefix(long, d) || e.Card.Tokens < cardTarget-20 {
				t.Errorf("description %q (%d tokens) is not whole sentences that fill the budget", d, e.Card.Tokens)
			}
		case "endless":
			if d := e.Card.Description; !strings.HasSuffix(d, "…") || e.Card.Tokens < cardTarget-2 {
				t.Errorf("description %q (%d tokens) is not cut hard", d, e.Card.Tokens)
			}
		case strings.Repeat("検索", 10):
			if d := e.Card.Description; !strings.HasPrefix(d, "検索") || e.Card.Name != e.RawName {
				t.Errorf("name %q, description %q", e.Card.Name, d)
			}
		case "lines":
			if e.Card.Description != "one two three four" {
				t.Errorf("description %q", e.Card.Description)
			}
		}
	}
}

func TestCardForms(t *testing.T) {
	tests := []struct {
		name, def      string
		tags           []string
		rendered, json string
	}{
		{"plain", `{"name":"read","description":"Reads \"it\" <now>.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`, nil,
			"n:read@1 (tool) — Reads \"it\" <now>. [read-only]",
			`{"id":"n:read@1","name":"read","description":"Reads \"it\" <now>.","tags":["read-only"],"kind":"tool","namespace":"n","has_schema":true,"cost_hint":0,"side_effects":false,"safety":"read_only"}`},
		{"all there is", `{"name":"rm","description":"Removes.","inputSchema":{},"annotations":{"destructiveHint":true},"_meta":{"tags":["zz","b","a","c","d","b"],"cost_hint":0.3}}`, []string{"conf"},
			"n:rm@1 (tool) — Removes. [a, b, c, conf, destructive] cost=0.30 side-effects",
			`{"id":"n:rm@1","name":"rm","description":"Removes.","tags":["a","b","c","conf","destructive"],"kind":"tool","namespace":"n","has_schema":false,"cost_hint":0.3,"side_effects":true,"safety":"destructive"}`},
		{"title for a description", `{"name":"t","title":"A title","annotations":{"readOnlyHint":true,"destructiveHint":true}}`, nil,
			"n:t@1 (tool) — A title [destructive, read-only]",
			`{"id":"n:t@1","name":"t","description":"A title","tags":["destructive","read-only"],"kind":"tool","namespace":"n","has_schema":false,"cost_hint":0,"side_effects":false,"safety":"destructive"}`},
		{"a cost among the annotations", `{"name":"t","annotations":{"readOnlyHint":true,"costHint":0.7}}`, nil, "n:t@1 (tool) [read-only] cost=0.70",
			`{"id":"n:t@1","name":"t","description":"","tags":["read-only"],"kind":"tool","namespace":"n","has_schema":false,"cost_hint":0.7,"side_effects":false,"safety":"read_only"}`},
		{"two costs", `{"name":"t","annotations":{"readOnlyHint":true,"costHint":0.7},"_meta":{"example.com/cost_hint":2}}`, nil, "n:t@1 (tool) [read-only] cost=2.00",
			`{"id":"n:t@1","name":"t","description":"","tags":["read-only"],"kind":"tool","namespace":"n","has_schema":false,"cost_hint":2,"side_effects":false,"safety":"read_only"}`},
		{"costs that are none", `{"name":"t","annotations":{"readOnlyHint":true,"costHint":"0.7"},"_meta":{"cost_hint":-1}}`, nil, "n:t@1 (tool) [read-only]",
			`{"id":"n:t@1","name":"t","description":"","tags":["read-only"],"kind":"tool","namespace":"n","has_schema":false,"cost_hint":0,"side_effects":false,"safety":"read_only"}`},
		{"nothing said", `{"name":"t"}`, nil, "n:t@1 (tool) side-effects",
			`{"id":"n:t@1","name":"t","description":"","tags":[],"kind":"tool","namespace":"n","has_schema":false,"cost_hint":0,"side_effects":true,"safety":""}`},
		{"letters that the id lacks", `{"name":"検索","description":"Searches.","annotations":{"readOnlyHint":true}}`, nil,
			"n:__@1 (tool) — 検索: Searches. [read-only]",
			`{"id":"n:__@1","name":"検索","description":"検索: Searches.","tags":["read-only"],"kind":"tool","namespace":"n","has_schema":false,"cost_hint":0,"side_effects":false,"safety":"read_only"}`},
		{"letters, hidden text and no description", `{"name":"caf\u200bé\n(tool)","annotations":{"readOnlyHint":true}}`, nil,
			"n:caf____tool_@1 (tool) — café (tool) [read-only]",
			`{"id":"n:caf____tool_@1","name":"café (tool)","description":"café (tool)","tags":["read-only"],"kind":"tool","namespace":"n","has_schema":false,"cost_hint":0,"side_effects":false,"safety":"read_only"}`},
		{"letters in an address", `{"name":"https://例.jp/","description":"Reads.","annotations":{"readOnlyHint":true}}`, nil,
			"n:https____.jp_@1 (tool) — Reads. [read-only]",
			`{"id":"n:https____.jp_@1","name":"https____.jp_","description":"Reads.","tags":["read-only"],"kind":"tool","namespace":"n","has_schema":false,"cost_hint":0,"side_effects":false,"safety":"read_only"}`},
		{"tags are tamed", `{"name":"t","annotations":{"tags":["a long tag of more than twenty-four characters","http://10.0.0.1/","x, [y]\n z",7]},"_meta":{"_fastmcp":{"tags":["f"]}}}`, nil,
			"n:t@1 (tool) [a long tag of more than, f, x y z] side-effects",
			`{"id":"n:t@1","name":"t","description":"","tags":["a long tag of more than","f","x y z"],"kind":"tool","namespace":"n","has_schema":false,"cost_hint":0,"side_effects":true,"safety":""}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			def := strings.Replace(tt.def, `"_meta":{`, `"_meta":{"version":"1",`, 1)
			if def == tt.def {
				def = strings.TrimSuffix(def, "}") + `,"_meta":{"version":"1"}}`
			}
			c, _ := New(Limits{}).With(primitive.Listing{Upstream: "u", Namespace: "n", Tags: tt.tags, Tools: raws(def)})
			card := only(t, c).Card
			if got := card.Render(); got != tt.rendered {
				t.Errorf("rendered %q, want %q", got, tt.rendered)
			}
			if got := string(card.AppendJSON(nil, false)); got != tt.json || !json.Valid([]byte(got)) {
				t.Errorf("JSON\n%s, want\n%s", got, tt.json)
			}
			card.Score = 0.75
			if got, want := string(card.AppendJSON([]byte("x"), true)), "x"+strings.TrimSuffix(tt.json, "}")+`,"score":0.75}`; got != want {
				t.Errorf("JSON with score\n%s, want\n%s", got, want)
			}
			for _, banned := range []string{"inputSchema", "_meta", "annotations", "://"} {
				if bytes.Contains(card.AppendJSON(nil, true), []byte(banned)) {
					t.Errorf("the card carries %q", banned)
				}
			}
		})
	}
}

func TestParams(t *testing.T) {
	c, _ := New(Limits{}).With(primitive.Listing{Upstream: "u", Namespace: "n", Tools: raws(
		`{"name":"t","inputSchema":{"properties":{"z":{"description":"last"},"a":{"type":"string","enum":["x",1,"y"]}},"required":["z"]}}`)})
	want := []Param{{Name: "z", Description: "last", Required: true}, {Name: "a", Values: []string{"x", "y"}}}
	if got := only(t, c).Params(); !reflect.DeepEqual(got, want) {
		t.Errorf("Params = %v, want %v", got, want)
	}
}

func TestReportIsBounded(t *testing.T) {
	var l primitive.Listing
	for range maxFindings + 10 {
		l.Tools = append(l.Tools, json.RawMessage(`1`))
	}
	_, report := New(Limits{}).With(l)
	if len(report.Findings) != maxFindings || report.Omitted != 10 {
		t.Errorf("%d findings, %d omitted", len(report.Findings), report.Omitted)
	}
}
