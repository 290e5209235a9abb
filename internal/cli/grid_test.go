package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/metatool/tools"
	"github.com/weir-mcp/weir/internal/text/visible"
)

// TestTablesFit: tables fit terminals of 60 columns and more. Names keep both ends, and what is
// wrapped is whole.
func TestTablesFit(t *testing.T) {
	t.Parallel()
	long := "start-" + strings.Repeat("n", 60) + "-end"
	const sentence = "connect: brought files, weather, needskey and notes of Claude Desktop behind weir; see https://example.com/a/rather/long/path/of/docs"
	health := &gateway.Health{Upstreams: map[string]gateway.UpstreamHealth{
		long:   {State: "restarting", Transport: "streamable", Tools: 1234, Protocol: "2025-11-25", Error: sentence},
		"fine": {State: "ready", Transport: "stdio", Tools: 3, Protocol: "2025-11-25", Server: "a-server-with-a-long-name 1.2.3"},
	}}
	tables := map[string]func(a *process) error{
		"ls": func(a *process) error { return printUpstreams(a.stdout, health) },
		"undo": func(a *process) error {
			return printTable(a.stdout, []column{{"N", whole}, {"WHEN", whole}, {"STATE", whole}, {"WHAT", wrapped}},
				[][]cell{{{cyan, "12"}, {"", "01-02 15:04"}, {"", "undone by 13"}, {"", sentence}}, {{cyan, "1"}, {"", "01-02 15:04"}, {"", "done"}, {"", "start-x-end"}}})
		},
		"search": func(a *process) error {
			return printCards(a.stdout, []card{{ID: long, Description: sentence}, {ID: "fine:x#1", Description: "short"}})
		},
		"clients": func(a *process) error {
			return printTable(a.stdout, []column{{"CLIENT", between}, {"STATE", whole}, {"SERVERS", whole}, {"FILE", between}},
				[][]cell{{{cyan, "claude-desktop"}, {"", "unreadable"}, {"", "12"}, {"", "~/" + long}}})
		},
	}
	for name, print := range tables {
		for _, width := range []int{60, 80, 200} {
			var out bytes.Buffer
			if err := print(&process{stdout: terminal{Writer: &out, width: width}}); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out.String()) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("%s at %d: a line has %d characters: %q", name, width, n, line)
				}
			}
			got := out.String()
			if !strings.Contains(got, "start-") && !strings.Contains(got, "st…") || !strings.Contains(got, "end") {
				t.Errorf("%s at %d: no two ends of a name:\n%s", name, width, got)
			}
			if name == "search" || name == "clients" {
				continue
			}
			if squeezed := strings.Join(strings.Fields(got), ""); !strings.Contains(squeezed, strings.ReplaceAll(sentence, " ", "")) {
				t.Errorf("%s at %d: the sentence is not whole:\n%s", name, width, got)
			}
		}
	}
}

// TestTableGolden shows how a table gives way: a wrapped column first, then the widest name, and a
// spare column where that is not enough.
func TestTableGolden(t *testing.T) {
	t.Parallel()
	columns := []column{{"NAME", between}, {"KIND", spare}, {"WHY", wrapped}}
	for width, want := range map[int]string{
		0:  "NAME                KIND   WHY\na-server-of-tables  stdio  it ended after a while, and nothing says why\n",
		60: "NAME                KIND   WHY\na-server-of-tables  stdio  it ended after a while, and\n                           nothing says why\n",
		44: "NAME         KIND   WHY\na-se…tables  stdio  it ended after a while,\n                    and nothing says why\n",
		36: "NAME        WHY\na-se…ables  it ended after a while,\n            and nothing says why\n",
	} {
		var out bytes.Buffer
		rows := [][]cell{{{"", "a-server-of-tables"}, {"", "stdio"}, {"", "it ended after a while, and nothing says why"}}}
		if err := printTable(terminal{Writer: &out, width: width}, columns, rows); err != nil || out.String() != want {
			t.Errorf("width %d: %v\n%s\nwant\n%s", width, err, out.String(), want)
		}
	}
}

// TestPipesShowHiddenText: what weir writes for people has no invisible characters in a pipe either: a
// model may read it. A table and a tool show them as escapes.
func TestPipesShowHiddenText(t *testing.T) {
	t.Parallel()
	const hidden = "a\U000E0049\U000E0067\u200b\x1b[31mb"
	var out bytes.Buffer
	a := &process{stdout: terminal{Writer: &out}}
	health := &gateway.Health{Upstreams: map[string]gateway.UpstreamHealth{"odd": {State: "ready", Server: hidden}}}
	if err := printUpstreams(a.stdout, health); err != nil {
		t.Fatal(err)
	}
	schema, err := json.Marshal(map[string]any{"properties": map[string]any{hidden: map[string]any{"type": "string", "default": hidden, "enum": []string{hidden}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := printTool(a.stdout, &tools.Tool{ID: "odd:t#1", Name: "t" + hidden, Server: "odd", Description: hidden, InputSchema: schema}); err != nil {
		t.Fatal(err)
	}
	if kinds := visible.Find(out.String()); kinds != 0 || !strings.Contains(out.String(), `a\u{e0049}\u{e0067}\u200b`) {
		t.Errorf("%s in %+q", kinds, out.String())
	}
}
