package definitions

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/policy"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text/visible"
	"github.com/weir-mcp/weir/mcp"
)

// offering is a server that answers each method with a text.
type offering struct {
	passthrough.Upstream
	answers map[string]string
	hello   mcp.Hello
}

func (o offering) Call(_ context.Context, method string, _ json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
	return json.RawMessage(o.answers[method]), nil
}

func (o offering) Ready(context.Context) (mcp.Hello, error)       { return o.hello, nil }
func (o offering) Hello(context.Context, bool) (mcp.Hello, error) { return o.hello, nil }
func (o offering) Target() (passthrough.Target, bool)             { return passthrough.Target{}, true }

// hidden are ways to hide text, as JSON writes them or as characters.
var hidden = map[string]string{
	"tags":                   "\U000E0049\U000E0067\U000E006E\U000E006F\U000E0072\U000E0065",
	"tags as escapes":        `\udb40\udc49\udb40\udc67`,
	"an override":            "\u202eterces\u202c",
	"an isolate":             `\u2066x\u2069`,
	"zero-width spaces":      "a\u200bb",
	"a joiner in a word":     `re\u200dad`,
	"a byte order mark":      "a\ufeffb",
	"an escape sequence":     `\u001b[8mhidden\u001b[0m`,
	"a control of C1":        `\u009b8m`,
	"backspaces":             `rm\b\b`,
	"variation selectors":    "a\ufe01\ufe02",
	"a soft hyphen, fillers": "a\u00adb\u3164",
}

// places are where definitions have text that models read.
var places = []struct{ method, key, definition string }{
	{"tools/list", "tools", `{"name":"a","description":"Reads. HERE","inputSchema":{"type":"object"}}`},
	{"tools/list", "tools", `{"name":"a","title":"A HERE","annotations":{"title":"A HERE"},"inputSchema":{"type":"object"}}`},
	{"tools/list", "tools", `{"name":"a","inputSchema":{"type":"object","properties":{"p":{"type":"object","properties":{"q":{"description":"HERE"}}}}}}`},
	{"prompts/list", "prompts", `{"name":"a","description":"HERE","arguments":[{"name":"x","description":"HERE"}]}`},
	{"resources/list", "resources", `{"uri":"note:1","name":"n","title":"HERE","description":"HERE"}`},
	{"resources/templates/list", "resourceTemplates", `{"uriTemplate":"note:{n}","name":"n","description":"HERE"}`},
}

