package web_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// personal is an MCP server that lists by the token of a request: to each user what bears its name.
type personal struct {
	url string

	mu sync.Mutex // guards below
	of map[string]*sdk.Server
}

func newPersonal(t *testing.T) *personal {
	p := &personal{of: map[string]*sdk.Server{}}
	handler := sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server { return p.server(userOf(r)) }, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if userOf(r) == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	p.url = server.URL
	return p
}

// userOf returns the subject of the token of a request.
func userOf(r *http.Request) string {
	parts := strings.Split(r.Header.Get("Authorization"), ".")
	if len(parts) != 3 {
		return ""
	}
	claims, _ := base64.RawURLEncoding.DecodeString(parts[1])
	return rawjson.Text(rawjson.Get(claims, "sub"))
}

// server returns the server of a user.
func (p *personal) server(user string) *sdk.Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of[user] == nil {
		s := sdk.NewServer(&sdk.Implementation{Name: "personal", Version: "1"}, nil)
		p.of[user] = s
		for _, name := range []string{"common", "diary_of_" + user} {
			addTool(s, name, user)
		}
		read := func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "diary://" + user, Text: "of " + user}}}, nil
		}
		s.AddResource(&sdk.Resource{URI: "diary://" + user, Name: "diary_" + user}, read)
		s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "diary://" + user + "/{day}", Name: "days_" + user}, read)
		s.AddPrompt(&sdk.Prompt{Name: "ask_" + user, Description: "Ask " + user}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "of " + user}}}}, nil
		})
	}
	return p.of[user]
}

func addTool(s *sdk.Server, name, user string) {
	s.AddTool(&sdk.Tool{Name: name, Description: "Reads what " + user + " writes.", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "read by " + user}}}, nil
	})
}

// caller is a session of a user at a path of the gateway.
type caller struct {
	p       *protected
	user    string
	path    string
	session []string
	heard   strings.Builder // each byte of all answers
}

func (p *protected) caller(user, path string) *caller {
	c := &caller{p: p, user: user, path: path}
	resp, _ := p.do("POST", path, c.token(), initialize)
	if resp.StatusCode != http.StatusOK {
		p.t.Fatalf("%s at %s: %d", user, path, resp.StatusCode)
	}
	c.session = []string{"Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25"}
	c.p.do("POST", path, c.token(), `{"jsonrpc":"2.0","method":"notifications/initialized"}`, c.session...)
	return c
}

func (c *caller) token() string {
	return c.p.token(c.user, "", "aud", []string{c.p.base, "api://personal"}, "client_id", "c")
}

func (c *caller) ask(method, params string) string {
	c.p.t.Helper()
	_, body := c.p.do("POST", c.path, c.token(), fmt.Sprintf(`{"jsonrpc":"2.0","id":9,"method":%q,"params":%s}`, method, params), c.session...)
	c.heard.WriteString(body + "\n")
	return body
}

// everything asks for all lists, searches, and reads what is the user's.
func (c *caller) everything() {
	for _, method := range []string{"tools/list", "resources/list", "resources/templates/list", "prompts/list"} {
		c.ask(method, `{}`)
	}
	for _, verb := range []string{"tool_browse", "resource_browse", "prompt_browse"} {
		c.ask("tools/call", `{"name":"`+verb+`","arguments":{"path":"/"}}`)
		c.ask("tools/call", `{"name":"`+verb+`","arguments":{"path":"/personal"}}`)
		c.ask("tools/call", `{"name":"`+verb+`","arguments":{"query":"reads what is written in a diary","top_k":20}}`)
	}
	c.ask("resources/read", `{"uri":"diary://`+c.user+`"}`)
	c.ask("prompts/get", `{"name":"ask_`+c.user+`"}`)
}

