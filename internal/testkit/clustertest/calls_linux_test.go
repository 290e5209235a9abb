package clustertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/testkit/clustertest"
)

// counter is an MCP server whose tool counts how often each call has run.
type counter struct {
	mu   sync.Mutex // guards runs
	runs map[string]int
}

// add notes that a call runs.
func (c *counter) add(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[id]++
}

// count returns how often a call has run.
func (c *counter) count(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs[id]
}

// ranTwice says which calls have run more than once.
func (c *counter) ranTwice() (found []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, runs := range c.runs {
		if runs > 1 && id != settled {
			found = append(found, fmt.Sprintf("%s ran %d times", id, runs))
		}
	}
	return found
}

// settled is the id of calls that are made until they work.
const settled = "settled"

type countArgs struct {
	ID string `json:"id"`
	Ms int    `json:"ms"`
}

// serveCounter starts the server and returns its URL.
func serveCounter(t *testing.T) (*counter, string) {
	t.Helper()
	c := &counter{runs: map[string]int{}}
	s := mcp.NewServer(&mcp.Implementation{Name: "counter", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "count", Description: "Counts."}, func(ctx context.Context, _ *mcp.CallToolRequest, a countArgs) (*mcp.CallToolResult, any, error) {
		c.add(a.ID)
		sleep(ctx, time.Duration(a.Ms)*time.Millisecond)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "counted " + a.ID}}}, nil, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{JSONResponse: true}))
	t.Cleanup(func() {
		web.Close()
		for left := range s.Sessions() { // of gateways that were killed
			_ = left.Close()
		}
	})
	return c, web.URL
}

// session is one of a legacy client, at an endpoint of all nodes.
type session struct {
	path, id string
	client   *http.Client
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

// post sends a message to a node and returns what it answers.
func (s *session) post(ctx context.Context, n *clustertest.Node, body string) (status int, answer string, id string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.URL+s.path, strings.NewReader(body))
	if err != nil {
		return 0, "", "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if s.id != "" {
		req.Header.Set("Mcp-Session-Id", s.id)
		req.Header.Set("Mcp-Protocol-Version", "2025-06-18")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, "", "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), resp.Header.Get("Mcp-Session-Id"), err
}

// open makes a session.
func open(t *testing.T, n *clustertest.Node, path string) *session {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true} // a kept connection to a killed node would fail later
	t.Cleanup(transport.CloseIdleConnections)
	s := &session{path: path, client: &http.Client{Transport: transport, Timeout: 2 * time.Minute}}
	status, answer, id, err := s.post(t.Context(), n, hello)
	if err != nil || status != http.StatusOK || id == "" {
		t.Fatalf("initialize: %d %s %v", status, answer, err)
	}
	s.id = id
	if status, answer, _, err = s.post(t.Context(), n, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil || status != http.StatusAccepted {
		t.Fatalf("initialized: %d %s %v", status, answer, err)
	}
	return s
}

// call is the message of a call of the counting tool. No two have one number, as a call may still run whose answer
// was lost.
func (s *session) call(number int, tool, id string, ms int) string {
	params := fmt.Sprintf(`{"name":"count","arguments":{"id":%q,"ms":%d}}`, id, ms)
	if s.path == "/mcp" {
		params = fmt.Sprintf(`{"name":"tool_execute","arguments":{"tool_id":%q,"arguments":{"id":%q,"ms":%d}}}`, tool, id, ms)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, number, params)
}

// toolID returns the id of the counting tool at the gateway.
func toolID(t *testing.T, s *session, n *clustertest.Node) string {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		_, answer, _, err := s.post(t.Context(), n, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool_browse","arguments":{"query":"count"}}}`)
		if err != nil {
			continue
		}
		if at := strings.Index(answer, "counter:count#"); at >= 0 {
			return answer[at : at+len("counter:count#")+8]
		}
	}
	t.Fatal("the counting tool is not listed")
	return ""
}

// The longest time of a call, and what a promise adds to it.
const (
	callTimeout = 10 * time.Second
	callSlack   = 5 * time.Second
)

// refusedPause is the wait after an answer with Retry-After, which is 2 seconds: less, so that tests see more. Without a
// wait, a node that has no store yet answers thousands of calls so in the seconds until it has, and their number says
// nothing.
const refusedPause = 250 * time.Millisecond

// outcomes counts what became of calls.
type outcomes struct {
	mu     sync.Mutex // guards below
	counts map[string]int
	first  map[string]string // one answer of each kind
}

func (o *outcomes) add(what, answer string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts[what]++
	if o.counts[what] == 1 {
		o.first[what] = answer
	}
}

// String returns the counts, sorted.
func (o *outcomes) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []string
	for _, what := range slices.Sorted(maps.Keys(o.counts)) {
		all = append(all, fmt.Sprintf("%s: %d", what, o.counts[what]))
	}
	return strings.Join(all, ", ")
}

