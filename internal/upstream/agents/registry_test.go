package agents

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// send makes a request of the registration as a principal.
func send(r *Registry, principal, method, path, body string) (int, string) {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.RemoteAddr = "10.0.0.7:40000"
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req.WithContext(guard.WithPrincipal(req.Context(), principal)))
	return w.Code, w.Body.String()
}

func names(r *Registry) string {
	var all []string
	for _, a := range r.Agents() {
		all = append(all, a.Name+"="+a.URL)
	}
	return strings.Join(all, " ")
}

func TestRegistration(t *testing.T) {
	var changes atomic.Int32
	r := New(Options{
		Max: 3, Changed: func() { changes.Add(1) }, Hosts: hosts(t, "b.example"), Lookup: lookup(map[string]string{"b.example": "10.0.0.8"}),
		Owner: func(name string) string {
			if name == "files" {
				return "mcpServers.files"
			}
			return ""
		},
		May: func(principal, name string) bool { return principal != "eve" },
	})
	r.SetRoutes([]Route{{"routed", "http://localhost:1/mcp"}})
	for _, c := range []struct {
		principal, method, path, body string
		status                        int
		answer, agents                string
	}{
		{"ann", "POST", "/agents", `{"name":"a","instance":"1","port":7001,"server":{"name":"a"}}`, 200, `{"leaseMs":30000}`, "a=http://10.0.0.7:7001/mcp routed=http://localhost:1/mcp"},
		{"ann", "POST", "/agents", `{"name":"a","instance":"1","port":7001}`, 200, `leaseMs`, "a=http://10.0.0.7:7001/mcp routed=http://localhost:1/mcp"},
		{"ann", "POST", "/agents", `{"name":"a","instance":"2","port":7002}`, 409, "an agent that is registered", "a=http://10.0.0.7:7001/mcp routed=http://localhost:1/mcp"},
		{"bob", "POST", "/agents", `{"name":"a","instance":"3","port":7001}`, 409, "an agent that is registered", "a=http://10.0.0.7:7001/mcp routed=http://localhost:1/mcp"},
		{"ann", "POST", "/agents", `{"name":"a","instance":"4","port":7001}`, 200, `leaseMs`, "a=http://10.0.0.7:7001/mcp routed=http://localhost:1/mcp"}, // started again at its place
		{"ann", "DELETE", "/agents/a?instance=1", ``, 204, ``, "a=http://10.0.0.7:7001/mcp routed=http://localhost:1/mcp"},
		{"bob", "DELETE", "/agents/a?instance=4", ``, 204, ``, "a=http://10.0.0.7:7001/mcp routed=http://localhost:1/mcp"},
		{"eve", "POST", "/agents", `{"name":"e","instance":"1","port":1}`, 403, "auth.tokens[].register", "a=http://10.0.0.7:7001/mcp routed=http://localhost:1/mcp"},
		{"ann", "POST", "/agents", `{"name":"files","instance":"1","port":1}`, 409, "mcpServers.files", "a=http://10.0.0.7:7001/mcp routed=http://localhost:1/mcp"},
		{"ann", "POST", "/agents", `{"name":"routed","instance":"1","port":1}`, 409, "routing.json", "a=http://10.0.0.7:7001/mcp routed=http://localhost:1/mcp"},
		{"ann", "POST", "/agents", `{"name":"b","instance":"1","url":"https://b.example/x/mcp"}`, 200, `leaseMs`, "a=http://10.0.0.7:7001/mcp b=https://b.example/x/mcp routed=http://localhost:1/mcp"},
		{"ann", "DELETE", "/agents/a?instance=4", ``, 204, ``, "b=https://b.example/x/mcp routed=http://localhost:1/mcp"},
		{"ann", "GET", "/agents", ``, 200, `"source":"routing.json"`, "b=https://b.example/x/mcp routed=http://localhost:1/mcp"},
		{"ann", "PUT", "/agents", ``, 405, `GET, POST`, "b=https://b.example/x/mcp routed=http://localhost:1/mcp"},
		{"ann", "GET", "/agents/b", ``, 405, `DELETE`, "b=https://b.example/x/mcp routed=http://localhost:1/mcp"},
		{"ann", "GET", "/agents/b/c", ``, 404, `no such page`, "b=https://b.example/x/mcp routed=http://localhost:1/mcp"},
	} {
		status, answer := send(r, c.principal, c.method, c.path, c.body)
		if status != c.status || !strings.Contains(answer, c.answer) {
			t.Errorf("%s %s %s %s: %d %s, want %d %s", c.principal, c.method, c.path, c.body, status, answer, c.status, c.answer)
		}
		if got := names(r); got != c.agents {
			t.Errorf("after %s %s: %s, want %s", c.method, c.body, got, c.agents)
		}
	}
	if got := changes.Load(); got != 4 { // routes, a, b, a left
		t.Errorf("%d changes told, want 4", got)
	}
}

