package result_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/internal/text/redact"
	"github.com/weir-mcp/weir/internal/text/visible"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// hiddenTool hides something in every text of its definition.
const hiddenTool = `{"name":"leak","title":"L\u200b","description":"Reads a file.\udb40\udc49\udb40\udc67 Quickly.","inputSchema":{"type":"object","properties":{"path":{"type":"string","description":"a \u202epath\u202c"}},"required":["path"]}}`

// TestHiddenTextReachesNobody: not a model by way of cards, definitions, errors and
// summaries.
func TestHiddenTextReachesNobody(t *testing.T) {
	const said = "fact: one\u200b\U000E0049\U000E0067 \u202eowt\u202c\u009b31m"
	h := metatooltest.New(t, metatool.Options{ExposeHydrate: true})
	h.Add("odd", calltest.Say(calltest.Text(strings.Repeat(said+"\n", 200))), hiddenTool)
	h.Add("failing", calltest.Fail(&jsonrpc.Error{Code: -32000, Message: said}), calltest.ReadTool)
	h.Add("broken", calltest.Fail(mcp.Errorf(mcp.KindUpstreamUnavailable, "%s", said)), calltest.ReadTool)
	leak := h.ID(t, "odd", "leak")
	for name, result := range map[string]calltest.Answer{
		"browse":       h.Tool(t, metatool.ToolBrowse, `{"query":"read a file quickly"}`),
		"browse path":  h.Tool(t, metatool.ToolBrowse, `{"path":"/odd"}`),
		"hydrate":      h.Tool(t, metatool.ToolHydrate, `{"tool_id":"`+leak+`"}`),
		"invalid":      h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+leak+`","args":{}}`),
		"summary":      h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+leak+`","args":{"path":"a"}}`),
		"envelope":     h.AsJSON(t, metatool.ToolExecute, `{"tool_id":"`+leak+`","args":{"path":"a"}}`),
		"answered":     h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "failing", "read_file")+`","args":{"path":"a"}}`),
		"out of reach": h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "broken", "read_file")+`","args":{"path":"a"}}`),
		"not there":    h.Tool(t, metatool.ToolExecute, `{"tool_id":"a\u200b:b\u202ec","args":{"path":"a"}}`),
	} {
		for _, block := range result.Content {
			var doc any
			if err := json.Unmarshal([]byte(block.Text), &doc); err != nil {
				doc = block.Text
			}
			eachText(doc, func(text string) {
				if kinds := visible.Find(text); kinds != 0 {
					t.Errorf("%s: %s in %+q", name, kinds, text)
				}
			})
		}
		if kinds := visible.Find(result.Env.Summary + strings.Join(result.Env.Facts, "")); kinds != 0 {
			t.Errorf("%s: %s in the envelope", name, kinds)
		}
	}
	l, up := metatooltest.Library(t, metatool.Options{})
	up.Mu.Lock()
	up.Err = &jsonrpc.Error{Code: -32000, Message: said}
	up.Mu.Unlock()
	if _, err := l.Ask(t, "resources/read", `{"uri":"file:///docs/readme.md"}`); err == nil || visible.Find(err.Error()) != 0 {
		t.Errorf("an error of the protocol: %+q", err)
	}
}

// eachText calls f for every string in a decoded JSON value.
func eachText(v any, f func(string)) {
	switch v := v.(type) {
	case string:
		f(v)
	case []any:
		for _, e := range v {
			eachText(e, f)
		}
	case map[string]any:
		for key, e := range v {
			f(key)
			eachText(e, f)
		}
	}
}