// TestScreenedDefinitions: no way to hide text in a definition, at any of its places, reaches clients
// of /mcps/NAME/mcp.
func TestScreenedDefinitions(t *testing.T) {
	cases := 0
	for name, text := range hidden {
		for _, place := range places {
			cases++
			answer := `{"` + place.key + `":[` + strings.ReplaceAll(place.definition, "HERE", text) + `],"nextCursor":"1"}`
			if findIn(t, answer) == 0 {
				t.Errorf("%s: nothing is hidden in %s", name, answer)
			}
			u := screenedUpstream{Upstream: offering{answers: map[string]string{place.method: answer}}}
			got, err := u.Call(t.Context(), place.method, nil, nil)
			if err != nil || rawjson.Valid(got) != nil || rawjson.Text(rawjson.Get(got, "nextCursor")) != "1" {
				t.Errorf("%s: %s, %v", name, got, err)
			}
			if kinds := findIn(t, string(got)); kinds != 0 {
				t.Errorf("%s in %s: %s is left in %+q", name, place.method, kinds, got)
			}
		}
		hello := mcp.Hello{Instructions: plain(t, text), ServerInfo: json.RawMessage(`{"name":"s","title":"` + text + `","description":"` + text + `"}`)}
		u := screenedUpstream{Upstream: offering{hello: hello}}
		for _, greet := range []func() (mcp.Hello, error){
			func() (mcp.Hello, error) { return u.Ready(t.Context()) },
			func() (mcp.Hello, error) { return u.Hello(t.Context(), true) },
		} {
			if got, err := greet(); err != nil || visible.Find(got.Instructions) != 0 || findIn(t, string(got.ServerInfo)) != 0 {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
	}
	if cases < 60 {
		t.Errorf("%d cases", cases)
	}
}

// plain returns the text that a JSON string without its quotes stands for.
func plain(t *testing.T, text string) (s string) {
	t.Helper()
	if err := json.Unmarshal([]byte(`"`+text+`"`), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// findIn returns the kinds of invisible text in the strings of a JSON text.
func findIn(t *testing.T, raw string) (kinds visible.Kinds) {
	t.Helper()
	var doc any
	if err := json.Unmarshal([]byte(raw), &doc); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			kinds |= visible.Find(v)
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for key, e := range v {
				kinds |= visible.Find(key)
				walk(e)
			}
		}
	}
	walk(doc)
	return kinds
}

// TestScreenKeepsBytes: what people can see passes as the server wrote it, and so do
// results without a Screen.
func TestScreenKeepsBytes(t *testing.T) {
	for method, answer := range map[string]string{
		"tools/list":     "{ \"tools\" : [ {\"name\":\"a\",\"description\":\"\U0001F469\u200d\U0001F467 \u0645\u06cc\u200c\u062e \U0001F3F4\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F\",\"inputSchema\":{\"pattern\":\"\\u200b\"}} ] , \"x\" : 1 }",
		"prompts/list":   `{"prompts":[]}`,
		"resources/list": `{}`,
		"tools/call":     `{"content":[{"type":"text","text":"data\u202e"}]}`,
	} {
		got, err := screenedUpstream{Upstream: offering{answers: map[string]string{method: answer}}}.Call(t.Context(), method, nil, nil)
		if err != nil || string(got) != answer {
			t.Errorf("%s: %s, %v", method, got, err)
		}
	}
	twice := offering{answers: map[string]string{"tools/list": `{"tools":[],"tools":[{"name":"a","description":"x\u202e"}]}`}}
	if got, err := (screenedUpstream{Upstream: twice}).Call(t.Context(), "tools/list", nil, nil); err == nil {
		t.Errorf("a list that readers take in different ways: %s", got)
	}
}

// TestScreenOfAnswers: with a guard, results, errors, questions and notifications at /mcps/NAME/mcp pass
// the Screen.
func TestScreenOfAnswers(t *testing.T) {
	const hidden = `{"content":[{"type":"text","text":"data\u202e\udb40\udc41"}]}`
	up := offering{answers: map[string]string{"tools/call": hidden, "prompts/get": `{"messages":[]}`}}
	if got, err := (screenedUpstream{up, result.ScreenStrip}).Call(t.Context(), "tools/call", nil, nil); err != nil || string(got) != `{"content":[{"type":"text","text":"data"}]}` {
		t.Errorf("strip: %s, %v", got, err)
	}
	_, err := (screenedUpstream{up, result.ScreenRefuse}).Call(t.Context(), "tools/call", nil, nil)
	if kind, _ := mcp.KindOf(err); kind != mcp.KindPermissionDenied {
		t.Errorf("refuse: %v", err)
	}
	if got, err := (screenedUpstream{up, result.ScreenRefuse}).Call(t.Context(), "prompts/get", nil, nil); err != nil || string(got) != `{"messages":[]}` {
		t.Errorf("refuse: %s, %v", got, err)
	}
	for guard, want := range map[config.UnicodeGuard]result.Screen{"": result.ScreenOff, config.UnicodeFlag: result.ScreenOff, config.UnicodeStrip: result.ScreenStrip, config.UnicodeRefuse: result.ScreenRefuse} {
		if got := ScreenOf(&config.Config{Guards: config.Guards{Unicode: guard}}); got != want {
			t.Errorf("%q: %v", guard, got)
		}
	}
}

// TestGuardOfUnicode: each value of guards.unicode applies to servers that are found from then on, and
// flag leaves the forwarding of bytes.
func TestGuardOfUnicode(t *testing.T) {
	var now atomic.Pointer[config.Config]
	find := WrapFind(now.Load, func(name string) (passthrough.Upstream, bool) { return offering{}, name == "files" })
	for _, guard := range []config.UnicodeGuard{"", config.UnicodeStrip, config.UnicodeFlag, config.UnicodeRefuse} {
		now.Store(&config.Config{Guards: config.Guards{Unicode: guard}})
		up, ok := find("files")
		if !ok {
			t.Fatal("the server is gone")
		}
		if _, bytes := up.Target(); bytes != (guard == "" || guard == config.UnicodeFlag) {
			t.Errorf("%q: forwards bytes: %v", guard, bytes)
		}
		if _, ok := find("nothing"); ok {
			t.Error("a server that is not there")
		}
		if pin := policy.Pin(now.Load()); pin.Seen != (guard == config.UnicodeRefuse) {
			t.Errorf("%q: %+v", guard, pin)
		}
	}
}