func TestBadRegistrations(t *testing.T) {
	r := New(Options{})
	for _, body := range []string{
		``, `[]`, `{"name":"a","port":1}`, `{"name":"a","instance":"1"}`, `{"name":"a","instance":"1","port":1,"url":"http://x/"}`,
		`{"name":"a","instance":"1","port":70000}`, `{"name":"a","instance":"1","port":-1}`, `{"name":"a/b","instance":"1","port":1}`,
		`{"name":"","instance":"1","port":1}`, `{"name":"a","instance":"1","url":"file:///etc/passwd"}`,
		`{"name":"a","instance":"` + strings.Repeat("x", 200) + `","port":1}`, `{"name":"a","instance":"1","port":"x"}`,
	} {
		if status, answer := send(r, "local", "POST", "/agents", body); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	if status, _ := send(r, "local", "POST", "/agents", strings.Repeat(" ", maxBody+1)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a huge body: %d", status)
	}
	if got := names(r); got != "" {
		t.Errorf("registered: %s", got)
	}
}

// TestRouterIsNoAgent: what leads back to the router is refused when it registers.
func TestRouterIsNoAgent(t *testing.T) {
	r := New(Options{Hosts: hosts(t, "10.0.0.7", "router.example"), Lookup: lookup(map[string]string{"router.example": "10.0.0.8", "localhost": "127.0.0.1"})})
	srv := httptest.NewServer(r)
	defer srv.Close()
	port := srv.Listener.Addr().(*net.TCPAddr).Port
	for body, want := range map[string]int{
		fmt.Sprintf(`"port":%d`, port):                              400,
		fmt.Sprintf(`"url":"http://127.0.0.1:%d/mcp"`, port):        400,
		fmt.Sprintf(`"url":"http://localhost:%d/mcps/a/mcp"`, port): 400,
		fmt.Sprintf(`"url":"http://10.0.0.7:%d/mcp"`, port):         200,
		`"url":"https://router.example/mcps/a/mcp"`:                 400,
		`"url":"https://router.example/agents/a"`:                   200,
	} {
		req, err := http.NewRequest(http.MethodPost, srv.URL+Path, strings.NewReader(`{"name":"a","instance":"1",`+body+`}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if strings.Contains(body, "router.example") {
			req.Host = "router.example"
		}
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != want || want == 400 && !strings.Contains(string(answer), "a route of this router") {
			t.Errorf("%s: %d %s, %v", body, resp.StatusCode, answer, err)
		}
		r.leave("local", "a", "1")
		r.leave("", "a", "1")
	}
}

func TestRegistrationsAreBounded(t *testing.T) {
	r := New(Options{Max: 2})
	for i, want := range []int{200, 200, 503} {
		if status, answer := send(r, "local", "POST", "/agents", fmt.Sprintf(`{"name":"a%d","instance":"1","port":1}`, i)); status != want {
			t.Errorf("agent %d: %d %s", i, status, answer)
		}
	}
}

// TestLease: an agent that is not heard of is forgotten when its lease has run
// out, and its name is free then.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes atomic.Int32
		r := New(Options{Lease: 10 * time.Second, Changed: func() { changes.Add(1) }})
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { r.Run(ctx) })
		defer run.Wait()
		defer cancel()
		post := func(instance string, port int) int {
			status, _ := send(r, "local", "POST", "/agents", fmt.Sprintf(`{"name":"a","instance":%q,"port":%d}`, instance, port))
			return status
		}
		post("1", 1)
		time.Sleep(8 * time.Second)
		post("1", 1) // heard of
		time.Sleep(8 * time.Second)
		if names(r) == "" || post("2", 2) != http.StatusConflict {
			t.Errorf("forgotten although heard of: %q", names(r))
		}
		time.Sleep(4 * time.Second)
		if got := names(r); got != "" || changes.Load() != 2 {
			t.Errorf("%q, %d changes", got, changes.Load())
		}
		if status := post("2", 2); status != http.StatusOK {
			t.Errorf("the name is not free: %d", status)
		}
	})
}

func TestParseRouting(t *testing.T) {
	r, err := parseRouting([]byte("\xef\xbb\xbf" + `{"port": 8080, "routes": {
		"b": {"container": "c", "hostPort": "7002", "hostPath": "/x"}, "a": {"hostPort": 7001}, "bare": 7003,
		"far": {"hostPort": 1, "host": "10.0.0.1", "path": "x/mcp"}, "own": {"url": "https://x.example/mcp"},
		"none": {"container": "c"}, "bad": {"hostPort": 99999}, "a/b": {"hostPort": 1}, "worse": [1]}, "static": {"hostPath": "/"}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Route{{"a", "http://localhost:7001/mcp"}, {"b", "http://localhost:7002/mcp"}, {"bare", "http://localhost:7003/mcp"},
		{"far", "http://10.0.0.1:1/x/mcp"}, {"own", "https://x.example/mcp"}}
	if r.Port != 8080 || !slices.Equal(r.Routes, want) {
		t.Errorf("%+v", r)
	}
	if len(r.Problems) != 4 || !strings.HasPrefix(r.Problems[0], "routes.a/b: ") {
		t.Errorf("problems %q", r.Problems)
	}
	for _, text := range []string{"", "[]", `{"port": "x"}`, `{"routes": []}`} {
		if r, err := parseRouting([]byte(text)); err == nil {
			t.Errorf("%q: %+v", text, r)
		}
	}
}

// TestWatchRouting: a file is told at once, again when it has changed, and its
// absence once; a broken one is an error, and the next good one is told.
func TestWatchRouting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "routing.json")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var told []string
		var mu sync.Mutex
		var run sync.WaitGroup
		run.Go(func() {
			WatchRouting(ctx, path, func(r Routing, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					told = append(told, "error")
					return
				}
				told = append(told, fmt.Sprint(r.Port, len(r.Routes)))
			})
		})
		write := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Error(err)
			}
			time.Sleep(3 * look)
		}
		time.Sleep(3 * look)
		write(`{"port":1,"routes":{"a":{"hostPort":1}}}`)
		write(`{"port":1,"routes":{"a":{"hostPort":1}}}`)
		write(`{"port":`)
		write(`{"port":2,"routes":{}}`)
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
		time.Sleep(3 * look)
		write(`{"port":3}`)
		cancel()
		run.Wait()
		if got := strings.Join(told, ", "); got != "error, 1 1, error, 2 0, 3 0" {
			t.Errorf("told: %s", got)
		}
	})
}

