package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/host/serverlog"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/lockfile"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/policy/approval"
	"github.com/weir-mcp/weir/internal/upstream/confined"
	"github.com/weir-mcp/weir/mcp"
)

// fixed are the operated parts of a gateway with one server.
type fixed struct{}

func (fixed) List() []Server { return []Server{{Name: "many", State: "ready", Listed: true}} }

func (fixed) Restart(context.Context, string) (Server, error) {
	return Server{Name: "many", State: "ready"}, nil
}

func (fixed) Sandbox(string) (confined.Confinement, bool) {
	return confined.Confinement{Text: hostile, Open: []string{hostile}, Read: []string{}, Write: []string{}, Net: []string{"a.example"}, Env: []string{"TOKEN"}, Hosts: []confined.Host{{Host: "a.example:443", At: time.Unix(0, 0)}}}, true
}

func (fixed) Status() *lockfile.Status {
	return &lockfile.Status{Path: "weir.lock", Servers: []lockfile.ServerStatus{{
		Server: "many", Mode: "hold", State: lockfile.StateHeld, Digest: "d",
		Differences: []lockfile.Difference{{Server: "many", Kind: "tool", Name: "add", Members: []lockfile.Member{{Path: "title", After: `"x"`}}}},
	}}}
}

func (fixed) Accept(_ context.Context, a lockfile.Acceptance) ([]lockfile.Difference, error) {
	return []lockfile.Difference{{Server: a.Server, Name: "add"}}, nil
}

func (fixed) Page(context.Context, audit.Query) (audit.Page, error) {
	return audit.Page{Records: []json.RawMessage{json.RawMessage(`{"seq":1}`)}}, nil
}

func (fixed) Settings(key string, _ bool) (string, []Setting) {
	return "/etc/weir.yaml", []Setting{{Key: key + "listen", Value: hostile, Origin: "file", Source: "weir.yaml:1", Line: 1}, {Key: "tags", Value: []string{hostile}}, {Key: "n", Value: 1.5}}
}

func (fixed) Changed(context.Context, audit.CredentialChange) error { return nil }

func (fixed) Entry(name string) (Entry, error) {
	return Entry{Name: name, Tag: "t", Entry: json.RawMessage(`{"command":"x"}`)}, nil
}

func (fixed) Plan(context.Context, Addition) (Edited, error) {
	return Edited{Tag: "t", Adds: []PlannedServer{{Name: "new"}}}, nil
}

func (fixed) Add(_ context.Context, tag string, _ Addition) (Edited, error) { return fixed{}.edit(tag) }

func (fixed) Amend(_ context.Context, tag, _ string, _ json.RawMessage) (Edited, error) {
	return fixed{}.edit(tag)
}

func (fixed) Remove(_ context.Context, tag, _ string) (Edited, error) { return fixed{}.edit(tag) }

func (fixed) Undo(_ context.Context, n int, own bool) (Edited, error) {
	if !own {
		return Edited{}, mcp.Errorf(mcp.KindPermissionDenied, "%d is not theirs", n)
	}
	return Edited{Operation: n + 1}, nil
}

// nodes are two nodes of a cluster, of which one is hostile.
type nodes struct{}

func (nodes) Status() ClusterStatus {
	return ClusterStatus{Nodes: []ClusterNode{{Name: "a", Inc: "aaaaaa", State: "up", Self: true, Proto: [2]int{1, 1}, URL: "https://10.0.0.1:8090"}, {Name: hostile, Inc: "bbbbbb", State: hostile}, {Name: hostile, Inc: "cccccc"}}, Servers: []ClusterServer{{Name: hostile, Node: hostile, Inc: "bbbbbb"}, {Name: "b"}}, Warnings: []string{hostile}}
}

func (nodes) Drain(_ context.Context, inc string) error {
	if inc != "aaaaaa" {
		return mcp.Errorf(mcp.KindNodeGone, "it is gone")
	}
	return nil
}

