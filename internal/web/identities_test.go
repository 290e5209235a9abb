package web_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// echoIn is the call of up's echo with its own name.
const echoIn = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`

// onlySRE lets the group sre call up.
const onlySRE = `policy: {rules: [{action: allow, namespace: up, groups: [sre]}, {action: deny, namespace: up, reason: not for you}]}`

// TestEachRequestHasItsIdentity: in one session of one principal, rules look at the groups of the
// token that each request shows, on every way to the gateway.
func TestEachRequestHasItsIdentity(t *testing.T) {
	p := startProtected(t, onlySRE)
	as := func(user, group string) string { return p.token(user, "", "groups", []string{group}) }
	resp, _ := p.do("POST", "/mcp", as("u1", "dev"), initialize)
	session := resp.Header.Get("Mcp-Session-Id")
	_, found := p.do("POST", "/mcp", as("u1", "dev"), `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"tool_browse","arguments":{"query":"echo"}}}`, "Mcp-Session-Id", session)
	id := regexp.MustCompile(`up:echo#[0-9a-f]+`).FindString(found)
	execute := `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"tool_execute","arguments":{"tool_id":"` + id + `","args":{"text":"hello"}}}}`
	resp, _ = p.do("POST", "/mcps/up/mcp", as("u1", "dev"), initialize)
	direct := resp.Header.Get("Mcp-Session-Id")

	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	attached := attachTo(t, conn, as("u1", "sre"))
	attached.ask("initialize", hello)
	events := openSSE(t, p, as("u1", "dev"))

	ways := map[string]func(group string) string{
		"/mcp": func(group string) string {
			_, body := p.do("POST", "/mcp", as("u1", group), fmt.Sprintf(execute, 3), "Mcp-Session-Id", session)
			return body
		},
		"/mcps/up/mcp": func(group string) string {
			_, body := p.do("POST", "/mcps/up/mcp", as("u1", group), fmt.Sprintf(echoIn, 3), "Mcp-Session-Id", direct)
			return body
		},
		"/sse": func(group string) string { return events.ask(as("u1", group), execute) },
	}
	for name, call := range ways {
		for _, group := range []string{"dev", "sre", "dev", "sre"} {
			body := call(group)
			if passed := strings.Contains(body, "hello"); passed != (group == "sre") || !passed && !strings.Contains(body, "not for you") {
				t.Errorf("%s as %s: %s", name, group, body)
			}
		}
	}
	if got := attached.ask("tools/call", `{"name":"tool_execute","arguments":{"tool_id":"`+id+`","args":{"text":"hello"}}}`); !strings.Contains(got, "hello") {
		t.Errorf("attached as sre: %s", got)
	}
	// The stream and the sessions are of u1, also where another user has the same group.
	if resp, body := p.do("POST", events.path, as("u2", "sre"), fmt.Sprintf(execute, 9)); resp.StatusCode < 400 || strings.Contains(body, "hello") {
		t.Errorf("another user's message: %d %s", resp.StatusCode, body)
	}
	if resp, _ := p.do("POST", "/mcps/up/mcp", as("u2", "sre"), fmt.Sprintf(echoIn, 3), "Mcp-Session-Id", direct); resp.StatusCode != 404 {
		t.Errorf("another user's session at the server's own path: %d", resp.StatusCode)
	}
}

// eventStream is an open stream of /sse.
type eventStream struct {
	p    *protected
	in   *bufio.Reader
	path string // for messages
	n    int
}

func openSSE(t *testing.T, p *protected, token string) *eventStream {
	t.Helper()
	s := &eventStream{p: p, in: openStream(t, p, "/sse", token), n: 100}
	s.path = s.next()
	s.ask(token, strings.Replace(initialize, `"id":1`, `"id":%d`, 1))
	return s
}

// openStream opens an event stream and leaves it open until the test ends.
func openStream(t *testing.T, p *protected, path, token string, header ...string) *bufio.Reader {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", p.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: %v, %v", path, resp, err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return bufio.NewReader(resp.Body)
}

// next returns the data of the next event that has some.
func (s *eventStream) next() string { return nextEvent(s.p.t, s.in) }

func nextEvent(t testing.TB, in *bufio.Reader) string {
	t.Helper()
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := strings.CutPrefix(line, "data:"); ok && strings.TrimSpace(data) != "" {
			return strings.TrimSpace(data)
		}
	}
}

// ask posts a message and returns the event that answers it.
func (s *eventStream) ask(token, format string) string {
	s.p.t.Helper()
	s.n++
	if resp, body := s.p.do("POST", s.path, token, fmt.Sprintf(format, s.n)); resp.StatusCode >= 300 {
		s.p.t.Fatalf("%s: %d %s", s.path, resp.StatusCode, body)
	}
	for {
		if data := s.next(); strings.Contains(data, fmt.Sprintf(`"id":%d`, s.n)) {
			return data
		}
	}
}

// TestStreamSurvivesARefreshedToken: a stream that was opened with one token brings what requests
// with the next one cause; another user cannot resume it.
func TestStreamSurvivesARefreshedToken(t *testing.T) {
	p := startProtected(t)
	fresh := func() string { return p.token("u1", "/mcp") }
	resp, _ := p.do("POST", "/mcp", fresh(), initialize, "Weir-Mode", "plain")
	session := []string{"Weir-Mode", "plain", "Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id")}
	p.do("POST", "/mcp", fresh(), `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...)
	p.do("POST", "/mcp", fresh(), `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, session...)
	stream := openStream(t, p, "/mcp", fresh(), session...)
	events := make(chan string)
	go func() {
		defer close(events)
		for {
			line, err := stream.ReadString('\n')
			if err != nil {
				return
			}
			if strings.Contains(line, "list_changed") {
				select {
				case events <- line:
				case <-t.Context().Done():
					return
				}
			}
		}
	}()
	heard := false
	for n, deadline := 1, time.Now().Add(30*time.Second); !heard; n++ {
		if time.Now().After(deadline) {
			t.Fatal("nothing came on the stream of the first token")
		}
		// The stream between weir and the server may still be on its way: announce until it is heard.
		_, body := p.do("POST", "/mcp", fresh(), fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"up__set_tools","arguments":{"n":%d}}}`, n), session...)
		if !strings.Contains(body, "result") || strings.Contains(body, `"isError":true`) {
			t.Fatal(body)
		}
		select {
		case <-events:
			heard = true
		case <-time.After(2 * time.Second):
		}
	}
	if resp, body := p.do("GET", "/mcp", p.token("u2", "/mcp"), "", append(session, "Last-Event-ID", "1")...); resp.StatusCode != 404 {
		t.Errorf("another user resumes the stream: %d %s", resp.StatusCode, body)
	}
}
