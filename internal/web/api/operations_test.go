package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/host/serverlog"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/policy/approval"
	"github.com/weir-mcp/weir/internal/upstream/confined"
	"github.com/weir-mcp/weir/internal/web/api"
	"github.com/weir-mcp/weir/mcp"
)

// servers are some servers that restart at once.
type servers struct {
	names     []string
	err       error
	restarted []string
}

func (s *servers) Sandbox(string) (confined.Confinement, bool) { return confined.Confinement{}, false }

func (s *servers) List() (all []api.Server) {
	for _, name := range s.names {
		all = append(all, api.Server{Name: name, State: "running", Listed: true, Tools: 2})
	}
	return all
}

func (s *servers) Restart(_ context.Context, name string) (api.Server, error) {
	s.restarted = append(s.restarted, name)
	return api.Server{Name: name, State: "running"}, s.err
}

// send sends a request of an operator, a POST if it has a body, and returns the status and the
// answer.
func send(a http.Handler, path, body string) (int, string) {
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	r := httptest.NewRequest(method, "http://127.0.0.1:8088"+api.Path+path, strings.NewReader(strings.TrimSpace(body)))
	r.RemoteAddr = "127.0.0.1:9"
	r.Header.Set("Authorization", "Bearer "+key)
	if body != "" {
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestServers(t *testing.T) {
	s := &servers{names: []string{"files", "github", "web"}}
	var told []string
	a := api.New(api.Options{Key: key, Servers: s, Log: serverlog.New(serverlog.Options{}), Operated: func(_ context.Context, kind audit.Kind, _, server, _, detail string) {
		told = append(told, fmt.Sprint(kind, " ", server, ": ", detail))
	}})
	t.Cleanup(a.Close)
	for _, tt := range []struct {
		path, body string
		status     int
		holds      string
	}{
		{"servers", "", 200, `{"servers":[{"name":"files","state":"running","listed":true,"tools":2,`},
		{"servers/files/restart", `{}`, 200, `"name":"files"`},
		{"servers/files/restart", ` `, 200, `"name":"files"`}, // an empty body
		{"servers/files/restart", `{"force":true}`, 400, `unknown field`},
		{"servers/files/restart", `{} {}`, 400, `more than one JSON value`},
		{"servers/files/restart", `{"a":"` + strings.Repeat("x", 64<<10) + `"}`, 413, `over the bound`},
		{"servers/file/restart", `{}`, 404, `did you mean files?`},
		{"servers/GITHUB/restart", `{}`, 404, `did you mean github?`},
		{"servers/nothing-like-it/restart", `{}`, 404, `there are: files, github, web`},
		{"servers/" + strings.Repeat("x", 200) + "/restart", `{}`, 404, `there are: files, github, web`},
		{"servers/nothing-like-it/log", "", 404, `there are: files, github, web`},
	} {
		status, answer := send(a, tt.path, tt.body)
		if status != tt.status || !strings.Contains(answer, tt.holds) {
			t.Errorf("%.60s %.40s: %d %s, want %d and %s", tt.path, tt.body, status, answer, tt.status, tt.holds)
		}
	}
	if want := []string{"files", "files"}; !slices.Equal(s.restarted, want) {
		t.Errorf("restarted: %v", s.restarted)
	}
	if want := []string{"role files: restarts the server", "role files: restarts the server"}; !slices.Equal(told, want) {
		t.Errorf("told: %q", told)
	}
	s.err = mcp.Errorf(mcp.KindUpstreamUnavailable, "it is disabled")
	if status, answer := send(a, "servers/web/restart", `{}`); status != mcp.KindUpstreamUnavailable.Info().HTTP || !strings.Contains(answer, "it is disabled") {
		t.Errorf("%d %s", status, answer)
	}
	many := &servers{}
	for i := range 30 {
		many.names = append(many.names, fmt.Sprintf("server-%02d", i))
	}
	b := api.New(api.Options{Key: key, Servers: many})
	t.Cleanup(b.Close)
	if status, answer := send(b, "servers/q/restart", `{}`); status != 404 || !strings.Contains(answer, "server-19, …") || strings.Contains(answer, "server-20") {
		t.Errorf("%d %s", status, answer)
	}
}

// book returns the lines of two servers.
func book() *serverlog.Book {
	b := serverlog.New(serverlog.Options{Now: func() time.Time { return time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC) }})
	files, web := b.Start("files"), b.Start("web")
	_, _ = files.Write([]byte("one\ntwo\n"))
	_, _ = web.Write([]byte("three\u202e\n"))
	_, _ = files.Write([]byte("four\n"))
	return b
}

func TestLog(t *testing.T) {
	a := api.New(api.Options{Key: key, Servers: &servers{names: []string{"files", "web"}}, Log: book()})
	t.Cleanup(a.Close)
	for _, tt := range []struct {
		path   string
		status int
		want   string // texts, or what an error holds
	}{
		{"servers/files/log", 200, "one two four"},
		{"servers/web/log", 200, "three\u202e"},
		{"logs", 200, "one two three\u202e four"},
		{"logs?lines=2", 200, "three\u202e four"},
		{"servers/files/log?lines=1", 200, "four"},
		{"logs?lines=100001", 400, "it must be a number from 0 to 100000"},
		{"logs?lines=-1", 400, "it must be a number"},
		{"logs?lines=x", 400, "lines=x"},
		{"logs?after=x", 400, "it must be the seq of a line"},
		{"logs?follow=2", 400, "it must be 1 or 0"},
		{"logs?follow=0&lines=1", 200, "four"},
	} {
		status, answer := send(a, tt.path, "")
		var got api.Lines
		if status == 200 {
			if err := json.Unmarshal([]byte(answer), &got); err != nil {
				t.Errorf("%s: %s", tt.path, answer)
			}
			answer = texts(got.Lines)
		}
		if status != tt.status || status == 200 && answer != tt.want || !strings.Contains(answer, tt.want) {
			t.Errorf("%s: %d %q, want %d %q", tt.path, status, answer, tt.status, tt.want)
		}
	}
	if _, raw := send(a, "servers/web/log", ""); strings.Contains(raw, "\u202e") || !strings.Contains(raw, `\u202e`) {
		t.Errorf("a terminal would obey %s", raw)
	}
	_, answer := send(a, "logs", "")
	var all api.Lines
	if err := json.Unmarshal([]byte(answer), &all); err != nil {
		t.Fatal(err)
	}
	if _, answer = send(a, fmt.Sprintf("logs?after=%d", all.Lines[len(all.Lines)-2].Seq), ""); !strings.Contains(answer, "four") || strings.Contains(answer, "three") {
		t.Errorf("after: %s", answer)
	}
}

// texts returns the texts of the lines that programs wrote.
func texts(lines []serverlog.Line) string {
	var all []string
	for _, l := range lines {
		if !l.Mark {
			all = append(all, l.Text)
		}
	}
	return strings.Join(all, " ")
}

// TestFollow: a reader gets the lines that there are and each later one, until the API closes.
func TestFollow(t *testing.T) {
	log := book()
	a := api.New(api.Options{Key: key, Servers: &servers{names: []string{"files", "web"}}, Log: log})
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+api.Path+"servers/web/log?follow=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	response, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if kind := response.Header.Get("Content-Type"); kind != "application/x-ndjson" {
		t.Error(kind)
	}
	lines := bufio.NewScanner(response.Body)
	next := func() string {
		t.Helper()
		for lines.Scan() {
			var l serverlog.Line
			if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
				t.Fatalf("%s: %v", lines.Bytes(), err)
			}
			if !l.Mark {
				return l.Server + " " + l.Text
			}
		}
		return "the end"
	}
	if got := next(); got != "web three\u202e" {
		t.Errorf("%q", got)
	}
	web, files := log.Start("web"), log.Start("files")
	_, _ = files.Write([]byte("not for this reader\n"))
	_, _ = web.Write([]byte("five\n"))
	if got := next(); got != "web five" {
		t.Errorf("%q", got)
	}
	a.Close()
	if got := next(); got != "the end" {
		t.Errorf("after the close: %q", got)
	}
}