// TestStrictPinRefusesHiddenText: an operator has not looked at what nobody sees.
func TestStrictPinRefusesHiddenText(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{})
	h.Add("odd", calltest.Echo, hiddenTool)
	for name, c := range map[string]struct {
		pin  dispatch.Pin
		runs bool
	}{
		"none": {dispatch.Pin{}, true}, "warn": {dispatch.Pin{Hash: h.Snapshot().Catalog.Hash()}, true}, "strict": {dispatch.Pin{Hash: h.Snapshot().Catalog.Hash(), Strict: true}, false},
	} {
		h.Change(func(o *metatool.Options) { o.Pin = c.pin })
		if s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "web", "search")+`","args":{}}`); s.IsError {
			t.Errorf("%s: another tool: %+v", name, s)
		}
		before := len(h.Called())
		s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "odd", "leak")+`","args":{"path":"a"}}`)
		if s.IsError == c.runs || (len(h.Called()) > before) != c.runs {
			t.Errorf("%s: %+v", name, s)
		}
		if !c.runs {
			if e := calltest.Failure(t, s); e.Error != "PERMISSION_DENIED" || !strings.Contains(e.Message, "Unicode tags") || !strings.Contains(e.Message, `"odd"`) {
				t.Errorf("%s: %+v", name, e)
			}
		}
		places := []metatool.Place{{Upstream: "odd", Namespace: "odd"}}
		request := &mcp.Request{Session: h.Session, Method: "tools/call", Params: json.RawMessage(`{"name":"leak","arguments":{"path":"a"}}`)}
		if h.Gateway.DirectCalls().HasControls() {
			if _, err := h.Gateway.DirectCalls().Judge(t.Context(), places, request, ""); (err == nil) != c.runs {
				t.Errorf("%s, directly: %v", name, err)
			}
			if h.Gateway.DirectCalls().Refuses(t.Context(), places, "tools/call", "leak") == c.runs {
				t.Errorf("%s: what is refused is not known before", name)
			}
		}
	}
	if c := h.Snapshot().Catalog; len(c.Findings()) == 0 || !strings.Contains(c.Findings()[0].String(), string(catalog.FoundHidden)) {
		t.Errorf("%v", c.Findings())
	}
}

// TestGuardRefusesHiddenText: without a pin, too, at each path; other entries run.
func TestGuardRefusesHiddenText(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{Pin: dispatch.Pin{Seen: true}})
	h.Add("odd", calltest.Echo, hiddenTool)
	if s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "web", "search")+`","args":{}}`); s.IsError {
		t.Errorf("another tool: %+v", s)
	}
	e := calltest.Failure(t, h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "odd", "leak")+`","args":{"path":"a"}}`))
	if e.Error != "PERMISSION_DENIED" || !strings.Contains(e.Message, "guards.unicode is refuse") || !strings.Contains(e.Message, `"odd"`) {
		t.Errorf("%+v", e)
	}
	d := h.Gateway.DirectCalls()
	for server, tool := range map[string]string{"odd": "leak", "web": "search"} {
		places := []metatool.Place{{Upstream: server, Namespace: server}}
		request := &mcp.Request{Session: h.Session, Method: "tools/call", Params: json.RawMessage(`{"name":"` + tool + `","arguments":{"path":"a"}}`)}
		if _, err := d.Judge(t.Context(), places, request, ""); (err != nil) != (server == "odd") || !d.Judges(places) || !d.HasControls() {
			t.Errorf("directly at %s: %v", server, err)
		}
	}
	if calls := h.Called(); len(calls) != 1 || !strings.HasPrefix(calls[0], "web ") {
		t.Errorf("%q", calls)
	}
}

// TestHiddenTextInLists: the lists of MCP hold what is seen of the texts, and the
// names and URIs that the upstream knows.
func TestHiddenTextInLists(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{})
	h.Mu.Lock()
	h.Listed, _ = h.Listed.With(primitive.Listing{
		Upstream: "odd", Namespace: "odd",
		Prompts:           []json.RawMessage{json.RawMessage(`{"name":"talk","description":"Talks.\udb40\udc49\u200b","arguments":[{"name":"a","description":"\u202ex"}]}`)},
		Resources:         []json.RawMessage{json.RawMessage(`{"uri":"x://a","name":"a","title":"A\u200b","description":"Reads.\u202e"}`)},
		ResourceTemplates: []json.RawMessage{json.RawMessage(`{"uriTemplate":"x://{b}","name":"b","description":"Reads.\u00ad"}`)},
	})
	h.Mu.Unlock()
	for method, want := range map[string]string{"prompts/list": `"name":"talk"`, "resources/list": `"uri":"x://a"`, "resources/templates/list": `"uriTemplate":"x://{b}"`} {
		raw, err := h.Ask(t, method, `{}`)
		if err != nil || !strings.Contains(string(raw), want) {
			t.Fatalf("%s: %s, %v", method, raw, err)
		}
		var doc any
		if err := json.Unmarshal(raw, &doc); err != nil {
			t.Fatal(err)
		}
		eachText(doc, func(text string) {
			if kinds := visible.Find(text); kinds != 0 {
				t.Errorf("%s: %s in %+q", method, kinds, text)
			}
		})
	}
}

