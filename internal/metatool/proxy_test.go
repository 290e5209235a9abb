package metatool

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/text/token"
)

func (h *harness) names(t *testing.T) []string {
	t.Helper()
	out, err := h.Ask(t, "tools/list", "")
	if err != nil {
		t.Fatal(err)
	}
	var l struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(out, &l); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range l.Tools {
		names = append(names, tool.Name)
	}
	return names
}

func TestProxyListsEverythingStripped(t *testing.T) {
	h := newHarness(t, Options{Mode: ModeProxy})
	h.Add("long", calltest.Echo, `{"name":"t","description":"`+strings.Repeat("A sentence of some length that says little. ", 40)+`","inputSchema":{"type":"object","properties":{"x":{}}},"outputSchema":{"type":"object"}}`)
	out, err := h.Ask(t, "tools/list", "{}")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`{"name":%q,"description":"Delete a file.","inputSchema":{"type":"object"}},{"name":%q,"description":"Read a file from disk.","inputSchema":{"type":"object"}},`,
		h.ID(t, "files", "drop"), h.ID(t, "files", "read_file"))
	if !strings.Contains(string(out), want) {
		t.Errorf("%s\nlacks\n%s", out, want)
	}
	if got := h.names(t); len(got) != 6 || got[0] != ToolExecute || got[1] != ToolHydrate {
		t.Errorf("names %q", got)
	}
	var l struct {
		Tools []struct{ Name, Description string }
	}
	if err := json.Unmarshal(out, &l); err != nil {
		t.Fatal(err)
	}
	for _, tool := range l.Tools[2:] {
		if n := token.Count(tool.Description); n > 60 {
			t.Errorf("%s has a description of %d tokens", tool.Name, n)
		}
	}
}

func TestProxyNames(t *testing.T) {
	for form, pattern := range map[NameForm]string{
		NameCanonical:  `^[a-z0-9_-]+:[A-Za-z0-9_.-]+#[0-9a-f]{8}$`,
		NameURLEncoded: `^[a-z0-9_-]+%3A[A-Za-z0-9_.-]+%23[0-9a-f]{8}$`,
		NameAlias:      `^[A-Za-z0-9_-]{1,64}$`,
		NamePlain:      `^[A-Za-z0-9_-]{1,64}$`,
	} {
		h := newHarness(t, Options{Mode: ModeProxy, Names: form})
		h.Add("long", calltest.Echo, `{"name":"`+strings.Repeat("n", 100)+`.1","description":"d"}`, `{"name":"`+strings.Repeat("n", 100)+`.2","description":"d"}`)
		names := h.names(t)[2:]
		seen := map[string]bool{}
		for _, name := range names {
			if !regexp.MustCompile(pattern).MatchString(name) || seen[name] {
				t.Errorf("form %d lists %q", form, name)
			}
			seen[name] = true
			// What is listed is also what can be executed and hydrated.
			if s := h.Tool(t, ToolExecute, fmt.Sprintf(`{"tool_id":%q,"args":{"path":"a"}}`, name)); s.IsError {
				t.Errorf("%s: %+v", name, s)
			}
			if s := h.Tool(t, ToolHydrate, fmt.Sprintf(`{"tool_id":%q}`, name)); s.IsError || !strings.Contains(s.Content[0].Text, "inputSchema") {
				t.Errorf("%s: %+v", name, s)
			}
			// It can be called directly, by the same checks.
			if out, err := h.Ask(t, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"path":"a"}}`, name)); err != nil || !strings.Contains(string(out), `\"path\":\"a\"`) {
				t.Errorf("%s called directly: %s, %v", name, out, err)
			}
		}
		if again := h.names(t); strings.Join(again[2:], " ") != strings.Join(names, " ") {
			t.Errorf("the list is not stable")
		}
	}
}

func TestProxyReturnsRaw(t *testing.T) {
	big := `{"content":[{"type":"text","text":"` + strings.Repeat("x", 5000) + `"}],"structuredContent":{"a":1},"_meta":{"m":1}}`
	h := newHarness(t, Options{Mode: ModeProxy})
	h.Add("x", calltest.Say(big), `{"name":"t","description":"d"}`)
	out, err := h.Ask(t, "tools/call", `{"name":"tool_execute","arguments":{"tool_id":"`+h.ID(t, "x", "t")+`","args":{}}}`)
	if err != nil || string(out) != big {
		t.Errorf("%.200s, %v", out, err)
	}
	// A program that asks for JSON gets the whole text, too: what was held back
	// could not be viewed here.
	out, err = h.Ask(t, "tools/call", `{"name":"tool_execute","arguments":{"tool_id":"`+h.ID(t, "x", "t")+`","args":{}},"_meta":{"weir/format":"json"}}`)
	if err != nil || !strings.Contains(string(out), `"structuredContent":{"status":"ok","summary":"`+strings.Repeat("x", 5000)+`"`) {
		t.Errorf("as JSON: %.200s, %v", out, err)
	}
	if out, err = h.Ask(t, "tools/list", "{}"); err != nil || strings.Contains(string(out), ToolView) {
		t.Errorf("%s sends agents to a tool that is not there, %v", out, err)
	}
	if e := calltest.Failure(t, h.Tool(t, ToolExecute, `{"tool_id":"`+h.ID(t, "files", "read_file")+`","args":{}}`)); e.Error != "ARGS_INVALID" {
		t.Errorf("%+v", e)
	}
	if _, err := h.Ask(t, "tools/call", `{"name":"tool_browse","arguments":{"path":"/"}}`); err == nil {
		t.Error("proxy mode has tool_browse")
	}
}

func TestProxyWithFirewall(t *testing.T) {
	h := newHarness(t, Options{Mode: ModeProxy, ProxyFirewall: true})
	h.Add("x", calltest.Say(calltest.Text(strings.Repeat("x", 5000))), `{"name":"t","description":"d"}`)
	if got := strings.Join(h.names(t)[:3], " "); got != "tool_execute tool_view tool_hydrate" {
		t.Errorf("names %s", got)
	}
	s := h.Tool(t, ToolExecute, `{"tool_id":"`+h.ID(t, "x", "t")+`","args":{}}`)
	if !s.Env.Stats.Triggered {
		t.Fatalf("%+v", s)
	}
	v := h.Tool(t, ToolView, `{"handle":"`+s.Env.Artifacts[0].Handle+`","selector":{"chars":3}}`)
	if v.IsError || v.Content[0].Text != "xxx" {
		t.Errorf("%+v", v)
	}
}

func TestProxyListFollowsTheCatalog(t *testing.T) {
	h := newHarness(t, Options{Mode: ModeProxy, Names: NameAlias})
	before := len(h.names(t))
	h.Add("new", calltest.Echo, `{"name":"t","description":"d"}`)
	if after := len(h.names(t)); after != before+1 {
		t.Errorf("%d names, then %d", before, after)
	}
}
