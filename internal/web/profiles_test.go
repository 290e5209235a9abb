package web_test

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/observe"
)

// narrow has a profile for the group support, and one for every caller.
const narrow = `
profiles:
  support: {include: ["up:echo"], mode: plain, groups: [support], principals: ["cert:*"]}
  open: {include: ["up:*"], exclude: ["up:echo"], mode: plain}
`

// asks opens a session at a path and returns a function that sends requests in it.
func (p *protected) asks(path, token string) func(method, params string) (int, string) {
	p.t.Helper()
	resp, body := p.do("POST", path, token, initialize)
	if resp.StatusCode != 200 {
		p.t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
	}
	session := resp.Header.Get("Mcp-Session-Id")
	return func(method, params string) (int, string) {
		resp, body := p.do("POST", path, token, `{"jsonrpc":"2.0","id":2,"method":"`+method+`","params":`+params+`}`, "Mcp-Session-Id", session)
		return resp.StatusCode, body
	}
}

// TestProfileNarrows: a profile serves its part of the catalog in its own mode, in both eras, and the
// rest of the gateway is as before.
func TestProfileNarrows(t *testing.T) {
	p := startProtected(t, narrow)
	as := func(path string) string { return p.token("u1", path, "groups", []string{"support"}) }
	ask := p.asks("/mcp/support", as("/mcp/support"))
	_, tools := ask("tools/list", `{}`)
	if !strings.Contains(tools, `"up__echo"`) || strings.Contains(tools, "up__set_tools") {
		t.Errorf("support lists: %s", tools)
	}
	if _, body := ask("tools/call", `{"name":"up__echo","arguments":{"text":"hello"}}`); !strings.Contains(body, "hello") {
		t.Errorf("a tool of the profile: %s", body)
	}
	if _, body := ask("tools/call", `{"name":"up__set_tools","arguments":{"n":1}}`); !strings.Contains(body, "error") {
		t.Errorf("a tool outside the profile: %s", body)
	}
	_, modern := p.do("POST", "/mcp/support", as("/mcp/support"),
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list")
	if !strings.Contains(modern, `"up__echo"`) || strings.Contains(modern, "up__set_tools") {
		t.Errorf("support lists to a client of 2026-07-28: %s", modern)
	}
	if _, body := p.asks("/mcp/open", as(""))("tools/list", `{}`); strings.Contains(body, `"up__echo"`) || !strings.Contains(body, "up__set_tools") {
		t.Errorf("open lists: %s", body)
	}
	if _, body := p.asks("/mcp", as("/mcp"))("tools/list", `{}`); !strings.Contains(body, `"tool_browse"`) {
		t.Errorf("/mcp lists: %s", body)
	}
	if _, body := p.asks("/mcp/up/mcp", as("/mcp/up/mcp"))("tools/list", `{}`); !strings.Contains(body, `"set_tools"`) {
		t.Errorf("the server's own endpoint lists: %s", body)
	}
}

// TestForbiddenProfileIsUnknown: a profile that a caller may not open is answered as one that does
// not exist, with the same bytes.
func TestForbiddenProfileIsUnknown(t *testing.T) {
	p := startProtected(t, narrow)
	answer := func(method, path, token string) string {
		resp, body := p.do(method, path, token, initialize)
		resp.Header.Del("Date")
		return fmt.Sprint(resp.StatusCode, resp.Header, body)
	}
	for _, method := range []string{"POST", "GET", "DELETE", "PUT", "OPTIONS"} {
		forbidden, unknown := answer(method, "/mcp/support", p.token("u2", "")), answer(method, "/mcp/nothing", p.token("u2", ""))
		if forbidden != unknown || !strings.HasPrefix(forbidden, "404") {
			t.Errorf("%s: forbidden %s\nunknown %s", method, forbidden, unknown)
		}
	}
	// Without a token, and with one for another resource, both are refused in the same way.
	for _, token := range []string{"", p.token("u2", "/mcp")} {
		if a, b := answer("POST", "/mcp/support", token), answer("POST", "/mcp/nothing", token); strings.ReplaceAll(a, "support", "nothing") != b || !strings.HasPrefix(a, "401") {
			t.Errorf("%s\n%s", a, b)
		}
	}
	if got := answer("POST", "/mcp/support", p.token("u2", "", "groups", []string{"other"})); !strings.HasPrefix(got, "404") {
		t.Errorf("of another group: %s", got)
	}
}

// TestProfileSessions: a session of a profile is unknown at the other endpoints, and theirs at it.
func TestProfileSessions(t *testing.T) {
	p := startProtected(t, narrow)
	token := p.token("u1", "", "groups", []string{"support"})
	paths := []string{"/mcp", "/mcp/support", "/mcp/open"}
	const ping = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	for _, home := range paths {
		resp, _ := p.do("POST", home, token, initialize)
		session := resp.Header.Get("Mcp-Session-Id")
		for _, path := range paths {
			got, body := p.do("POST", path, token, ping, "Mcp-Session-Id", session)
			_, unknown := p.do("POST", path, token, ping, "Mcp-Session-Id", "no-such-session")
			if path == home && got.StatusCode != 200 || path != home && (got.StatusCode != 404 || body != unknown) {
				t.Errorf("a session of %s at %s: %d %s", home, path, got.StatusCode, body)
			}
		}
	}
}

// TestProfileResource: a profile is a protected resource of its own.
func TestProfileResource(t *testing.T) {
	p := startProtected(t, narrow)
	groups := []any{"groups", []string{"support"}}
	resp, _ := p.do("POST", "/mcp/support", "", initialize)
	where := p.base + "/.well-known/oauth-protected-resource/mcp/support"
	if got := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != 401 || !strings.Contains(got, `resource_metadata="`+where+`"`) {
		t.Errorf("%d, %q", resp.StatusCode, got)
	}
	_, body := p.do("GET", strings.TrimPrefix(where, p.base), "", "")
	var meta struct{ Resource string }
	if err := json.Unmarshal([]byte(body), &meta); err != nil || meta.Resource != p.base+"/mcp/support" {
		t.Errorf("%s, %v", body, err)
	}
	for path, want := range map[string]int{"/mcp/support": 200, "/mcp/open": 401, "/mcp": 401} {
		if resp, _ := p.do("POST", path, p.token("u1", "/mcp/support", groups...), initialize); resp.StatusCode != want {
			t.Errorf("a token for /mcp/support at %s: %d", path, resp.StatusCode)
		}
	}
}

// TestRulesNameProfiles: a rule, and the variable of an expression, hold at their profile alone.
func TestRulesNameProfiles(t *testing.T) {
	for _, allow := range []string{`{action: allow, namespace: up, profile: support}`, `{action: allow, when: 'profile == "support"'}`} {
		p := startProtected(t, strings.ReplaceAll(narrow, ", mode: plain", ", mode: gateway"), `policy: {default: deny, rules: [`+allow+`]}`)
		token := p.token("u1", "", "groups", []string{"support"})
		_, found := p.asks("/mcp", token)("tools/call", `{"name":"tool_browse","arguments":{"query":"echo"}}`)
		id := regexp.MustCompile(`up:echo#[0-9a-f]+`).FindString(found)
		for path, want := range map[string]bool{"/mcp/support": true, "/mcp/open": false, "/mcp": false} {
			ask := p.asks(path, token)
			_, body := ask("tools/call", `{"name":"tool_execute","arguments":{"tool_id":"`+id+`","args":{"text":"hello"}}}`)
			if passed := strings.Contains(body, "hello"); passed != want {
				t.Errorf("%s at %s: %s", allow, path, body)
			}
		}
		if _, body := p.asks("/mcps/up/mcp", token)("tools/call", `{"name":"echo","arguments":{"text":"hello"}}`); strings.Contains(body, "hello") {
			t.Errorf("%s at the server's endpoint: %s", allow, body)
		}
	}
}

// TestReloadOfProfiles: a reload adds and removes profiles; sessions of a removed one end, those of
// others go on.
func TestReloadOfProfiles(t *testing.T) {
	p := startProtected(t, narrow)
	token := p.token("u1", "", "groups", []string{"support"})
	support, open := p.asks("/mcp/support", token), p.asks("/mcp/open", token)
	p.reload(strings.Replace(p.text, "support:", "added:", 1))
	if status, body := support("ping", `{}`); status != 404 {
		t.Errorf("the removed profile: %d %s", status, body)
	}
	if status, body := open("ping", `{}`); status != 200 {
		t.Errorf("the profile that stays: %d %s", status, body)
	}
	if resp, body := p.do("POST", "/mcp/added", token, initialize); resp.StatusCode != 200 {
		t.Errorf("the added profile: %d %s", resp.StatusCode, body)
	}
	p.reload(strings.Replace(p.text, `groups: [support]`, `groups: [nobody]`, 1))
	if resp, _ := p.do("POST", "/mcp/support", token, initialize); resp.StatusCode != 404 {
		t.Errorf("a profile of other groups: %d", resp.StatusCode)
	}
}

// reload applies another configuration.
func (p *protected) reload(text string) {
	p.t.Helper()
	next, _, err := config.Parse("weir.yaml", []byte(text), config.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	p.gateway.Reload(next, p.server, observe.NewLog(io.Discard, next))
}

// TestCatalogNamesProfiles: /catalog names the profiles that the caller may open.
func TestCatalogNamesProfiles(t *testing.T) {
	p := startProtected(t, narrow)
	p.asks("/mcp", p.token("u1", ""))("tools/call", `{"name":"tool_browse","arguments":{"path":"/"}}`) // waits for the catalog
	for groups, want := range map[string]string{"support": "support=1 open=", "dev": "open=", "sre": "support=1 open="} {
		_, body := p.do("GET", "/catalog", p.token("u1", "", "groups", []string{groups}), "")
		var info gateway.CatalogInfo
		if err := json.Unmarshal([]byte(body), &info); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, one := range info.Profiles {
			if one.Path != "/mcp/"+one.Name || one.Mode != "plain" {
				t.Errorf("%+v", one)
			}
			if got += one.Name + "="; one.Name == "support" {
				got += fmt.Sprint(one.Tools) + " "
			} else if one.Tools != info.Tools-1 {
				t.Errorf("%s: %+v of %d tools", groups, one, info.Tools)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", groups, got, want)
		}
	}
}

// TestBodiesOfProfiles: a ddi:// handle stays at the endpoint of its call, also without sessions
// (2026-07-28).
func TestBodiesOfProfiles(t *testing.T) {
	p := startProtected(t, "\nprofiles:\n  all: {include: [\"up:*\"]}\n")
	token := p.token("u1", "")
	id := "up:echo" // then the whole one
	execute := func(path, rest string) string {
		t.Helper()
		resp, body := p.do("POST", path, token,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool_execute","arguments":{"tool_id":"`+id+`",`+rest+`},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
			"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "tool_execute")
		if resp.StatusCode != 200 {
			t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
		}
		return body
	}
	id = regexp.MustCompile(`up:echo#\w+`).FindString(execute("/mcp", `"args":{}`))
	for _, own := range []string{"/mcp", "/mcp/all"} {
		other := map[string]string{"/mcp": "/mcp/all", "/mcp/all": "/mcp"}[own]
		rows := execute(own, `"args":{"text":"[{\"event\":\"Wind\",\"note\":\"a body\"}]"},"abstract_domains":"event","mode":"sync"`)
		handle := regexp.MustCompile(`ddi://[\w-]+`).FindString(rows)
		if handle == "" || strings.Contains(rows, "a body") {
			t.Fatalf("%s: %s", own, rows)
		}
		use := `"args":{"text":"x","resource_url":"` + handle + `"}`
		if got := execute(other, use); !strings.Contains(got, "works once, in the session") {
			t.Errorf("a handle of %s at %s: %s", own, other, got)
		}
		if got := execute(own, use); strings.Contains(got, "works once") {
			t.Errorf("a handle of %s there: %s", own, got)
		}
	}
}