// outcome is a short name for an answer.
func outcome(status int, answer string) string {
	var m struct {
		Error *struct {
			Code    int             `json:"code"`
			Message string          `json:"message"`
			Data    json.RawMessage `json:"data"`
		} `json:"error"`
	}
	if i := strings.LastIndex(answer, "data: "); i >= 0 {
		answer = answer[i+len("data: "):]
	}
	if json.Unmarshal([]byte(answer), &m) == nil && m.Error != nil {
		var d struct {
			Kind string `json:"kind"`
		}
		_ = json.Unmarshal(m.Error.Data, &d)
		what := strings.TrimSpace(fmt.Sprint(status, " ", m.Error.Code, " ", d.Kind))
		if d.Kind == "store_unavailable" { // of a node that waits for its store, or of one request
			what += fmt.Sprintf(" (%.30s…)", m.Error.Message)
		}
		return what
	}
	if strings.Contains(answer, "counted ") {
		return fmt.Sprint(status, " counted")
	}
	return fmt.Sprint(status, " other")
}

// TestCalls: while nodes are killed, ended and paused and links break, a call whose entry node lives is answered
// within its timeout and five seconds, no call runs twice, and no session is lost. With -chaos, the NATS server is
// killed and paused, too, and its disk is full; and then one of three servers at a time.
func TestCalls(t *testing.T) {
	testCalls(t, 1)
	if *chaosTime > 0 {
		t.Run("three servers", func(t *testing.T) { testCalls(t, 3) })
	}
}

func testCalls(t *testing.T, servers int) {
	tool, url := serveCounter(t)
	c := clustertest.Start(t, clustertest.Options{Weir: weirBin, Servers: servers, Config: fmt.Sprintf("mode: gateway\nmcpServers: {counter: {url: %q, required: true, timeout: %v}}", url, callTimeout)})
	var sessions []*session
	for i, path := range []string{"/mcp", "/mcps/counter/mcp", "/mcp", "/mcps/counter/mcp", "/mcp", "/mcps/counter/mcp"} {
		sessions = append(sessions, open(t, c.Nodes[i%3], path))
	}
	id := toolID(t, sessions[0], c.Nodes[0])
	breaking, patience := lasts()
	x := newChaos(t, c)
	o := &outcomes{counts: map[string]int{}, first: map[string]string{}}
	var worst time.Duration
	var mu sync.Mutex
	x.run(max(breaking, 15*time.Second), func(ctx context.Context) {
		var all sync.WaitGroup
		for i, s := range sessions {
			all.Go(func() {
				r := rand.New(rand.NewPCG(x.seed, uint64(10+i)))
				for number := 1; ctx.Err() == nil; number++ {
					n := c.Nodes[r.IntN(len(c.Nodes))]
					name, ms := fmt.Sprintf("s%d-%d", i, number), r.IntN(300)
					before, runs := n.Epoch()
					if !runs {
						sleep(ctx, 10*time.Millisecond)
						continue
					}
					bounded, cancel := context.WithTimeout(t.Context(), callTimeout+callSlack+patience())
					began := time.Now()
					status, answer, _, err := s.post(bounded, n, s.call(number, id, name, ms))
					took := time.Since(began)
					cancel()
					if after, runs := n.Epoch(); !runs || after != before {
						o.add("its entry node did not live", "")
						continue
					}
					switch {
					case err != nil && strings.Contains(err.Error(), "connection refused"):
						o.add("its entry node had not started yet", "")
						sleep(ctx, 20*time.Millisecond)
						continue
					case errors.Is(err, context.DeadlineExceeded):
						t.Errorf("%s at %s had no answer in %v", name, n.Name, took)
						x.log("no answer to %s at %s", name, n.Name)
					case err != nil:
						t.Errorf("%s at %s: %v", name, n.Name, err)
						x.log("%s at %s: %v", name, n.Name, err)
					case status == http.StatusNotFound:
						t.Errorf("%s at %s: the session is lost: %s", name, n.Name, answer)
						x.log("%s at %s lost its session", name, n.Name)
						return
					default:
						o.add(outcome(status, answer), answer)
						if status == http.StatusServiceUnavailable {
							sleep(ctx, refusedPause)
						}
					}
					mu.Lock()
					worst = max(worst, took)
					mu.Unlock()
				}
			})
		}
		all.Wait()
	})
	t.Logf("answers: %v; the longest took %v", o, worst)
	for what, answer := range o.first {
		t.Logf("%s: %.400s", what, answer)
	}
	var settling sync.WaitGroup
	for _, s := range sessions {
		settling.Go(func() { settles(t, c, s, id) })
	}
	settling.Wait()
	for _, twice := range tool.ranTwice() {
		t.Error(twice)
	}
}

// settles makes calls in a session at each node until they work.
func settles(t *testing.T, c *clustertest.Cluster, s *session, tool string) {
	t.Helper()
	number := 1 << 30
	for _, n := range c.Nodes {
		last := ""
		for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			status, answer, _, err := s.post(ctx, n, s.call(number, tool, settled, 0))
			cancel()
			number++
			if last = fmt.Sprint(status, " ", answer, err); err == nil && strings.Contains(answer, "counted "+settled) {
				break
			}
			if time.Now().After(end) {
				t.Errorf("a session does not go on at %s: %s", n.Name, last)
				break
			}
		}
	}
}