// TestListsOfSingleCallers: at each path and in each mode, a caller gets what the server lists for its
// own token, and no byte of what it lists for another.
func TestListsOfSingleCallers(t *testing.T) {
	server := newPersonal(t)
	p := startServing(t, fmt.Sprintf(`personal: {url: %q, credentials: forward, lists: caller, oauth: {audience: "api://personal"}}, `, server.url))
	users := []string{"alice", "bobby"}
	for _, path := range []string{"/mcp", "/mcp?mode=plain", "/mcp?mode=proxy", "/mcp?mode=auto", "/mcps/personal/mcp"} {
		callers := map[string]*caller{}
		for _, user := range users {
			callers[user] = p.caller(user, path)
		}
		for _, user := range users {
			callers[user].everything()
		}
		for i, user := range users {
			heard := callers[user].heard.String()
			if strings.Contains(heard, users[1-i]) {
				t.Errorf("%s: %s hears of %s:\n%s", path, user, users[1-i], heard)
			}
			for _, want := range []string{"diary://" + user, "ask_" + user, "days_" + user, "diary_of_" + user, "of " + user} {
				if !strings.Contains(heard, want) {
					t.Errorf("%s: %s does not hear of %s:\n%s", path, user, want, heard)
				}
			}
		}
	}
	// What another user has is what does not exist.
	alice, bobby := p.caller("alice", "/mcp"), p.caller("bobby", "/mcp")
	id := toolID(t, alice, "diary_of_alice")
	if got := alice.ask("tools/call", `{"name":"tool_execute","arguments":{"tool_id":"`+id+`","args":{}}}`); !strings.Contains(got, "read by alice") {
		t.Errorf("alice calls her tool: %s", got)
	}
	for _, call := range []string{`{"name":"tool_execute","arguments":{"tool_id":%q,"args":{}}}`, `{"name":"tool_hydrate","arguments":{"tool_id":%q}}`, `{"name":%q,"arguments":{}}`} {
		unknown := strings.Replace(id, "diary_of_alice", "diary_of_zzzzz", 1)
		got, want := bobby.ask("tools/call", fmt.Sprintf(call, id)), bobby.ask("tools/call", fmt.Sprintf(call, unknown))
		if got != strings.ReplaceAll(want, unknown, id) {
			t.Errorf("%s\n%s\nand an unknown id:\n%s", call, got, want)
		}
	}
	for user, page := range map[string]string{"alice": "/catalog", "bobby": "/status/data"} {
		_, body := p.do("GET", page, p.token(user, "", "aud", []string{p.base, "api://personal"}, "client_id", "c"), "")
		if strings.Contains(body, "diary_of_"+users[0]) || strings.Contains(body, "diary_of_"+users[1]) && page == "/catalog" {
			t.Errorf("%s: %s", page, body)
		}
	}
}

// toolID returns the id under which a caller finds a tool.
func toolID(t *testing.T, c *caller, tool string) string {
	t.Helper()
	found := c.ask("tools/call", `{"name":"tool_browse","arguments":{"query":"`+tool+`"}}`)
	at := strings.Index(found, "personal:"+tool+"#")
	if at < 0 {
		t.Fatalf("%s does not find %s: %s", c.user, tool, found)
	}
	return found[at : at+len("personal:"+tool+"#")+8]
}

// TestListChangeOfOneCaller: what changes for one caller comes to that caller's clients, and wakes no
// other.
func TestListChangeOfOneCaller(t *testing.T) {
	server := newPersonal(t)
	p := startServing(t, fmt.Sprintf(`personal: {url: %q, credentials: forward, lists: caller, oauth: {audience: "api://personal"}}, `, server.url))
	heard := map[string]chan string{}
	for _, user := range []string{"alice", "bobby"} {
		c := p.caller(user, "/mcp?mode=plain")
		if list := c.ask("tools/list", `{}`); !strings.Contains(list, "personal__diary_of_"+user) {
			t.Fatalf("%s lists %s", user, list)
		}
		heard[user] = c.listen(t)
	}
	addTool(server.server("alice"), "another", "alice")
	select {
	case got := <-heard["alice"]:
		if !strings.Contains(got, "tools/list_changed") {
			t.Errorf("alice hears %s", got)
		}
	case <-time.After(20 * time.Second):
		t.Error("alice does not hear of the new tool")
	}
	// A change of what all callers share would come now, behind anything that was under way.
	select {
	case got := <-heard["bobby"]:
		t.Errorf("bobby hears %s", got)
	default:
	}
	c := p.caller("alice", "/mcp?mode=plain")
	if list := c.ask("tools/list", `{}`); !strings.Contains(list, "personal__another") {
		t.Errorf("alice lists %s", list)
	}
}

// listen opens the event stream of the session and returns what comes on it.
func (c *caller) listen(t *testing.T) chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.p.base+c.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Authorization", "Bearer "+c.token())
	for i := 0; i < len(c.session); i += 2 {
		r.Header.Set(c.session[i], c.session[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	events, done := make(chan string, 16), make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		for {
			n, err := resp.Body.Read(buf)
			if text := string(buf[:n]); strings.Contains(text, "method") {
				events <- text
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); _ = resp.Body.Close(); <-done })
	return events
}
