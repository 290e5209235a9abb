package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/weir-mcp/weir/internal/testkit/natstest"
	"github.com/weir-mcp/weir/internal/web/api"
)

// startNATS starts a NATS server and returns its address.
func startNATS(t *testing.T) string {
	t.Helper()
	return natstest.Start(t, natsserver.Options{}).At()
}

// settles asks for tools in a session at a gateway until that works. A list may run twice.
func settles(t *testing.T, at *server, session string) {
	t.Helper()
	c := &plainClient{at.base + "/mcp", session}
	var status int
	var answer string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if status, answer = c.ask(t, "tools/list", "{}"); status == http.StatusOK && strings.Contains(answer, `"result"`) {
			return
		}
		if status == http.StatusNotFound {
			break // the client would have to begin anew
		}
	}
	t.Fatalf("the session has not gone on: %d %s", status, answer)
}

// works calls a tool in a session at each of several gateways in turn.
func works(t *testing.T, session string, gateways ...*server) {
	t.Helper()
	for i := range 2 * len(gateways) {
		c := &plainClient{gateways[i%len(gateways)].base + "/mcp", session}
		if status, answer := c.ask(t, "tools/call", `{"name":"tool_browse","arguments":{"query":"echo"}}`); status != http.StatusOK || !strings.Contains(answer, `"result"`) {
			t.Errorf("a call: %d %s", status, answer)
		}
	}
}

// serveNode serves a gateway that shares a store on NATS. more are further lines of its configuration.
func serveNode(t *testing.T, name string, up *httptest.Server, nats, more string) *server {
	t.Helper()
	return serve(t, fmt.Sprintf(`
mode: gateway
mcpServers: {up: {url: %q, required: true}}
store: {at: "nats://%s", max_bytes: 16MB}
cluster: {node: %s, key: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=, listen: "127.0.0.1:0"}
%s`, up.URL+"/mcp", nats, name, more))
}

// TestKilledNode: sessions work at each of two gateways that share a store on NATS. They go on at the other
// one, without a handshake, after one is killed or ends.
func TestKilledNode(t *testing.T) {
	t.Parallel()
	nats, up := startNATS(t), fakeServer(t)
	a, b := serveNode(t, "a", up, nats, ""), serveNode(t, "b", up, nats, "")
	first, second := newPlainClient(t, a.base+"/mcp").session, newPlainClient(t, b.base+"/mcp").session
	works(t, first, a, b)
	works(t, second, a, b)

	var seen api.ClusterStatus
	var out string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		r := weir(t, "cluster", "--json", "--url", a.base+"/mcp")
		r.want(t, exitOK, `"nodes"`)
		if out = r.stdout; json.Unmarshal([]byte(out), &seen) == nil && len(seen.Nodes) == 2 && seen.Nodes[0].Config != "" && seen.Nodes[1].Config != "" && seen.Nodes[1].Sessions > 0 {
			break // it has told of itself in a renewal
		}
	}
	if len(seen.Nodes) != 2 || seen.Nodes[0].Name != "a" || !seen.Nodes[0].Self || seen.Nodes[0].Config != seen.Nodes[1].Config || seen.Nodes[1].Version == "" || seen.Nodes[1].Sessions == 0 {
		t.Errorf("the nodes: %s", out)
	}
	weir(t, "cluster", "status", "--url", b.base+"/mcp").want(t, exitOK, "NODE")
	weir(t, "cluster", "drain", "nobody-knows", "--url", b.base+"/mcp").want(t, exitRefused, "there are: a, b")
	if r := weir(t, "stats", "--url", a.base+"/mcp"); r.code != exitOK || !strings.Contains(r.stderr, "the sum of a, b") {
		t.Errorf("the usage of both: %+v", r)
	}
	for _, command := range [][]string{{"stats"}, {"ls"}, {"logs"}} {
		weir(t, append(command, "--node", "b", "--url", a.base+"/mcp")...).want(t, exitOK, "")
		weir(t, append(command, "--node", "x", "--url", a.base+"/mcp")...).want(t, exitRefused, "there are: a, b")
	}

	a.end(syscall.SIGKILL)
	settles(t, b, first)
	works(t, first, b)
	works(t, second, b)

	c := serveNode(t, "c", up, nats, "")
	works(t, first, b, c)
	works(t, second, b, c)

	weir(t, "cluster", "drain", "b", "--wait", "20s", "--url", c.base+"/mcp").want(t, exitOK, "")
	if resp, err := http.Get(b.base + "/readyz"); err != nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("/readyz of a drained node: %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
	works(t, first, b, c)
	works(t, second, b, c)
	weir(t, "cluster", "status", "--url", c.base+"/mcp").want(t, exitOK, "draining")
	b.end(syscall.SIGTERM)
	settles(t, c, first)
	settles(t, c, second)
	works(t, first, c)
	works(t, second, c)
}

