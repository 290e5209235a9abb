package upstream

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/testkit/proctest"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

func TestKilledInMidCall(t *testing.T) {
	t.Parallel()
	events := filepath.Join(t.TempDir(), "events")
	m, s := manage(t, Options{}, program("files", "-log", events), program("other"))
	ready(t, m)
	u := upstreamOf(t, m, "files")
	failed := make(chan error, 1)
	go func() {
		_, err := callTool(t.Context(), u, "sleep", `{"sleep_ms":60000}`)
		failed <- err
	}()
	eventually(t, "the call runs", func() bool {
		text, _ := os.ReadFile(events)
		return strings.Contains(string(text), "sleeping ") && u.Status().InFlight == 1
	})
	began, pid := time.Now(), u.Status().Pid
	if err := proctest.Kill(pid); err != nil {
		t.Fatal(err)
	}
	err := <-failed
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the call failed after %s", took)
	}
	wantKind(t, err, mcp.KindUpstreamUnavailable, `upstream "files"`, "killed")
	if len(s.tools("files")) == 0 {
		t.Error("its tools are not listed any more")
	}
	mustCall(t, u, "echo", `{"text":"back"}`, "back")
	st := u.Status()
	if st.Restarts != 1 || st.Pid == pid || st.State != StateReady || st.Errors != 1 {
		t.Errorf("%+v", st)
	}
	if _, removed := s.counts(); len(removed) > 0 {
		t.Errorf("removed %v", removed)
	}
	mustCall(t, upstreamOf(t, m, "other"), "counter", "{}", "1")
}

func TestCrashLeavesHalfAMessage(t *testing.T) {
	t.Parallel()
	m, _ := manage(t, Options{}, program("files"))
	ready(t, m)
	u := upstreamOf(t, m, "files")
	_, err := callTool(t.Context(), u, "crash", `{"half":true}`)
	wantKind(t, err, mcp.KindUpstreamUnavailable, `upstream "files"`, "exit status 3", "told to crash")
	mustCall(t, u, "echo", `{"text":"back"}`, "back")
}

// A server that hangs, or prints what is no message, or ends at once, costs no
// other server anything, and what it does is said.
func TestBadServersDelayNobody(t *testing.T) {
	t.Parallel()
	began := time.Now()
	m, s := manage(t, Options{ReadyBudget: 300 * time.Millisecond, StartTimeout: 15 * time.Second},
		program("hang", "-init", "hang"), program("exit", "-init", "exit"), program("refuse", "-init", "error"),
		program("junk", "-init", "junk"), program("missing-"), program("good"))
	m.Apply([]*mcpserver.Server{
		program("hang", "-init", "hang"), program("exit", "-init", "exit"), program("refuse", "-init", "error"),
		program("junk", "-init", "junk"), {Name: "missing", Command: "no-such-program-here"}, program("good"),
	})
	for _, name := range []string{"good", "junk"} {
		u := upstreamOf(t, m, name)
		eventually(t, name+" is listed", func() bool { return u.Status().Listed })
		mustCall(t, u, "echo", `{"text":"hello"}`, "hello")
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %s", took)
	}
	_, err := callTool(t.Context(), upstreamOf(t, m, "hang"), "echo", "{}")
	wantKind(t, err, mcp.KindUpstreamStarting, `upstream "hang"`, "not become ready")
	for name, text := range map[string]string{"exit": "exit status 1", "missing": "no-such-program-here", "refuse": "refused initialize"} {
		u := upstreamOf(t, m, name)
		eventually(t, name+" has failed", func() bool { return u.Status().State == StateFailed })
		_, err := callTool(t.Context(), u, "echo", "{}")
		wantKind(t, err, mcp.KindUpstreamUnavailable, `upstream "`+name+`"`, text)
		if st := u.Status(); st.Listed || !strings.Contains(st.LastError, text) {
			t.Errorf("%+v", st)
		}
	}
	hang := upstreamOf(t, m, "hang")
	eventually(t, "hang has failed", func() bool { return strings.Contains(hang.Status().LastError, "did not answer initialize within 15s") })
	if len(s.tools("good")) == 0 || len(s.tools("junk")) == 0 {
		t.Error("tools are missing")
	}
}