func (nodes) Pass(n ClusterNode, w http.ResponseWriter, r *http.Request) error {
	if n.Inc == "cccccc" {
		return mcp.Errorf(mcp.KindNodeGone, "it is gone")
	}
	if r.URL.Query().Has("follow") || strings.HasSuffix(r.URL.Path, "/stream") {
		<-r.Context().Done()
		return nil
	}
	id := identity.From(r.Context())
	return write(w, map[string]any{"passed": r.Method + " " + r.URL.RequestURI(), "principal": id.Principal, "operates": id.HasRole(operator), "bearer": r.Header.Get("Authorization")})
}

// TestRequestsAtNodes: the parameter node names the node that answers, for each route of viewers and operators that is
// not common; the right is checked here, before.
func TestRequestsAtNodes(t *testing.T) {
	a, concrete := whole(t)
	one := New(Options{Key: worldKey, Servers: fixed{}})
	t.Cleanup(one.Close)
	ask := func(a *API, method, path, body string, change func(*http.Request)) (int, string) {
		r := request(method, path, body)
		if change != nil {
			change(r)
		}
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	at := func(path, node string) string {
		mark := "?"
		if strings.Contains(path, "?") {
			mark = "&"
		}
		return path + mark + "node=" + node
	}
	stranger := func(r *http.Request) { r.Header.Del("Authorization"); r.Header.Set("X-Principal", "ann") }
	for _, r := range a.routes() {
		body := ""
		if r.method != http.MethodGet {
			body = "{}"
		}
		if r.stream == "text/event-stream" {
			continue // see TestStreamsAtNodes
		}
		path := concrete(r.path)
		takes := slices.Contains(r.query, nodeQuery)
		status, answer := ask(a, r.method, at(path, "bbbbbb"), body, nil)
		plain, _, _ := strings.Cut(path, "?")
		switch {
		case takes && (status != 200 || !strings.Contains(answer, `"passed":"`+r.method+" "+Path+strings.ReplaceAll(plain, "%23", "#")) || strings.Contains(answer, "node=") || !strings.Contains(answer, `"operates":true`) || strings.Contains(answer, worldKey)):
			t.Errorf("%s %s: %d %s", r.method, r.path, status, answer)
		case !takes && (status != 400 || !strings.Contains(answer, "takes no parameter node")):
			t.Errorf("%s %s, which is common: %d %s", r.method, r.path, status, answer)
		}
		want := map[right]int{mayLook: 200, mayOperate: 401}[r.right]
		if status, answer = ask(a, r.method, at(path, "bbbbbb"), body, stranger); takes && (status != want || strings.Contains(answer, `"operates":true`)) {
			t.Errorf("%s %s by a viewer: %d %s", r.method, r.path, status, answer)
		}
	}
	for _, tt := range []struct {
		a      *API
		node   string
		status int
		holds  string
	}{
		{a, "a", 200, `"name":"many"`},
		{a, "aaaaaa", 200, `"name":"many"`},
		{a, "x", 404, "there are: a, "},
		{a, "", 404, "there are: a, "},
		{a, url.QueryEscape(hostile), 400, "bbbbbb, cccccc"},
		{a, "cccccc", 502, "it is gone"},
		{one, "a", 404, "no node of a cluster"},
	} {
		if status, answer := ask(tt.a, "GET", "servers?node="+tt.node, "", nil); status != tt.status || !strings.Contains(answer, tt.holds) {
			t.Errorf("%q: %d %s, want %d and %s", tt.node, status, answer, tt.status, tt.holds)
		}
	}
	if _, answer := ask(a, "GET", "audit?node=a&limit=1", "", nil); strings.Contains(answer, "the parameters are") {
		t.Errorf("the node is a parameter of the audit log: %s", answer)
	}
}

// TestStreamsAtNodes: streams of other nodes end with the API, as its own do, so that a gateway ends in time.
func TestStreamsAtNodes(t *testing.T) {
	w := newWorld(t)
	a := New(Options{Look: w.look(nil), Key: worldKey, Cluster: nodes{}})
	ended := make(chan string)
	paths := []string{"calls/stream?node=bbbbbb", "logs?node=bbbbbb&follow=1", "servers/many/log?follow=1&node=bbbbbb"}
	for _, path := range paths {
		go func() {
			a.ServeHTTP(httptest.NewRecorder(), request("GET", path, ""))
			ended <- path
		}()
	}
	a.Close()
	for range paths {
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatal("a stream does not end")
		}
	}
}

