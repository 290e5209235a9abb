package clustertest_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/agentserver"
	"github.com/weir-mcp/weir/internal/testkit/clustertest"
)

// agentToken registers the agent of these tests.
const agentToken = "a-token-of-an-agent-0123456789"

// rolling is a cluster whose nodes are replaced in turn while clients work.
type rolling struct {
	*clustertest.Cluster
	t       *testing.T
	serving []*clustertest.Node // at first
	tool    *counter
	id      string // of the counting tool

	number atomic.Int64
	failed atomic.Int64
	done   atomic.Int64
}

// startRolling starts three nodes with the counting tool, which spare ones may follow.
func startRolling(t *testing.T, weir string, spare int, opens ...string) *rolling {
	t.Helper()
	tool, url := serveCounter(t)
	r := &rolling{t: t, tool: tool}
	r.Cluster = clustertest.Start(t, clustertest.Options{Weir: weir, Spare: spare, Opens: opens, Config: fmt.Sprintf("mode: gateway\nmcpServers: {counter: {url: %q, required: true}}", url)})
	r.serving = r.Nodes[:3]
	return r
}

// post sends a message through the balancer.
func (r *rolling) post(s *session, header http.Header, body string) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL+s.path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	for name := range header {
		req.Header.Set(name, header.Get(name))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

// kinds of clients: the gateway and the server itself, in a session and without one, and an agent.
const kinds = 5

// client calls until a context ends. Each call must succeed.
func (r *rolling) client(ctx context.Context, kind int, s *session) {
	random := rand.New(rand.NewPCG(1, uint64(r.number.Add(1))))
	for ctx.Err() == nil {
		number := r.number.Add(1)
		name, ms := fmt.Sprint("c", number), 100+random.IntN(900)
		header, body := http.Header{}, s.call(int(number), r.id, name, ms)
		switch {
		case s.id != "":
			header.Set("Mcp-Session-Id", s.id)
			header.Set("Mcp-Protocol-Version", "2025-06-18")
		default:
			tool := "count"
			if s.path == "/mcp" {
				tool = "tool_execute"
			}
			header.Set("Mcp-Protocol-Version", "2026-07-28")
			header.Set("Mcp-Method", "tools/call")
			header.Set("Mcp-Name", tool)
			body = strings.TrimSuffix(body, "}}") + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
		}
		status, answer, err := r.post(s, header, body)
		r.done.Add(1)
		if err != nil || status != http.StatusOK || !strings.Contains(answer, "counted "+name) {
			r.failed.Add(1)
			if *chaosTime == 0 && strings.Contains(answer, `"node_gone"`) {
				r.t.Logf("on a machine that is slow: %.300s", answer) // nodes did not answer each other in time
				continue
			}
			r.t.Errorf("a call of a client of kind %d (%s): %d %.300s %v", kind, s.path, status, answer, err)
			return
		}
	}
}

// serveAgent starts an agent with the counting tool that registers through the balancer.
func (r *rolling) serveAgent() {
	r.t.Helper()
	tool := agentserver.Func("count", "Counts.", func(ctx context.Context, a countArgs) (string, error) {
		r.tool.add(a.ID)
		sleep(ctx, time.Duration(a.Ms)*time.Millisecond)
		return "counted " + a.ID, nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- agentserver.Run(ctx, agentserver.Options{Name: "helper", Addr: "127.0.0.1:0", Router: r.URL, RouterToken: agentToken, Tools: []agentserver.Tool{tool}})
	}()
	r.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	})
}

// knows waits until a node knows the agent, which registers when it listens.
func (r *rolling) knows(n *clustertest.Node) {
	r.t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	s := &session{path: "/mcps/helper/mcp", client: &http.Client{Transport: transport, Timeout: time.Minute}}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		status, answer, _, err := s.post(r.t.Context(), n, hello)
		if err == nil && status == http.StatusOK {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("%s does not know the agent: %d %s %v", n.Name, status, answer, err)
		}
	}
}