func TestApprovals(t *testing.T) {
	room := approval.New(approval.Options{Open: func() bool { return true }})
	var told []string
	a := api.New(api.Options{Key: key, Approvals: room, Operated: func(_ context.Context, kind audit.Kind, decision, server, tool, detail string) {
		told = append(told, fmt.Sprint(kind, " ", decision, " ", server, " ", tool, ": ", detail))
	}})
	t.Cleanup(a.Close)
	if status, answer := send(a, "approvals", ""); status != 200 || strings.TrimSpace(answer) != `{"approvals":[]}` {
		t.Errorf("none waits: %d %s", status, answer)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ask := func(partly bool) (id string, answer chan approval.Answer) {
		asked, answer := make(chan string, 1), make(chan approval.Answer, 1)
		wg.Go(func() {
			got, err := room.Ask(t.Context(), approval.Question{Server: "files", Tool: "files:drop", Principal: "corp:u1", Partly: partly}, time.Hour, func(id string, _ time.Duration) {
				select {
				case asked <- id:
				default:
				}
			})
			if err != nil {
				t.Error(err)
			}
			answer <- got
		})
		return <-asked, answer
	}
	whole, first := ask(false)
	part, second := ask(true)
	for _, tt := range []struct {
		id, body string
		status   int
		holds    string
	}{
		{whole, `{}`, 400, `decision must be`},
		{whole, `{"decision":"maybe"}`, 400, `decision must be`},
		{whole, `{"decision":"deny","reason":"` + strings.Repeat("é", 501) + `"}`, 400, "more than 500 characters"},
		{"no-such-call", `{"decision":"approve"}`, 404, "weir approve --list"},
		{part, `{"decision":"approve"}`, 400, "not all arguments of files:drop are shown"},
		{whole, `{"decision":"deny","reason":"not now"}`, 200, `"tool":"files:drop"`},
		{whole, `{"decision":"approve"}`, 404, "it was decided"},
		{part, `{"decision":"approve","unseen":true}`, 200, part},
	} {
		if status, answer := send(a, "approvals/"+tt.id, tt.body); status != tt.status || !strings.Contains(answer, tt.holds) {
			t.Errorf("%s %.60s: %d %s, want %d and %s", tt.id, tt.body, status, answer, tt.status, tt.holds)
		}
	}
	if got := <-first; got != (approval.Answer{Reason: "not now"}) {
		t.Errorf("%+v", got)
	}
	if got := <-second; got != (approval.Answer{Approved: true}) {
		t.Errorf("%+v", got)
	}
	want := []string{"approval deny files files:drop: asked by corp:u1", "approval approve files files:drop: asked by corp:u1"}
	if !slices.Equal(told, want) {
		t.Errorf("told: %q", told)
	}
}

// labels are a tool and a session with a label.
type labels struct{ cleared []string }

func (l *labels) Rules(context.Context) flow.Listing {
	return flow.Listing{Mode: config.FlowAsk, Tools: []flow.Tool{{ToolID: "mail:read", Rule: "default"}}}
}

func (l *labels) Readings(context.Context) []flow.Reading {
	return []flow.Reading{{Session: "s1", Principal: "ann", Integrity: "untrusted"}}
}

func (l *labels) Clear(_ context.Context, session string) (flow.Reading, error) {
	if session != "s1" {
		return flow.Reading{}, mcp.Errorf(mcp.KindNotFound, "no open session")
	}
	l.cleared = append(l.cleared, session)
	return flow.Reading{Session: session, Principal: "ann", Integrity: "untrusted"}, nil
}

// TestFlowLabels: operators see labels and clear them, and the audit log is told who was cleared.
func TestFlowLabels(t *testing.T) {
	var told []string
	of := &labels{}
	a := api.New(api.Options{Key: key, Look: api.Look{Labels: of}, Operated: func(_ context.Context, kind audit.Kind, decision, _, _, detail string) {
		told = append(told, fmt.Sprint(kind, " ", decision, ": ", detail))
	}})
	t.Cleanup(a.Close)
	for _, tt := range []struct {
		path, body string
		status     int
		holds      string
	}{
		{"flow", "", 200, `"tool_id":"mail:read"`},
		{"flow/sessions", "", 200, `"session":"s1"`},
		{"flow/clear", `{}`, 400, "session is missing"},
		{"flow/clear", `{"session":"s2"}`, 404, "no open session"},
		{"flow/clear", `{"session":"s1"}`, 200, `"integrity":"untrusted"`},
	} {
		if status, answer := send(a, tt.path, tt.body); status != tt.status || !strings.Contains(answer, tt.holds) {
			t.Errorf("%s %s: %d %s, want %d and %s", tt.path, tt.body, status, answer, tt.status, tt.holds)
		}
	}
	if want := []string{"approval clear: flow label of session s1 of ann: untrusted"}; !slices.Equal(told, want) || len(of.cleared) != 1 {
		t.Errorf("told %q, cleared %q", told, of.cleared)
	}
}

// TestCallersOfTheConfiguration: a caller with a token operates by its role or by its name.
func TestCallersOfTheConfiguration(t *testing.T) {
	known := map[string]*identity.Identity{
		"one": {Principal: "ann", Roles: []string{"operator"}}, "two": {Principal: "bob"}, "three": {Principal: "eve", Roles: []string{"auditor"}},
	}
	a := api.New(api.Options{Key: key, Servers: &servers{}, Operates: func(principal string) bool { return principal == "bob" },
		Tokens: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				id := known[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
				if id == nil {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				next.ServeHTTP(w, r.WithContext(identity.With(r.Context(), id)))
			})
		}})
	t.Cleanup(a.Close)
	for token, want := range map[string]int{"one": 200, "two": 200, "three": 403, "four": 401, key: 403} {
		r := httptest.NewRequest(http.MethodGet, "http://weir.example"+api.Path+"servers", nil)
		r.RemoteAddr = "192.0.2.7:9"
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d, want %d: %s", token, w.Code, want, w.Body)
		}
		if want != http.StatusOK {
			continue
		}
		r.URL.Path = api.Path + "clients" // of the user who runs the gateway
		w = httptest.NewRecorder()
		if a.ServeHTTP(w, r); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "weir open") {
			t.Errorf("clients as %s: %d %s", token, w.Code, w.Body)
		}
	}
}