func TestSetRoutesTellsChangesOnly(t *testing.T) {
	var changes atomic.Int32
	r := New(Options{Changed: func() { changes.Add(1) }, Owner: func(name string) string { return map[string]string{"x": "mcpServers.x"}[name] }})
	r.SetRoutes([]Route{{"a", "http://h/1"}, {"x", "http://h/2"}})
	r.SetRoutes([]Route{{"a", "http://h/1"}, {"x", "http://h/2"}})
	r.SetRoutes([]Route{{"a", "http://h/3"}})
	if got := names(r); got != "a=http://h/3" || changes.Load() != 2 {
		t.Errorf("%s, %d changes", got, changes.Load())
	}
}

// TestNamesStay: a name belongs to the principal that registered it first, however
// others write it, while the agent is there, when it has left and when its lease has
// run out; routing.json takes none of them, and gives none away.
func TestNamesStay(t *testing.T) {
	r := New(Options{})
	post := func(principal, name, instance string) int {
		t.Helper()
		status, answer := send(r, principal, "POST", "/agents", fmt.Sprintf(`{"name":%q,"instance":%q,"port":7}`, name, instance))
		if status == http.StatusConflict && !strings.Contains(answer, "another name") {
			t.Errorf("%s", answer)
		}
		return status
	}
	if status := post("ann", "stock", "1"); status != http.StatusOK {
		t.Fatal(status)
	}
	refused := func(when string) {
		t.Helper()
		for _, name := range []string{"stock", "Stock", "STOCK"} {
			if status := post("bob", name, "2"); status != http.StatusConflict {
				t.Errorf("%s, %s: %d", when, name, status)
			}
		}
		if status := post("ann", "Stock", "3"); status != http.StatusConflict {
			t.Errorf("%s: one principal has two spellings: %d", when, status)
		}
	}
	refused("while it is there")
	r.SetRoutes([]Route{{"Stock", "http://h/1"}, {"stock", "http://h/2"}, {"free", "http://h/3"}})
	if got := names(r); got != "free=http://h/3 stock=http://10.0.0.7:7/mcp" {
		t.Errorf("agents %s", got)
	}
	if barred := r.Barred(); len(barred) != 2 || barred[0].Agent.Name != "Stock" || !strings.Contains(barred[0].Err.Error(), `the agent "stock" of "ann"`) {
		t.Errorf("barred %+v", barred)
	}
	if r.Instance("stock") != "1" {
		t.Errorf("its instance is %q", r.Instance("stock"))
	}
	if status := post("ann", "stock", "1"); status != http.StatusOK {
		t.Errorf("heard of again: %d", status)
	}
	r.leave("ann", "stock", "1")
	refused("when it has left")
	if got := names(r); got != "free=http://h/3" {
		t.Errorf("agents %s", got)
	}
	r.SetRoutes(nil)
	if status := post("bob", "free", "1"); status != http.StatusConflict {
		t.Errorf("a name that was routing.json's: %d", status)
	}
	if status := post("ann", "stock", "4"); status != http.StatusOK {
		t.Errorf("its owner is back: %d", status)
	}
}

// TestOneOwnerOfMany: of many that register one name at once, under all its spellings
// and while agents leave, one principal has it.
func TestOneOwnerOfMany(t *testing.T) {
	r := New(Options{})
	var mu sync.Mutex
	winners := map[string]bool{}
	var all sync.WaitGroup
	for i := range 16 {
		principal, name := fmt.Sprint("p", i), []string{"stock", "Stock", "STOCK", "sTock"}[i%4]
		all.Go(func() {
			for range 50 {
				if status, _ := send(r, principal, "POST", "/agents", fmt.Sprintf(`{"name":%q,"instance":"1","port":7}`, name)); status == http.StatusOK {
					mu.Lock()
					winners[principal+" "+name] = true
					mu.Unlock()
					r.leave(principal, name, "1")
				}
				if n := len(r.Agents()); n > 1 {
					t.Errorf("%d agents have the name", n)
				}
			}
		})
	}
	all.Wait()
	if len(winners) != 1 {
		t.Errorf("winners %v", winners)
	}
}