// TestRequestsOfNodes: a node serves what another one has checked, with the rights of the identity, and nothing that is
// for its own user.
func TestRequestsOfNodes(t *testing.T) {
	w := newWorld(t)
	a := New(Options{Look: w.look(nil), Key: worldKey, Cluster: nodes{}, Servers: fixed{}, Audit: fixed{}, Checked: func(ctx context.Context) bool { return true }})
	t.Cleanup(a.Close)
	for _, tt := range []struct {
		method, path, body string
		roles              []string
		status             int
	}{
		{"GET", "servers", "", []string{operator}, 200},
		{"GET", "servers?node=bbbbbb", "", []string{operator}, 200}, // it goes no further
		{"GET", "servers", "", nil, 403},
		{"GET", "overview", "", nil, 200},
		{"GET", "audit", "", []string{auditor}, 200},
		{"GET", "audit", "", nil, 403},
		{"POST", "servers/many/restart", "{}", []string{operator}, 200},
		{"POST", "servers/many/restart", "{}", nil, 403},
		{"GET", "clients", "", []string{operator}, 403},
		{"POST", "sessions", "{}", []string{operator}, 403},
	} {
		r := request(tt.method, tt.path, tt.body)
		r = r.WithContext(identity.With(r.Context(), &identity.Identity{Principal: "ann", Roles: tt.roles}))
		got := httptest.NewRecorder()
		a.ServeHTTP(got, r)
		if got.Code != tt.status || tt.status == 200 && strings.Contains(got.Body.String(), "passed") {
			t.Errorf("%s %s as %v: %d %s, want %d", tt.method, tt.path, tt.roles, got.Code, got.Body, tt.status)
		}
	}
}

// TestNamesOfNodes: a node is named by its name or its INC, and a gateway of one node has none.
func TestNamesOfNodes(t *testing.T) {
	a := New(Options{Key: worldKey, Cluster: nodes{}})
	t.Cleanup(a.Close)
	one := New(Options{Key: worldKey})
	t.Cleanup(one.Close)
	for _, tt := range []struct {
		a      *API
		node   string
		status int
		holds  string
	}{
		{a, "a", 200, `"state":"draining"`},
		{a, "aaaaaa", 200, `"inc":"aaaaaa"`},
		{a, "x", 404, "there are: a, "},
		{a, url.PathEscape(hostile), 400, "bbbbbb, cccccc"},
		{a, "bbbbbb", 502, "it is gone"},
		{one, "a", 404, "no node of a cluster"},
	} {
		w := httptest.NewRecorder()
		tt.a.ServeHTTP(w, request("POST", "cluster/nodes/"+tt.node+"/drain", "{}"))
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.holds) {
			t.Errorf("%q: %d %s, want %d and %s", tt.node, w.Code, w.Body, tt.status, tt.holds)
		}
	}
}

