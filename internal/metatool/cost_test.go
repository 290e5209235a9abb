package metatool

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result/usage"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/text/token"
)

// A result up to the threshold costs the model exactly what it costs raw: the
// same content, byte for byte, and nothing that a client would show beside it.
func TestSmallResultsCostWhatTheyCostRaw(t *testing.T) {
	for name, result := range map[string]string{
		"two characters":     calltest.Text("ok"),
		"at the threshold":   calltest.Text(strings.Repeat("a", 2000)),
		"of other scripts":   calltest.Text(strings.Repeat("žluťoučký 雨 ", 150)),
		"facts and a secret": calltest.Text("state: ready\ntoken: ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaa\nhttps://u:pw@host/"),
		"JSON in text":       calltest.Text(`{"rows":[{"a":1,"b":null}],"total":1}`),
		"several blocks":     `{"content":[{"type":"text","text":"one"},{"type":"text","text":"","annotations":{"priority":0.1}},{"type":"resource_link","uri":"file:///a","name":"a"}]}`,
		"a picture":          `{"content":[{"type":"image","data":"aGVsbG8=","mimeType":"image/png"}]}`,
		"of both forms":      `{"content":[{"type":"text","text":"{\"n\":1}"}],"structuredContent":{"n":1}}`,
		"structured alone":   `{"content":[],"structuredContent":{"rows":[1,2,3]}}`,
		"an error":           `{"content":[{"type":"text","text":"no such file"}],"isError":true,"_meta":{"x/y":[1]}}`,
		"nothing":            `{"content":[]}`,
	} {
		h := newHarness(t, Options{})
		h.Add("files", calltest.Say(result), calltest.ReadTool)
		raw, err := h.Ask(t, "tools/call", `{"name":"tool_execute","arguments":{"tool_id":"`+h.ID(t, "files", "read_file")+`","args":{"path":"a"}}}`)
		if err != nil {
			t.Fatal(name, err)
		}
		if name == "structured alone" {
			result = `{"content":[{"type":"text","text":"{\"rows\":[1,2,3]}"}],"structuredContent":{"rows":[1,2,3]}}`
		}
		for _, key := range []string{"content", "structuredContent", "isError"} {
			if got, want := rawjson.Get(raw, key), rawjson.Get([]byte(result), key); string(got) != string(want) {
				t.Errorf("%s: %s is %s, want %s", name, key, got, want)
			}
		}
		got, _ := usage.TextsOf(raw).Count(token.Count)
		if want, _ := usage.TextsOf(json.RawMessage(result)).Count(token.Count); got != want {
			t.Errorf("%s: %d tokens, raw %d", name, got, want)
		}
	}
}

// Providers of models refuse arrays whose items have no schema and enums without
// a type, and then the whole request that the definition is in.
func TestDefinitionsAreSchemasThatProvidersTake(t *testing.T) {
	var check func(path string, schema json.RawMessage)
	check = func(path string, schema json.RawMessage) {
		kind := string(rawjson.Get(schema, "type"))
		if kind == "" {
			t.Errorf("%s has no type", path)
		}
		items := rawjson.Get(schema, "items")
		if strings.Contains(kind, `"array"`) != (items != nil) {
			t.Errorf("%s: items %s", path, items)
		}
		if items != nil {
			check(path+"[]", items)
		}
		if properties := rawjson.Get(schema, "properties"); properties != nil {
			if err := rawjson.EachMember(properties, func(m rawjson.Member) bool { check(path+"."+string(m.Key), m.Value); return true }); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	total, all := 0, 0
	for _, tool := range metaTools {
		if tool.name != ToolHydrate {
			all += token.Count(tool.definition)
		}
		if err := rawjson.Valid([]byte(tool.definition)); err != nil {
			t.Errorf("%s: %v", tool.name, err)
		}
		check(tool.name, rawjson.Get([]byte(tool.definition), "inputSchema"))
		if tool.name == ToolBrowse || tool.name == ToolExecute || tool.name == ToolView {
			total += token.Count(tool.definition)
		}
	}
	if total > 680 || all > 1200 {
		t.Errorf("three definitions have %d tokens, those with tool_run, resources and prompts %d", total, all)
	}
}
