package metatool

import (
	"errors"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

const mixedFile = `{
  "tools": [{"name":"github.create_issue","description":"Open an issue","inputSchema":{"type":"object"}}],
  "resources": [
    {"uri":"file:///docs/readme.md","name":"README","mimeType":"text/markdown","text":"# Hello"},
    {"uri":"file:///a.bin","name":"bin","blob":"AAE="},
    {"uri":"file:///none","name":"none"},
    {"uri":"file:///two","name":"two","contents":[{"uri":"file:///two","text":"one"},{"uri":"file:///two","text":"two"}]}],
  "resourceTemplates": [{"uriTemplate":"row:{id}","name":"row"}],
  "prompts": [
    {"name":"summarize_pr","description":"Sums up","arguments":[{"name":"repo","required":true}],
     "messages":[{"role":"user","content":{"type":"text","text":"Summarize {{repo}} {{unknown}}"}}]},
    {"name":"empty"}],
  "reads": {"row:7": "seven"}}`

func fileHarness(t *testing.T, data string) (*harness, *SnapshotFile) {
	t.Helper()
	f, err := ReadSnapshotFile("/tmp/mixed.json", []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	h := newHarness(t, Options{})
	h.Mu.Lock()
	h.Others = map[string]mcp.Peer{f.Name(): f}
	h.Listed, _ = h.Listed.With(f.Listing())
	h.Mu.Unlock()
	return h, f
}

// TestSnapshotFile serves listings and canned reads (spec/gateway §6.5); a tool says that it
// needs an upstream.
func TestSnapshotFile(t *testing.T) {
	h, f := fileHarness(t, mixedFile)
	if f.Name() != "mixed" {
		t.Errorf("%s", f.Name())
	}
	if got := h.ID(t, "mixed", "README"); got != "resource::file:README#a8c506b1" {
		t.Errorf("namespaces are inferred: %s", got)
	}
	if got := h.ID(t, "mixed", "github.create_issue"); !strings.HasPrefix(got, "github:create_issue#") {
		t.Errorf("%s", got)
	}
	read := func(name, more string) calltest.Answer {
		return h.Tool(t, ResourceRead, `{"resource_id":"`+h.ID(t, "mixed", name)+`"`+more+`}`)
	}
	if s := read("README", ""); s.Content[0].Text != "# Hello" {
		t.Errorf("%+v", s)
	}
	if s := read("two", ""); len(s.Content) != 2 || s.Content[1].Text != "two" {
		t.Errorf("%+v", s)
	}
	if s := read("bin", ""); len(s.Env.Artifacts) != 1 || s.Env.Artifacts[0].SizeBytes != 2 {
		t.Errorf("%+v", s)
	}
	if s := read("row", `,"args":{"id":7}`); s.Content[0].Text != "seven" {
		t.Errorf("%+v", s)
	}
	s := h.Tool(t, PromptGet, `{"prompt_id":"`+h.ID(t, "mixed", "summarize_pr")+`","args":{"repo":"we\"ir\n"}}`)
	if s.Content[0].Text != "Sums up" || s.Content[1].Text != "[user] Summarize we\"ir\n {{unknown}}" {
		t.Errorf("%+v", s)
	}
	for _, s := range []calltest.Answer{
		h.Tool(t, ToolExecute, `{"tool_id":"`+h.ID(t, "mixed", "github.create_issue")+`","args":{}}`),
		read("none", ""), h.Tool(t, PromptGet, `{"prompt_id":"`+h.ID(t, "mixed", "empty")+`"}`),
	} {
		if e := calltest.Failure(t, s); e.Error != "UPSTREAM_ERROR" || *e.Retryable || !strings.Contains(e.Message, "needs an upstream") || !strings.Contains(e.Message, "mixed.json") {
			t.Errorf("%+v", e)
		}
	}
	out, err := h.Ask(t, "resources/list", `{}`)
	if err != nil || strings.Contains(string(out), "# Hello") || strings.Contains(string(out), "blob") {
		t.Errorf("definitions hold no contents: %s %v", out, err)
	}
}

// A bare list is tools only, and so is an object without the other keys (spec/gateway §6.5).
func TestSnapshotFileOfTools(t *testing.T) {
	for _, data := range []string{`[{"name":"a"},{"name":"b"}]`, "\ufeff" + `{"tools":[{"name":"a"},{"name":"b"}]}`, `{"tools":[{"name":"a"},{"name":"b"}],"resources":[],"prompts":null}`} {
		h, f := fileHarness(t, data)
		if got := strings.Join(h.names(t), " "); got != "tool_browse tool_execute tool_view" || len(f.Listing().Tools) != 2 {
			t.Errorf("%s: %s", data, got)
		}
	}
}

func TestSnapshotFileErrors(t *testing.T) {
	for _, data := range []string{``, `7`, `{`, `{"tools":{}}`, `{"tools":[],"tools":[]}`, `{"reads":[]}`, `{"reads":{"a":7}}`, `{"reads":{"a":{}}}`, `{"resources":[{"uri":"a:b","contents":7}]}`, `{"prompts":[{"name":"p","messages":{}}]}`} {
		if _, err := ReadSnapshotFile("x.json", []byte(data)); !errors.Is(err, errSnapshotFile) || !strings.Contains(err.Error(), "x.json") {
			t.Errorf("%s: %v", data, err)
		}
	}
}

// An object of something else is no empty catalog.
func TestSnapshotFileOfSomethingElse(t *testing.T) {
	for data, want := range map[string]string{
		`{"tols":[]}`:       `none of the keys tools, resources, resourceTemplates, prompts, reads; it has "tols"`,
		`{}`:                "none of the keys tools",
		`{"mcpServers":{}}`: "--config",
	} {
		if _, err := ReadSnapshotFile("x.json", []byte(data)); !errors.Is(err, errSnapshotFile) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", data, err)
		}
	}
}

func FuzzSnapshotFile(f *testing.F) {
	f.Add([]byte(mixedFile))
	f.Add([]byte(`[{"name":1},[],null]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := ReadSnapshotFile("f.json", data)
		if err != nil {
			return
		}
		NewSnapshot(catalog.Limits{}).With(file.Listing())
	})
}