func TestReadyNamesRequired(t *testing.T) {
	t.Parallel()
	needed := program("needed", "-init", "exit")
	needed.Required = true
	m, _ := manage(t, Options{}, needed, program("good"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	wantKind(t, m.Ready(ctx), mcp.KindUpstreamUnavailable, `upstream "needed" is required`, "exit status 1")
}

func TestManyPages(t *testing.T) {
	t.Parallel()
	m, s := manage(t, Options{}, program("many", "-bare", "-tools", "3000", "-pages", "30"))
	ready(t, m)
	tools := s.tools("many")
	if len(tools) != 3000 || tools[0] != "tool_0000" || tools[2999] != "tool_2999" {
		t.Errorf("%d tools, %v …", len(tools), tools[:min(3, len(tools))])
	}
	if st := upstreamOf(t, m, "many").Status(); st.Tools != 3000 || !st.Listed {
		t.Errorf("%+v", st)
	}
}

func TestBrokenSchemas(t *testing.T) {
	t.Parallel()
	live := catalog.NewLive(catalog.New(catalog.Limits{}), catalog.LiveOptions[*catalog.Catalog]{})
	m, _ := manage(t, Options{Sink: live}, program("broken", "-broken", "-bare", "-tools", "2"))
	ready(t, m)
	report, ok := live.Report("broken")
	if !ok || !report.Has(catalog.FoundSchema) {
		t.Fatalf("%+v", report)
	}
	names := map[string]*catalog.Entry{}
	for _, e := range live.Snapshot().Entries() {
		names[e.RawName] = e
	}
	if names["tool_0000"] == nil || names["broken_type"] == nil || names["broken_type"].SchemaError() == nil {
		t.Errorf("%d entries", len(names))
	}
	mustCall(t, upstreamOf(t, m, "broken"), "tool_0001", `{"text":"fine"}`, "fine")
}

func TestListChangedBeforeInitialize(t *testing.T) {
	t.Parallel()
	m, s := manage(t, Options{}, program("eager", "-list-changed-before-init"))
	ready(t, m)
	mustCall(t, upstreamOf(t, m, "eager"), "set_tools", `{"n":5}`, "done")
	eventually(t, "the new tools are listed", func() bool { return slices.Contains(s.tools("eager"), "tool_0004") })
	if updates, _ := s.counts(); updates != 2 {
		t.Errorf("%d updates", updates)
	}
}

func TestIncludeAndExclude(t *testing.T) {
	t.Parallel()
	cfg := program("files", "-tools", "3")
	cfg.IncludeTools, cfg.ExcludeTools = []string{"tool_*", "echo"}, []string{"*_0001"}
	m, s := manage(t, Options{}, cfg)
	ready(t, m)
	if got := s.tools("files"); !slices.Equal(got, []string{"echo", "tool_0000", "tool_0002"}) {
		t.Errorf("%v", got)
	}
}

// What a server starts must not survive it, however it ends.
func TestGrandchildDies(t *testing.T) {
	t.Parallel()
	m, _ := manage(t, Options{}, program("files"), program("immune", "-immune"))
	ready(t, m)
	var pids []int
	for _, name := range []string{"files", "immune"} {
		u := upstreamOf(t, m, name)
		text, err := callTool(t.Context(), u, "grandchild", "{}")
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(text)
		if err != nil || !proctest.Alive(pid) {
			t.Fatalf("%q, %v", text, err)
		}
		pids = append(pids, pid, u.Status().Pid)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := m.Close(ctx); err == nil {
		t.Error("a server that is immune to SIGTERM ended in time")
	}
	for _, pid := range pids {
		eventually(t, "process "+itoa(pid)+" is gone", func() bool { return !proctest.Alive(pid) })
	}
	_, err := callTool(t.Context(), upstreamOf(t, m, "files"), "echo", "{}")
	wantKind(t, err, mcp.KindUpstreamUnavailable, "shutting down")
}

// serveHTTP runs a server on an address until stop is called.
func serveHTTP(t *testing.T, address string, args ...string) (url string, stop func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"-http", address}, args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stderr).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	t.Cleanup(stop)
	return strings.TrimSpace(strings.TrimPrefix(line, "fakemcp: listening on ")), stop
}

// freeAddress is where a server may listen, and again after its end.
func freeAddress(t *testing.T) string {
	t.Helper()
	all, err := proctest.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

func remote(name, url string, transport mcpserver.Transport) *mcpserver.Server {
	return &mcpserver.Server{Name: name, Namespace: name, URL: url, Type: transport, Start: mcpserver.StartBoot, Timeout: 20 * time.Second}
}

// A lost session is made again and the call with it, because the server has
// certainly not looked at the call.
func TestRestartsOnTheSamePort(t *testing.T) {
	t.Parallel()
	at := freeAddress(t)
	url, stop := serveHTTP(t, at, "-versions", "2025-11-25")
	m, _ := manage(t, Options{}, remote("web", url, mcpserver.TransportHTTP))
	ready(t, m)
	u := upstreamOf(t, m, "web")
	mustCall(t, u, "counter", "{}", "1")
	stop()
	serveHTTP(t, at, "-versions", "2025-11-25")
	mustCall(t, u, "counter", "{}", "1")
	mustCall(t, u, "counter", "{}", "2")
	if st := u.Status(); st.State != StateReady || st.Restarts < 1 || st.Version != mcp.V20251125 {
		t.Errorf("%+v", st)
	}
}

func TestLostSession(t *testing.T) {
	t.Parallel()
	url, _ := serveHTTP(t, "127.0.0.1:0", "-lose-session", "2", "-versions", "2025-06-18")
	m, _ := manage(t, Options{}, remote("web", url, mcpserver.TransportHTTP))
	ready(t, m)
	u := upstreamOf(t, m, "web")
	for i := range 6 {
		if text, err := callTool(t.Context(), u, "echo", `{"text":"x"}`); err != nil || text != "x" {
			t.Fatalf("call %d: %q, %v", i, text, err)
		}
	}
	if u.Status().Restarts == 0 {
		t.Error("no session was lost")
	}
}

func TestDeadHTTPServer(t *testing.T) {
	t.Parallel()
	at := freeAddress(t)
	url, stop := serveHTTP(t, at, "-versions", "2025-11-25")
	m, s := manage(t, Options{Grace: time.Second, ReadyBudget: time.Second}, remote("web", url, mcpserver.TransportHTTP))
	ready(t, m)
	u := upstreamOf(t, m, "web")
	failed := make(chan error, 1)
	go func() {
		_, err := callTool(t.Context(), u, "sleep", `{"sleep_ms":60000}`)
		failed <- err
	}()
	eventually(t, "the call is in flight", func() bool { return u.Status().InFlight == 1 })
	time.Sleep(50 * time.Millisecond)
	stop()
	wantKind(t, <-failed, mcp.KindUpstreamUnavailable, `upstream "web"`)
	if len(s.tools("web")) == 0 {
		t.Error("its tools are gone at once")
	}
	_, err := callTool(t.Context(), u, "echo", "{}")
	wantKind(t, err, mcp.KindUpstreamUnavailable, `upstream "web"`, "refused the connection")
	eventually(t, "its tools are removed", func() bool { _, removed := s.counts(); return slices.Contains(removed, "web") })
	serveHTTP(t, at)
	eventually(t, "its tools are back", func() bool { return len(s.tools("web")) > 0 })
	mustCall(t, u, "echo", `{"text":"back"}`, "back")
}

func TestTransportsAndEras(t *testing.T) {
	t.Parallel()
	both, _ := serveHTTP(t, "127.0.0.1:0")
	legacy, _ := serveHTTP(t, "127.0.0.1:0", "-versions", "2025-06-18")
	modern, _ := serveHTTP(t, "127.0.0.1:0", "-versions", "2026-07-28")
	m, _ := manage(t, Options{},
		remote("both", both, mcpserver.TransportHTTP), remote("legacy", legacy, mcpserver.TransportHTTP), remote("modern", modern, mcpserver.TransportHTTP),
		remote("sse", strings.TrimSuffix(legacy, "/mcp")+"/sse", mcpserver.TransportSSE),
		remote("sse-unsaid", strings.TrimSuffix(legacy, "/mcp")+"/sse", mcpserver.TransportHTTP),
		program("stdio-legacy", "-versions", "2024-11-05"), program("stdio-modern", "-versions", "2026-07-28"),
		program("exit-discover", "-init", "exit-discover", "-versions", "2025-03-26"))
	ready(t, m)
	for _, c := range []struct {
		name    string
		version string
		target  bool
		modern  bool // has a modern connection
	}{
		{"both", "2025-11-25", true, true}, {"legacy", "2025-06-18", true, false}, {"modern", "2026-07-28", true, true},
		{"sse", "2025-06-18", false, false}, {"sse-unsaid", "2025-06-18", false, false},
		{"stdio-legacy", "2024-11-05", false, false}, {"stdio-modern", "2026-07-28", false, true},
		{"exit-discover", "2025-03-26", false, false},
	} {
		u := upstreamOf(t, m, c.name)
		st := u.Status()
		if st.State != StateReady || st.Version != c.version || st.Tools == 0 || !strings.Contains(string(st.ServerInfo), "fakemcp") {
			t.Errorf("%s: %+v", c.name, st)
		}
		if target, ok := u.Target(); ok != c.target || ok && (target.URL.Host == "" || target.Version != c.version || target.Process) {
			t.Errorf("%s: target %+v, %v", c.name, target, ok)
		}
		mustCall(t, u, "echo", `{"text":"a"}`, "a")
		mustCall(t, u.Era(true), "region", `{"region":"eu"}`, "eu")
		mustCall(t, u.Era(false), "echo", `{"text":"b"}`, "b")
		hello, err := u.Hello(t.Context(), true)
		if err != nil || hello.Modern != c.modern {
			t.Errorf("%s: a modern agent sees %s, %v", c.name, hello.Version, err)
		}
		// A modern agent's params must not make a legacy connection modern.
		params := json.RawMessage(`{"name":"echo","arguments":{"text":"c"},"_meta":` + string(mcp.ModernMeta(mcp.V20260728, []byte(`{"name":"a","version":"1"}`), []byte(`{}`))) + `}`)
		result, err := u.Call(t.Context(), "tools/call", params, nil)
		if err != nil || strings.Contains(string(result), "resultType") != c.modern {
			t.Errorf("%s: a modern call gets %s, %v", c.name, result, err)
		}
	}
}

// command beside url: weir starts the program and speaks HTTP to it.
func TestProgramAtURL(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	cfg := program("web", "-http", address)
	cfg.URL, cfg.Type = "http://"+address+"/mcp", mcpserver.TransportHTTP
	gone := program("gone", "-init", "exit", "-http", "256.0.0.1:1")
	gone.URL, gone.Type = "http://127.0.0.1:9/mcp", mcpserver.TransportHTTP
	m, _ := manage(t, Options{}, cfg, gone)
	ready(t, m)
	u := upstreamOf(t, m, "web")
	mustCall(t, u, "echo", `{"text":"a"}`, "a")
	pid := u.Status().Pid
	if target, ok := u.Target(); !ok || !target.Process || pid == 0 {
		t.Errorf("%+v, %v, pid %d", target, ok, pid)
	}
	release, err := u.Hold(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	release(nil)
	// Whoever finds that nobody listens any more may say so: the program is started
	// again, once.
	if release, err = u.Hold(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	release(errors.New("nobody listens"))
	release(errors.New("nobody listens"))
	if release, err = u.Hold(t.Context(), false); err != nil || u.Status().Pid == pid || u.Status().Restarts != 1 {
		t.Fatalf("%v, %+v, was pid %d", err, u.Status(), pid)
	}
	release(nil)
	pid = u.Status().Pid
	if err := proctest.Kill(pid); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the death is noticed", func() bool { return u.Status().Pid != pid })
	mustCall(t, u, "echo", `{"text":"b"}`, "b")
	_, err = callTool(t.Context(), upstreamOf(t, m, "gone"), "echo", "{}")
	wantKind(t, err, mcp.KindUpstreamUnavailable, `upstream "gone"`, "program ended")
}

// The program beside a url runs once, whoever connects to it, and outlives a session that
// it has forgotten; when it ends, all connect to the next one.
func TestProgramAtURLIsShared(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	cfg := program("web", "-http", address, "-lose-session", "2")
	cfg.URL, cfg.Type = "http://"+address+"/mcp", mcpserver.TransportHTTP
	m, _ := manage(t, Options{}, cfg)
	ready(t, m)
	u := upstreamOf(t, m, "web")
	pid := u.Status().Pid
	programs := func() int {
		u.programs.mu.Lock()
		defer u.programs.mu.Unlock()
		return len(u.programs.all)
	}
	calls := func(session *mcp.Session) {
		t.Helper()
		for i := range 5 {
			for _, modern := range []bool{false, true} {
				result, err := u.Era(modern).Call(mcp.WithCaller(t.Context(), session), "tools/call", json.RawMessage(`{"name":"echo","arguments":{"text":"a"}}`), nil)
				if err != nil || !strings.Contains(string(result), `"a"`) {
					t.Fatalf("call %d, modern %v: %s, %v", i, modern, result, err)
				}
				if n := programs(); n != 1 {
					t.Fatalf("%d programs run", n)
				}
			}
		}
	}
	calls(nil)
	if got := u.Status(); got.Pid != pid || got.Restarts == 0 {
		t.Errorf("after lost sessions: %+v, want pid %d", got, pid)
	}
	if err := proctest.Kill(pid); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the death is noticed", func() bool { return u.Status().Pid != pid })
	calls(nil)
	if u.Status().Pid == pid {
		t.Error("the program was not started again")
	}
}

// A changed server starts again alone; one that is gone takes its tools along.
func TestApply(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	logged := func(name string) string {
		data, _ := os.ReadFile(filepath.Join(dir, name))
		return string(data)
	}
	server := func(name string, args ...string) *mcpserver.Server {
		return program(name, append(args, "-log", filepath.Join(dir, name))...)
	}
	m, s := manage(t, Options{}, server("a"), server("b"), server("c"))
	ready(t, m)
	pid := upstreamOf(t, m, "a").Status().Pid
	off := server("d")
	off.Disabled = true
	m.Apply([]*mcpserver.Server{server("c", "-tools", "1"), server("a"), off})
	ready(t, m)
	eventually(t, "b is gone", func() bool { _, removed := s.counts(); return slices.Contains(removed, "b") })
	eventually(t, "c has its new tool", func() bool { return slices.Contains(s.tools("c"), "tool_0000") })
	if got := upstreamOf(t, m, "a").Status().Pid; got != pid {
		t.Error("a was started again")
	}
	if logged("a") != "initialize 2025-11-25\n" || strings.Count(logged("c"), "initialize") != 2 {
		t.Errorf("a: %q, c: %q", logged("a"), logged("c"))
	}
	if got := m.Names(); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("%v", got)
	}
	_, err := m.Peer(t.Context(), "b")
	wantKind(t, err, mcp.KindNotFound, `"b"`, "a, c")
	_, err = m.Peer(t.Context(), "d")
	wantKind(t, err, mcp.KindNotFound, `"d"`, "disabled")
	status := m.Status()
	if len(status) != 3 || status[2].State != StateDisabled || status[0].Name != "c" {
		t.Errorf("%+v", status)
	}
	eventually(t, "a is listed in its new place", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.listings["a"].Order == 1
	})
}

// TestFoundPlaces: a found server that comes makes no other one list again, also if its name sorts before theirs.
func TestFoundPlaces(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: toolsOnly, tools: []string{"a"}}
	inBubble(t, f, Options{}, &mcpserver.Server{}, func(t *testing.T, m *Manager, s *sink) {
		var servers, found []*mcpserver.Server
		for i := range 20 { // the later the server comes, the earlier is its name
			one := &mcpserver.Server{Name: fmt.Sprintf("s%02d", 20-i), Namespace: fmt.Sprintf("s%02d", 20-i), Command: "fake"}
			found = append([]*mcpserver.Server{one}, found...)
			m.Apply(servers, found...)
			time.Sleep(10 * time.Second)
		}
		if updates, _ := s.counts(); updates != 1+20 {
			t.Errorf("%d listings of 21 servers", updates)
		}
	})
}

// Calls that are on their way when another finds the session lost are answered.
func TestLostSessionCutsNoOtherCall(t *testing.T) {
	t.Parallel()
	var sessions, calls atomic.Int64
	slow := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		msg, err := jsonrpc.Parse(body)
		current := itoa(int(sessions.Load()))
		result := `{"content":[{"type":"text","text":"` + current + `"}]}`
		switch {
		case r.Method != http.MethodPost || err != nil:
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		case msg.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", itoa(int(sessions.Add(1))))
			result = `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"1"}}`
		case msg.ID == "":
			w.WriteHeader(http.StatusAccepted)
			return
		case r.Header.Get("Mcp-Session-Id") != current:
			w.WriteHeader(http.StatusNotFound)
			return
		case msg.Method == "tools/list":
			result = `{"tools":[]}`
		case calls.Add(1) == 1:
			<-slow
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(msg.ID)+`,"result":`+result+`}`)
	}))
	t.Cleanup(server.Close)
	m, _ := manage(t, Options{}, remote("web", server.URL, mcpserver.TransportHTTP))
	ready(t, m)
	u := upstreamOf(t, m, "web")
	answered := make(chan error, 1)
	go func() {
		_, err := callTool(t.Context(), u, "slow", "{}")
		answered <- err
	}()
	eventually(t, "the slow call is on its way", func() bool { return calls.Load() == 1 })
	sessions.Add(1) // the server forgets
	mustCall(t, u, "fast", "{}", "3")
	if n := u.Status().Restarts; n != 1 {
		t.Errorf("%d restarts", n)
	}
	close(slow)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// A server that is taken out and put back in within a moment keeps its tools.
func TestTakenOutAndPutBack(t *testing.T) {
	t.Parallel()
	m, s := manage(t, Options{}, program("a"))
	ready(t, m)
	for range 3 {
		m.Apply(nil)
		m.Apply([]*mcpserver.Server{program("a")})
	}
	ready(t, m)
	if len(s.tools("a")) == 0 || m.Status()[0].State != StateReady {
		t.Errorf("%+v", m.Status())
	}
	mustCall(t, upstreamOf(t, m, "a"), "echo", `{"text":"x"}`, "x")
}