// TestLinksOfNodes: the addresses of peer links are for operators alone.
func TestLinksOfNodes(t *testing.T) {
	const link = "https://10.0.0.1:8090"
	pass := func(next http.Handler) http.Handler { return next }
	a := New(Options{Key: worldKey, Cluster: nodes{}, Look: Look{Guard: pass}})
	t.Cleanup(a.Close)
	for _, operator := range []bool{true, false} {
		r := request("GET", "cluster", "")
		if !operator {
			r.Header.Del("Authorization")
		}
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"inc":"aaaaaa"`) {
			t.Errorf("operator %v: %d %s", operator, w.Code, w.Body)
		}
		if got := strings.Contains(w.Body.String(), link); got != operator {
			t.Errorf("operator %v: the answer has the link: %v", operator, got)
		}
	}
}

func (fixed) Search(context.Context, string) (Published, error) {
	return Published{Servers: []PublishedServer{{ID: "a/b", Description: hostile}}}, nil
}

func (fixed) Doctor(_ context.Context, name string) ([]Finding, error) {
	return []Finding{{ID: "server-exit", Level: "fail", Thing: "server " + name, Text: hostile, Lines: []string{hostile}}}, nil
}

func (fixed) Mend(_ context.Context, m Mending) (Mended, error) {
	return Mended{Mends: m.Mends, Operation: 3}, nil
}

func (fixed) Found(context.Context) ([]Client, error) {
	return []Client{{ID: "cursor", Name: hostile, State: "not wired", Servers: 1, File: "/x"}}, nil
}

// wiredClients are the clients of a gateway.
type wiredClients struct{ fixed }

func (wiredClients) Plan(context.Context, Wiring) (Wired, error) { return Wired{}, nil }

func (wiredClients) Wire(_ context.Context, tag string, _ Wiring) (Wired, error) {
	e, err := fixed{}.edit(tag)
	return Wired{Edited: e, Files: []WiredFile{{File: hostile}}}, err
}

func (fixed) edit(tag string) (Edited, error) {
	if tag != "t" {
		return Edited{}, ErrChanged
	}
	return Edited{Tag: "u", Operation: 1, Servers: []Server{{Name: "many"}}}, nil
}

// answering is an MCP server with one answer.
type answering struct{}

func (answering) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
}

// whole returns an API of which each route has something to answer, and a path with a value for each
// placeholder and parameter that it needs.
func whole(t *testing.T) (a *API, concrete func(path string) string) {
	t.Helper()
	w := newWorld(t)
	w.offices = &Offices{Hub: true, Members: []Member{{Name: "m"}}, Computers: []Computer{{Name: "desk", Servers: []ComputerServer{{Name: "excel"}}}}}
	one := call("ann", "many:tool_01")
	one.Exchange = &telemetry.Exchange{Arguments: []byte(`{"a":"` + "\u202e" + `</script>"}`), Result: []byte(`{"cut`), ResultCut: true}
	one.Steps[telemetry.StepServer] = time.Millisecond
	w.book.KeepExchanges(true)
	w.book.Observe(one)
	kept, err := w.store.Put(t.Context(), "local", "application/json", "rows", []byte(`[{"a":1}]`))
	if err != nil {
		t.Fatal(err)
	}
	room := approval.New(approval.Options{Open: func() bool { return true }})
	ctx, cancel := context.WithCancel(t.Context())
	asked, shown := make(chan struct{}), make(chan struct{})
	show := sync.OnceFunc(func() { close(shown) }) // the room tells again from time to time
	go func() {
		defer close(asked)
		_, _ = room.Ask(ctx, approval.Question{Server: "many", Tool: "add"}, time.Hour, func(string, time.Duration) { show() })
	}()
	t.Cleanup(func() { cancel(); <-asked })
	<-shown
	waiting := room.List()
	a = New(Options{Look: w.look(&w.book), Key: worldKey, Cluster: nodes{}, Calls: answering{}, Servers: fixed{}, Log: serverlog.New(serverlog.Options{}), Approvals: room, Definitions: fixed{}, Audit: fixed{}, Changed: fixed{}.Changed, Settings: fixed{}.Settings, Machine: Machine{Edits: fixed{}, Registry: fixed{}, Checks: fixed{}, Clients: wiredClients{}}})
	t.Cleanup(a.Close)
	var id string
	for _, e := range w.catalog.Entries() {
		id = strings.ReplaceAll(e.ID, "#", "%23")
	}
	return a, func(path string) string {
		path = strings.NewReplacer("{name}", "many", "{node}", "a", "{handle}", kept.Handle, "{id}", waiting[0].ID, "{n}", "1").Replace(path)
		switch path {
		case "catalog/entry":
			return path + "?id=" + id
		case "catalog/why":
			return path + "?query=x&id=" + id
		case "calls/" + waiting[0].ID + "/exchange":
			return "calls/" + w.book.ID(0) + "/exchange"
		case "registry":
			return path + "?query=x"
		}
		if path == "servers/many" {
			return "servers/up0000" // of the world
		}
		return path
	}
}

// request makes a request of an operator on this machine.
func request(method, path, body string) *http.Request {
	r := httptest.NewRequest(method, "http://127.0.0.1:8088"+Path+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:9"
	r.Header.Set("Authorization", "Bearer "+worldKey)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("If-Match", `"t"`)
	}
	return r
}

// bodies are those of the routes that want more than {}.
var bodies = map[string]string{"flow/clear": `{"session":"s1"}`, "approvals/{id}": `{"decision":"deny"}`, "definitions/accept": `{"server":"many"}`, "doctor/fix": `{"id":"config-readable","thing":"f","mends":"chmod 600 f"}`, "clients": `{"do":"import"}`}

// schemasOf reads the OpenAPI document. schemaOf returns the schema in it of an answer of a route.
func schemasOf(t *testing.T, a *API) (document any, schemaOf func(r *route, status, kind string) *jsonschema.Schema) {
	t.Helper()
	w := httptest.NewRecorder()
	a.ServeHTTP(w, request("GET", "openapi.json", ""))
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("http://weir.test/openapi.json", document); err != nil {
		t.Fatal(err)
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D")
	return document, func(r *route, status, kind string) *jsonschema.Schema {
		t.Helper()
		s, err := compiler.Compile("http://weir.test/openapi.json#/paths/" + escape.Replace(Path+r.path) + "/" + strings.ToLower(r.method) + "/responses/" + status + "/content/" + escape.Replace(kind) + "/schema")
		if err != nil {
			t.Fatalf("%s: %v", r.path, err)
		}
		return s
	}
}

// TestOpenAPI asks each route and checks the answer by the schema of the OpenAPI document.
func TestOpenAPI(t *testing.T) {
	a, concrete := whole(t)
	_, schemaOf := schemasOf(t, a)
	check := func(r *route, status string, answer []byte) {
		t.Helper()
		got, err := jsonschema.UnmarshalJSON(bytes.NewReader(answer))
		if err != nil {
			t.Fatalf("%s: %v in %.300s", r.path, err, answer)
		}
		if err := schemaOf(r, status, "application/json").Validate(got); err != nil {
			t.Errorf("%s: %v\n%.600s", r.path, err, answer)
		}
	}
	var code string
	for _, r := range a.routes() {
		if r.stream != "" {
			schemaOf(&r, "200", r.stream)
			continue
		}
		body := bodies[r.path]
		switch {
		case r.body == nil:
			body = ""
		case r.path == "sessions":
			body = code
		case r.body != nil && body == "":
			body = "{}"
		}
		w := httptest.NewRecorder()
		a.ServeHTTP(w, request(r.method, concrete(r.path), body))
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", r.path, w.Code, w.Body)
			continue
		}
		check(&r, "200", w.Body.Bytes())
		if r.path == "codes" {
			code = w.Body.String()
		}
		w = httptest.NewRecorder()
		a.ServeHTTP(w, request("PUT", concrete(r.path), "{}"))
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("PUT of %s: %d", r.path, w.Code)
		}
		check(&r, "default", w.Body.Bytes())
	}
}

// TestRights asks each route as callers who may not: a page of another origin, a caller without a key,
// and a caller of another machine with the key.
func TestRights(t *testing.T) {
	a, concrete := whole(t)
	for _, r := range a.routes() {
		for name, one := range map[string]struct {
			change func(*http.Request)
			want   map[right]int
		}{
			"another origin":   {func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:3000") }, map[right]int{mayLook: 403, mayCall: 403, mayOperate: 403, mayOwn: 403, mayExchange: 403}},
			"another site":     {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, map[right]int{mayLook: 403, mayCall: 403, mayOperate: 403, mayOwn: 403, mayExchange: 403}},
			"no key":           {func(r *http.Request) { r.Header.Del("Authorization") }, map[right]int{mayLook: 200, mayCall: 200, mayOperate: 401, mayOwn: 401, mayExchange: 401}},
			"another key":      {func(r *http.Request) { r.Header.Set("Authorization", "Bearer guessed") }, map[right]int{mayLook: 200, mayCall: 200, mayOperate: 401, mayOwn: 401, mayExchange: 401}},
			"another machine":  {func(r *http.Request) { r.RemoteAddr = "192.0.2.1:9" }, map[right]int{mayLook: 200, mayCall: 200, mayOperate: 403, mayOwn: 403, mayExchange: 401}},
			"through a proxy":  {func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.1") }, map[right]int{mayLook: 200, mayCall: 200, mayOperate: 403, mayOwn: 403, mayExchange: 401}},
			"a form of a page": {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, map[right]int{mayCall: 415, mayOperate: 415, mayOwn: 415, mayExchange: 415}},
		} {
			if r.stream != "" || one.want[r.right] == 0 || r.method == "GET" && name == "a form of a page" {
				continue
			}
			body := ""
			if r.method != "GET" {
				body = "{}"
			}
			asked := request(r.method, concrete(r.path), body)
			if strings.HasPrefix(r.path, "artifacts/") {
				asked.Header.Set("X-Principal", "local")
			}
			one.change(asked)
			w := httptest.NewRecorder()
			a.ServeHTTP(w, asked)
			if w.Code != one.want[r.right] {
				t.Errorf("%s, %s: %d, want %d: %.200s", r.path, name, w.Code, one.want[r.right], w.Body)
			}
		}
	}
}

// TestEditsNeedTheFileThatWasSeen: without the tag of the file, and with that of an older one, nothing
// changes; a plan needs none. A gateway without a file says so.
func TestEditsNeedTheFileThatWasSeen(t *testing.T) {
	a, _ := whole(t)
	without := New(Options{Key: worldKey, Look: newWorld(t).look(nil)})
	t.Cleanup(without.Close)
	for _, one := range []struct{ method, path, body string }{{"POST", "servers", `{"text":"x"}`}, {"PATCH", "servers/many", `{"change":{}}`}, {"DELETE", "servers/many", `{}`}} {
		for tag, want := range map[string]int{`"t"`: 200, `"old"`: 409, "": 400, "*": 400} {
			r := request(one.method, one.path, one.body)
			r.Header.Set("If-Match", tag)
			w := httptest.NewRecorder()
			a.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s %s with %s: %d, want %d: %s", one.method, one.path, tag, w.Code, want, w.Body)
			}
		}
		w := httptest.NewRecorder()
		if without.ServeHTTP(w, request(one.method, one.path, one.body)); w.Code != 404 {
			t.Errorf("%s %s without a file: %d %s", one.method, one.path, w.Code, w.Body)
		}
	}
	r := request("POST", "servers", `{"text":"x","plan":true}`)
	r.Header.Del("If-Match")
	w := httptest.NewRecorder()
	if a.ServeHTTP(w, r); w.Code != 200 || !strings.Contains(w.Body.String(), `"name":"new"`) {
		t.Errorf("a plan: %d %s", w.Code, w.Body)
	}
}

// TestCodes changes a code for a token, which operates until its end.
func TestCodes(t *testing.T) {
	now := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	a := New(Options{Key: worldKey, Definitions: fixed{}, Desk: NewDesk(func() time.Time { return now })})
	t.Cleanup(a.Close)
	send := func(r *http.Request, into any) int {
		t.Helper()
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if w.Code == 200 && into != nil {
			if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
				t.Fatal(err)
			}
		}
		return w.Code
	}
	newCode := func() (c Code) {
		t.Helper()
		if status := send(request("POST", "codes", "{}"), &c); status != 200 || len(c.Code) < 20 {
			t.Fatalf("status %d, code %q", status, c.Code)
		}
		return c
	}
	exchange := func(c Code, into any) int {
		r := request("POST", "sessions", `{"code":"`+c.Code+`"}`)
		r.Header.Del("Authorization")
		return send(r, into)
	}
	use := func(token string) int {
		r := request("GET", "definitions", "")
		r.Header.Set("Authorization", "Bearer "+token)
		return send(r, nil)
	}
	code := newCode()
	var session sessionToken
	if status := exchange(code, &session); status != 200 || !session.Expires.Equal(now.Add(sessionLife)) {
		t.Fatalf("status %d, %v", status, session.Expires)
	}
	if status := exchange(code, nil); status != 401 {
		t.Errorf("a code was used twice: %d", status)
	}
	if status := exchange(Code{}, nil); status != 401 {
		t.Errorf("no code: %d", status)
	}
	if use(session.Token) != 200 || use(code.Code) != 401 || use("") != 401 {
		t.Error("the token does not operate, or something else does")
	}
	old := newCode()
	now = now.Add(codeLife)
	if status := exchange(old, nil); status != 401 {
		t.Errorf("a code of a minute ago: %d", status)
	}
	now = now.Add(sessionLife)
	if use(session.Token) != 401 {
		t.Error("the token operates after its end")
	}
	first := newCode()
	for range maxCodes {
		newCode()
	}
	if exchange(first, nil) != 401 || len(a.desk.codes) != maxCodes {
		t.Errorf("%d codes are kept", len(a.desk.codes))
	}
}

// TestCalls: the history is that of the viewer, in pages; figures count the same.
func TestCalls(t *testing.T) {
	w := newWorld(t)
	a := w.serve(t)
	for i, principal := range []string{"ann", "bob", "ann", "", "ann"} {
		e := call(principal, "many:"+string(rune('a'+i)))
		if i == 4 {
			e.Code = "UPSTREAM_ERROR"
		}
		w.book.Observe(e)
	}
	tools := func(out map[string]any) (s string) {
		for _, one := range out["calls"].([]any) {
			s += strings.TrimPrefix(one.(map[string]any)["tool_id"].(string), "many:")
		}
		return s
	}
	_, first := ask(t, a, "ann", "calls?limit=2")
	if got := tools(first); got != "ed" {
		t.Errorf("the first page is %s", got)
	}
	_, second := ask(t, a, "ann", "calls?limit=2&before="+first["before"].(string))
	if got := tools(second); got != "ca" || second["before"] != nil {
		t.Errorf("the second page is %s, %v", got, second["before"])
	}
	for query, want := range map[string]string{"errors=1": "e", "server=many": "edca", "server=other": "", "session=0123456789ab": "edca", "session=x": "", "tool=many:c": "c"} {
		if _, out := ask(t, a, "ann", "calls?"+query); tools(out) != want {
			t.Errorf("%s: %s, want %s", query, tools(out), want)
		}
	}
	if status, _ := ask(t, a, "ann", "calls?before=x.1"); status != 404 {
		t.Errorf("an id of another run: %d", status)
	}
	_, sums := ask(t, a, "ann", "figures")
	total := sums["total"].(map[string]any)
	if total["calls"] != 4.0 || total["errors"] != 1.0 || sums["own"] != true || len(sums["steps"].([]any)) == 0 {
		t.Errorf("the figures are %v", sums)
	}
	w.all = true
	if _, sums := ask(t, a, "ann", "figures"); sums["total"].(map[string]any)["calls"] != 5.0 || sums["own"] != false {
		t.Errorf("of all callers: %v", sums)
	}
	if _, out := ask(t, a, "ann", "calls"); tools(out) != "edcba" {
		t.Errorf("of all callers: %s", tools(out))
	}
}

// TestRows passes parameters of a table to its selector.
func TestRows(t *testing.T) {
	w := newWorld(t)
	a := w.serve(t)
	kept, err := w.store.Put(t.Context(), "ann", "application/json", "rows", []byte(`[{"a":1}]`))
	if err != nil {
		t.Fatal(err)
	}
	_, out := ask(t, a, "ann", "artifacts/"+kept.Handle+"?offset=7&limit=3&order_by=%5B%22a%22%5D")
	got, _ := json.Marshal(out["selector"])
	if string(got) != `{"limit":3,"offset":7,"order_by":["a"],"type":"table"}` {
		t.Errorf("the selector is %s", got)
	}
	for query, want := range map[string]int{"where=x": 400, "where=%5B%5D%7D": 400, "limit=201": 400, "where=%5B%5D": 200} {
		if status, out := ask(t, a, "ann", "artifacts/"+kept.Handle+"?"+query); status != want {
			t.Errorf("%s: %d %v", query, status, out)
		}
	}
	if status, _ := ask(t, a, "bob", "artifacts/"+kept.Handle); status != 404 {
		t.Errorf("of another principal: %d", status)
	}
}