// TestHiddenCharactersHideNoSecret: a secret with characters in it that nobody sees
// is one still.
func TestHiddenCharactersHideNoSecret(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{Redactor: result.NewRedactor([]string{calltest.Secret})})
	split := calltest.Secret[:4] + "\u200b" + calltest.Secret[4:8] + "\u202e" + calltest.Secret[8:]
	h.Add("failing", calltest.Fail(&jsonrpc.Error{Code: -32000, Message: split}), calltest.ReadTool)
	h.Add("talking", calltest.Say(calltest.Text(strings.Repeat("fact: "+split+"\n", 200))), calltest.ReadTool)
	for _, server := range []string{"failing", "talking"} {
		s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, server, "read_file")+`","args":{"path":"a"}}`)
		doc := h.AsJSON(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, server, "read_file")+`","args":{"path":"a"}}`)
		if told := s.Content[0].Text + doc.Env.Summary; strings.Contains(told, calltest.Secret) || !strings.Contains(told, redact.Mark) {
			t.Errorf("%s tells %s", server, told)
		}
	}
}

// TestScreenOfResults: with a Screen, results, resources, and errors in results have no hidden text, and
// an answer that is withheld does not reach the agent. Without one they pass as they are.
func TestScreenOfResults(t *testing.T) {
	const said = "one\u200b\U000E0049 word"
	for screen, want := range map[result.Screen]string{result.ScreenOff: said, result.ScreenStrip: "one word", result.ScreenRefuse: ""} {
		h := metatooltest.New(t, metatool.Options{Screen: screen})
		h.Add("odd", calltest.Say(calltest.Text(said)), calltest.ReadTool)
		got := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "odd", "read_file")+`","args":{"path":"a"}}`)
		text := got.Content[0].Text
		if want != "" && text != want {
			t.Errorf("%v: %+q", screen, text)
		}
		if want == "" && (calltest.Failure(t, got).Error != "PERMISSION_DENIED" || visible.Find(text) != 0) {
			t.Errorf("%v: %+q", screen, text)
		}
		l, up := metatooltest.Library(t, metatool.Options{Screen: screen})
		up.Mu.Lock()
		up.Answers = map[string]string{"resources/read file:///docs/readme.md": `{"contents":[{"uri":"file:///docs/readme.md","text":"` + said + `"}]}`}
		up.Mu.Unlock()
		raw, err := l.Ask(t, "resources/read", `{"uri":"file:///docs/readme.md"}`)
		if want == "" != (err != nil) || err == nil && !strings.Contains(string(raw), want) {
			t.Errorf("%v: %s, %v", screen, raw, err)
		}
	}
}

