package runs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/program"
)

// savedConfig reads a configuration with the program report.
func savedConfig(t *testing.T, source, schema string) (*config.Config, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"report.js": source,
		"weir.yaml": "programs: {saved: {report: {file: report.js, description: \" Reports. \"" + schema + "}}}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, _, err := config.Load(filepath.Join(dir, "weir.yaml"), config.Options{ReadFile: os.ReadFile, CheckProgram: CheckProgram})
	return c, err
}

// The definition of a saved program has its own arguments, the argument resume and the hash of the program.
func TestSavedDefinition(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		"": `{"type":"object","additionalProperties":false,"properties":{"resume":` + resumeSchema + `}}`,
		`, input_schema: {type: object, properties: {day: {type: string}}, required: [day]}`: `{"type":"object","properties":{"day":{"type":"string"},"resume":` + resumeSchema + `},"required":["day"]}`,
		`, input_schema: {required: [day]}`:                                                  `{"required":["day"],"properties":{"resume":` + resumeSchema + `},"type":"object"}`,
	} {
		c, err := savedConfig(t, "return input", schema)
		if err != nil {
			t.Fatal(err)
		}
		l := savedListing(c)
		if len(l.Tools) != 1 || l.Upstream != "weir" || l.Namespace != "weir" {
			t.Fatalf("%+v", l)
		}
		tool := l.Tools[0]
		if got := rawjson.Get(tool, "inputSchema"); string(got) != want {
			t.Errorf("%s, want %s", got, want)
		}
		saved := savedOf(c)["report"]
		if rawjson.Text(rawjson.Get(tool, "description")) != "Reports." || saved.Source != "return input" || saved.Hash != HashOf("return input") || rawjson.Text(rawjson.GetPath(tool, "_meta", MetaProgram)) != saved.Hash {
			t.Errorf("%s of %+v", tool, saved)
		}
	}
}

// Hints that the configuration declares are the annotations of the tool, and a tool without them has none.
func TestSavedHints(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]string{
		"":                                      "",
		", read_only: false":                    "",
		", read_only: true":                     `{"readOnlyHint":true,"idempotentHint":false}`,
		", destructive: false":                  `{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false}`,
		", idempotent: true, destructive: true": `{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true}`,
	} {
		c, err := savedConfig(t, "return input", keys)
		if err != nil {
			t.Fatal(err)
		}
		if got := rawjson.Get(savedListing(c).Tools[0], "annotations"); string(got) != want {
			t.Errorf("%s: %s, want %s", keys, got, want)
		}
		if saved := savedOf(c)["report"]; saved.ReadOnly != strings.Contains(keys, "read_only: true") {
			t.Errorf("%s: %+v", keys, saved)
		}
	}
	if _, err := savedConfig(t, "return input", ", read_only: true, destructive: true"); err == nil || !strings.Contains(err.Error(), "programs.saved.report.destructive: a program with read_only: true changes nothing") {
		t.Error(err)
	}
}

// A mistake in the program, or in the schema of its arguments, is a mistake of the configuration, with its place.
func TestSavedMistakes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ source, schema, says string }{
		{"const a = 1;\nconst a = 2;", "", "programs.saved.report: report.js: line 2, column "},
		{"return [", "", "SyntaxError"},
		{"return 1", ", input_schema: {type: object, properties: {n: {type: whole}}}", "input_schema: inputSchema of tool \"report\""},
		{"return 1", ", input_schema: {$ref: \"https://example.com/x.json\"}", "input_schema: "},
	} {
		if _, err := savedConfig(t, tt.source, tt.schema); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q %s: %v, want %q", tt.source, tt.schema, err, tt.says)
		}
	}
}

// shownTools has the tools that a catalog was given.
type shownTools map[string][]json.RawMessage

func (s shownTools) Update(l primitive.Listing) { s[l.Upstream] = l.Tools }
func (s shownTools) Remove(upstream string)     { delete(s, upstream) }

// A reload shows the programs of the new configuration, and only a change of them is one.
func TestSavedReload(t *testing.T) {
	t.Parallel()
	one, err := savedConfig(t, "return 1", "")
	if err != nil {
		t.Fatal(err)
	}
	two, err := savedConfig(t, "return 2", "")
	if err != nil {
		t.Fatal(err)
	}
	none, _, err := config.Parse("weir.yaml", []byte("mcpServers: {}\n"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := &Programs{pool: new(program.Pool)}
	shown := shownTools{}
	p.List(one, shown)
	if len(shown["weir"]) != 1 {
		t.Fatalf("%v", shown)
	}
	if apply := p.Prepare(part.Reload{Now: one, Next: one}, shown); apply != nil {
		t.Error("nothing has changed")
	}
	before := string(shown["weir"][0])
	p.Prepare(part.Reload{Now: one, Next: two}, shown)()
	if len(shown["weir"]) != 1 || string(shown["weir"][0]) == before {
		t.Errorf("%v", shown)
	}
	p.Prepare(part.Reload{Now: two, Next: none}, shown)()
	if len(shown) != 0 {
		t.Errorf("%v", shown)
	}
	(&Programs{}).List(one, shown)
	if len(shown) != 0 {
		t.Errorf("programs are off: %v", shown)
	}
}