// roll lets nodes be replaced while clients work, and checks that no call has failed and none has run twice. replace
// gets the nodes to replace, and the pause before each of them.
func (r *rolling) roll(clients int, replace func(ctx context.Context, replaced []*clustertest.Node, pause time.Duration)) {
	t := r.t
	t.Helper()
	r.serveAgent()
	replaced := r.serving
	if *chaosTime == 0 {
		clients, replaced = 2*kinds, r.serving[:1]
	}
	var sessions []*session
	for i := range clients {
		n := r.serving[i%len(r.serving)]
		switch i % kinds {
		case 0:
			sessions = append(sessions, open(t, n, "/mcp"))
		case 1:
			sessions = append(sessions, open(t, n, "/mcps/counter/mcp"))
		case 2, 3, 4:
			transport := &http.Transport{DisableKeepAlives: true}
			t.Cleanup(transport.CloseIdleConnections)
			sessions = append(sessions, &session{path: [...]string{"/mcp", "/mcps/counter/mcp", "/mcps/helper/mcp"}[i%kinds-2], client: &http.Client{Transport: transport}})
		}
	}
	r.id = toolID(t, sessions[0], r.serving[0])
	for _, n := range r.serving { // the agent is known everywhere before clients call it
		r.knows(n)
		settles(t, &clustertest.Cluster{Nodes: []*clustertest.Node{n}}, open(t, n, "/mcps/helper/mcp"), r.id)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for i, s := range sessions {
		all.Go(func() { r.client(ctx, i%kinds, s) })
	}
	began := time.Now()
	pause := min(time.Second, 300*time.Millisecond+*chaosTime)
	replace(ctx, replaced, pause)
	sleep(ctx, pause)
	took := time.Since(began)
	cancel()
	all.Wait()
	for _, twice := range r.tool.ranTwice() {
		t.Error(twice)
	}
	t.Logf("%d calls of %d clients while each node was replaced, in %v; failed: %d", r.done.Load(), clients, took, r.failed.Load())
}

// inTurn stops each node, changes it and starts it again, as an operator of machines and a StatefulSet do.
func (r *rolling) inTurn(change func(n *clustertest.Node) error) func(context.Context, []*clustertest.Node, time.Duration) {
	return func(ctx context.Context, replaced []*clustertest.Node, pause time.Duration) {
		_, patience := lasts()
		for _, n := range replaced {
			sleep(ctx, pause)
			if err := n.Terminate(endTime + patience()); err != nil {
				r.t.Error(err)
			}
			if err := change(n); err != nil {
				r.t.Error(err)
			}
			if err := n.Start(); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

// surge replaces each node as a Deployment does with maxSurge: 1 and maxUnavailable: 0. A new node starts in the spare
// place, and gets requests when it is ready. The old one gets none from then on, waits as preStop does, gets SIGTERM and
// drains. Its place is the next spare one.
func (r *rolling) surge(spare *clustertest.Node) func(context.Context, []*clustertest.Node, time.Duration) {
	return func(ctx context.Context, replaced []*clustertest.Node, pause time.Duration) {
		_, patience := lasts()
		for _, old := range replaced {
			sleep(ctx, pause)
			spare.Remove()
			spare.Upgrade(weirBin)
			if err := spare.Start(); err != nil {
				r.t.Fatal(err)
			}
			spare.Restore()
			old.Remove()
			sleep(ctx, pause)
			if err := old.Terminate(endTime + patience()); err != nil {
				r.t.Error(err)
			}
			spare = old
		}
	}
}

// TestUpgrade: nodes of the release before are replaced in turn by this weir while 50 clients have calls in flight,
// in sessions and without, and an agent serves some of them. No call fails, and none runs twice. Without -chaos one node
// is replaced, under the calls of ten clients.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	old := olderWeir(t)
	r := startRolling(t, old, 0)
	r.roll(50, r.inTurn(func(n *clustertest.Node) error { n.Upgrade(weirBin); return nil }))
}

// TestRollingUpdate: the same, in the order of a Deployment on Kubernetes: there are never fewer than three nodes that
// are ready.
func TestRollingUpdate(t *testing.T) {
	t.Parallel()
	r := startRolling(t, olderWeir(t), 1)
	r.roll(50, r.surge(r.Nodes[3]))
}

// TestKeyChanges: the key of a cluster changes node by node under the same load, from one that all nodes open to the next
// one. No call fails.
func TestKeyChanges(t *testing.T) {
	t.Parallel()
	r := startRolling(t, weirBin, 0, clustertest.Key2)
	r.roll(20, r.inTurn(func(n *clustertest.Node) error { return n.Rekey(clustertest.Key2, clustertest.Key) }))
}

// olderWeir returns the program that an upgrade replaces.
func olderWeir(t *testing.T) string {
	t.Helper()
	commit := *before
	if commit == "" {
		if commit = newestTag(); commit == "" {
			t.Log("no release knows clusters: this program is replaced by itself")
			return weirBin
		}
	}
	tree, bin := filepath.Join(t.TempDir(), "tree"), filepath.Join(t.TempDir(), "weir")
	if err := os.Mkdir(tree, 0o700); err != nil {
		t.Fatal(err)
	}
	script := `git -C "$0" archive "$1" | tar -x -C "$2" && cd "$2" && go build -buildvcs=false -o "$3" ./cmd/weir`
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", script, filepath.Join("..", "..", ".."), commit, tree, bin).CombinedOutput(); err != nil {
		t.Fatalf("weir of %s: %v\n%s", commit, err, out)
	}
	t.Logf("replaced: weir of %s", commit)
	return bin
}

// newestTag returns the newest tag whose weir knows clusters, "" without one or without git.
func newestTag() string {
	out, err := exec.Command("git", "-C", filepath.Join("..", "..", ".."), "tag", "--sort=-creatordate", "--list", "v*").Output()
	if err != nil {
		return ""
	}
	for tag := range strings.Lines(string(out)) {
		tag = strings.TrimSpace(tag)
		if exec.Command("git", "-C", filepath.Join("..", "..", ".."), "cat-file", "-e", tag+":internal/cluster/node.go").Run() == nil {
			return tag
		}
	}
	return ""
}