// TestScreenOfViews: what weir decodes itself has no hidden text in any view, nor in what is told of it:
// JSON in a text, and base64.
func TestScreenOfViews(t *testing.T) {
	const tag = "\U000E0049\U000E0067"
	rows := `[` + strings.Repeat(`{"id":1,"say":"find\udb40\udc49\udb40\udc67me","odd\udb40\udc49":2},`, 200) + `{"id":2,"say":"find"}]`
	object := `{"resource_url":"https://a.test/\udb40\udc49","odd\udb40\udc49":{"say":"find\udb40\udc49me"},"more":"` + strings.Repeat("x ", 3000) + `"}`
	page := "# Top" + tag + "\n" + strings.Repeat("find"+tag+"me\n", 1000)
	csv := "id,odd" + tag + "\n" + strings.Repeat("1,find"+tag+"me\n", 1000)
	blob := func(mime, data string) string {
		block := map[string]any{"type": "resource", "resource": map[string]any{"uri": "x://a", "mimeType": mime, "blob": base64.StdEncoding.EncodeToString([]byte(data))}}
		raw, err := json.Marshal(map[string]any{"content": []any{block}})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	answers := map[string]string{
		"rows": calltest.Text(rows), "object": calltest.Text(object),
		"page": blob("text/markdown", page), "csv": blob("text/csv", csv), "json": blob("application/json", strings.ReplaceAll(rows, `\udb40\udc49`, tag[:4])),
	}
	for _, screen := range []result.Screen{result.ScreenOff, result.ScreenStrip, result.ScreenRefuse} {
		h := metatooltest.New(t, metatool.Options{Screen: screen})
		shown := 0
		for name, answer := range answers {
			h.Add(name, calltest.Say(answer), calltest.ReadTool)
			told := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, name, "read_file")+`","args":{"path":"a"}}`)
			env := h.AsJSON(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, name, "read_file")+`","args":{"path":"a"}}`).Env
			if len(env.Artifacts) != 1 {
				t.Fatalf("%s: %+v", name, env)
			}
			texts := []string{told.Content[0].Text, env.Summary, strings.Join(env.Facts, "\n")}
			for _, view := range env.Views {
				var selector any
				if err := json.Unmarshal(view, &selector); err != nil {
					t.Fatal(err)
				}
				eachText(selector, func(text string) { texts = append(texts, text) })
			}
			for i, text := range texts {
				if kinds := visible.Find(text); kinds != 0 {
					t.Errorf("%v %s: text %d of the description has %s: %+q", screen, name, i, kinds, text)
				}
			}
			for _, selector := range []string{
				`{"type":"search","pattern":"find"}`, `{"type":"search","pattern":"odd"}`, `{"type":"head","chars":500}`, `{"type":"lines","start":0,"end":9}`, `{"type":"tail","lines":5}`,
				`{"type":"headings"}`, `{"type":"section","heading":"none"}`, `{"type":"json_keys","keys":["say"]}`, `{"type":"rows","start":0,"end":3}`, `{"type":"json_path","path":"$[0].say"}`,
				`{"type":"json_path","path":"$.none"}`, `{"type":"table","group_by":["say"]}`, `{"type":"table","select":["none"]}`,
			} {
				got := h.Tool(t, metatool.ToolView, `{"handle":"`+env.Artifacts[0].Handle+`","selector":`+selector+`}`)
				for _, part := range got.Content {
					if kinds := visible.Find(part.Text); kinds != 0 && screen != result.ScreenOff {
						t.Errorf("%v %s %s: %s in %+q", screen, name, selector, kinds, part.Text)
					} else if kinds != 0 {
						shown++
					}
				}
			}
		}
		if (shown > 0) != (screen == result.ScreenOff) {
			t.Errorf("%v: %d views have hidden text", screen, shown)
		}
	}
}

// TestNamesOfResourcesAreSeen: a resource is asked for by its URI, so its name is a text that models
// read, in each mode and page.
func TestNamesOfResourcesAreSeen(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{})
	h.Mu.Lock()
	h.Listed, _ = h.Listed.With(primitive.Listing{
		Upstream: "odd", Namespace: "odd",
		Resources:         []json.RawMessage{json.RawMessage(`{"uri":"a:b","name":"n\udb40\udc49 one\u200b","title":"t\u202e"}`), json.RawMessage(`{"uri":"a:c","name":"n \u00e9"}`)},
		ResourceTemplates: []json.RawMessage{json.RawMessage(`{"uriTemplate":"a:{b}","name":"two\u2060"}`)},
	})
	h.Mu.Unlock()
	for method, want := range map[string]string{"resources/list": `"name":"n one"`, "resources/templates/list": `"name":"two"`} {
		out, err := h.Ask(t, method, `{}`)
		if err != nil || !strings.Contains(string(out), want) || strings.Contains(string(out), `\u202e`) {
			t.Errorf("%s: %s, %v", method, out, err)
		}
		if method == "resources/list" && !strings.Contains(string(out), `{"uri":"a:c","name":"n \u00e9"}`) {
			t.Errorf("a name without hidden text has changed: %s", out)
		}
	}
}