// TestStartWithoutStore: a node that starts while its store is away opens sessions, takes its place in the cluster when the
// store is there, and has the sessions then.
func TestStartWithoutStore(t *testing.T) {
	t.Parallel()
	at, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	front, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	s, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: at, JetStream: true, StoreDir: t.TempDir(), NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	base := fmt.Sprintf("http://127.0.0.1:%d", front)
	told := make(chan string, 1)
	go func() {
		defer close(told)
		client := &http.Client{Timeout: 20 * time.Second}
		defer client.CloseIdleConnections()
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			resp, err := client.Post(base+"/mcp", "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`))
			if err != nil {
				continue // it does not listen yet
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			told <- resp.Header.Get("Mcp-Session-Id")
			return
		}
	}()
	path := writeConfig(t, "weir.yaml", fmt.Sprintf(`
mcpServers: {fake: {command: %%FAKE%%}}
store: {at: "nats://127.0.0.1:%d", max_bytes: 16MB}
cluster: {node: a, key: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=, listen: "127.0.0.1:0"}
`, at))
	a := start(t, path, "serve", "--config", path, "--listen", fmt.Sprintf("127.0.0.1:%d", front))
	session := <-told
	r := weir(t, "cluster", "--url", a.base+"/mcp")
	r.want(t, exitTool, "apart")
	if !strings.Contains(r.stdout, "a *") || !strings.Contains(r.stderr, "the store of its cluster does not answer") {
		t.Errorf("a node without its store: %+v", r)
	}
	s.Start()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get(a.base + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil && resp.StatusCode == http.StatusOK && strings.Contains(string(body), `"ok"`) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the node has not joined")
		}
	}
	ping, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.base+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":8,"method":"ping"}`))
	if err != nil {
		t.Fatal(err)
	}
	ping.Header.Set("Content-Type", "application/json")
	ping.Header.Set("Accept", "application/json, text/event-stream")
	ping.Header.Set("Mcp-Session-Id", session)
	resp, err := http.DefaultClient.Do(ping)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if session == "" || resp.StatusCode != http.StatusOK {
		t.Errorf("the session %q of before the store: %s", session, resp.Status)
	}
	newPlainClient(t, a.base+"/mcp")
}

// TestHolders: the table of nodes is followed by that of servers with one holder.
func TestHolders(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	a := &process{stdout: terminal{Writer: &out}}
	err := showNodes(a, api.ClusterStatus{
		Nodes:   []api.ClusterNode{{Name: "a", Inc: "aaaaaa", State: "up"}},
		Servers: []api.ClusterServer{{Name: "ledger", Node: "a", Inc: "aaaaaa"}, {Name: "printer"}},
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	_, servers, _ := strings.Cut(out.String(), "\n\n")
	if want := "SERVER HOLDER INC ledger a aaaaaa printer none"; strings.Join(strings.Fields(servers), " ") != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// TestEvents: the events of two gateways are read at one of them, also those of a gateway that was killed since.
func TestEvents(t *testing.T) {
	t.Parallel()
	nats, up := startNATS(t), fakeServer(t)
	a, b := serveNode(t, "a", up, nats, "events: {stream: true}\n"), serveNode(t, "b", up, nats, "events: {stream: true}\n")
	for _, one := range []*server{a, b} {
		works(t, newPlainClient(t, one.base+"/mcp").session, one)
	}
	reads := func(nodes ...string) {
		t.Helper()
		missing := ""
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			out := weir(t, "events", "--since", "10m", "--url", b.base+"/mcp").want(t, exitOK).stdout
			missing = ""
			for _, name := range nodes {
				if !strings.Contains(out, name+"  browse.completed") {
					missing += " " + name
				}
			}
			if missing == "" {
				return
			}
		}
		t.Fatalf("there are no events of%s", missing)
	}
	reads("a", "b")
	a.end(syscall.SIGKILL)
	reads("a", "b")
	weir(t, "events", "--json", "--url", b.base+"/mcp").want(t, exitOK, `"event":"browse.completed"`, `"node":"a","inc":"`, `"node":"b","inc":"`)
	weir(t, "events", "--since", "soon", "--url", b.base+"/mcp").want(t, exitUsage, "--since")
	if status, page := exchange(t, http.MethodGet, b.base+"/metrics", ""); status != http.StatusOK || !strings.Contains(page, `weir_stream_events_total{outcome="sent"}`) || !strings.Contains(page, `weir_stream_events_total{outcome="lost"} 0`) {
		t.Errorf("the metrics of the stream: %d", status)
	}

	without := serve(t, fmt.Sprintf("mcpServers: {up: {url: %q}}", up.URL+"/mcp"))
	weir(t, "events", "--url", without.base+"/mcp").want(t, exitRefused, "events: {stream: true}")
}
