package clustertest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/clustertest"
)

// TestStoreAway: while the store is away, or its disk is full, calls that share nothing go on, and what needs
// the store says so: 503 with Retry-After, and RATE_LIMITED where a quota cannot be counted. When it is back,
// all goes on.
func TestStoreAway(t *testing.T) {
	_, url := serveCounter(t)
	c := clustertest.Start(t, clustertest.Options{
		Weir: weirBin, Nodes: 2, Config: fmt.Sprintf("mode: gateway\nrate_limits: {tool_browse: {max_calls_per_minute: 15}}\nmcpServers: {counter: {url: %q, required: true}}", url),
	})
	first, second := c.Nodes[0], c.Nodes[1]
	s, direct := open(t, first, "/mcp"), open(t, first, "/mcps/counter/mcp")
	id := toolID(t, s, first)
	number := 0
	send := func(method, path, name, body string) (int, http.Header, string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if name != "" {
			r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
			r.Header.Set("Mcp-Method", "tools/call")
			r.Header.Set("Mcp-Name", name)
		}
		resp, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header, string(answer)
	}
	modern := func(n *clustertest.Node, name, arguments string) string {
		t.Helper()
		number++
		status, _, answer := send(http.MethodPost, n.URL+"/mcp", name, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
			number, name, arguments))
		if status != http.StatusOK {
			t.Errorf("at %s: %d %s", n.Name, status, answer)
		}
		return answer
	}
	count := fmt.Sprintf(`{"tool_id":%q,"arguments":{"id":%q,"ms":0}}`, id, settled)
	// goesOn makes calls that share nothing: of clients without sessions, and in sessions at their node and,
	// where the peer link knows the way, at the other one.
	goesOn := func(sessions ...*session) (wrong []string) {
		t.Helper()
		for _, n := range c.Nodes {
			if answer := modern(n, "tool_execute", count); !strings.Contains(answer, "counted "+settled) {
				t.Errorf("at %s: %s", n.Name, answer)
			}
			for _, s := range sessions {
				number++
				if status, answer, _, err := s.post(t.Context(), n, s.call(1<<20+number, id, settled, 0)); err != nil || !strings.Contains(answer, "counted "+settled) {
					wrong = append(wrong, fmt.Sprintf("%s at %s: %d %s %v", s.path, n.Name, status, answer, err))
				}
			}
		}
		return wrong
	}
	register := func(n *clustertest.Node) (int, http.Header, string) {
		return send(http.MethodPost, n.URL+"/agents", "", fmt.Sprintf(`{"name":"helper","instance":"1","url":%q}`, url))
	}
	unavailable := func(what string) {
		t.Helper()
		if status, h, answer := register(second); status != http.StatusServiceUnavailable || h.Get("Retry-After") != "2" || !strings.Contains(answer, "store_unavailable") {
			t.Errorf("%s: a registration: %d %v %s", what, status, h, answer)
		}
	}
	for _, wrong := range goesOn(s, direct) {
		t.Error(wrong)
	}

	killed := time.Now()
	c.NATS.Kill()
	// Nodes that have not heard of the store for 15 seconds forget their sessions, which a busy machine may reach.
	if wrong := goesOn(s, direct); time.Since(killed) < 10*time.Second {
		for _, one := range wrong {
			t.Error(one)
		}
	}
	unavailable("without a store")
	passed := 0
	for range 3 { // a lease of before may be left
		if answer := modern(second, "tool_browse", `{"query":"count"}`); strings.Contains(answer, "counter:count#") {
			passed++
		} else if !strings.Contains(answer, "RATE_LIMITED") {
			t.Errorf("a call with a quota: %s", answer)
		}
	}
	if passed > 1 {
		t.Errorf("%d calls with a quota passed without a store", passed)
	}
	if *chaosTime > 0 { // the store is asked for as long as an election takes
		first.Kill()
		lostSession(t, s, second, id)
	}
	if answer := modern(second, "tool_execute", count); !strings.Contains(answer, "counted "+settled) {
		t.Errorf("a call that shares nothing: %s", answer)
	}

	if err := c.NATS.Start(); err != nil {
		t.Fatal(err)
	}
	if *chaosTime > 0 {
		if err := first.Start(); err != nil {
			t.Fatal(err)
		}
	}
	settles(t, c, s, id)
	settles(t, c, direct, id)
	back := func() {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			status, _, answer := register(second)
			if status == http.StatusOK {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("a registration with a store: %d %s", status, answer)
			}
		}
	}
	back()
	send(http.MethodDelete, second.URL+"/agents/helper?instance=1", "", "")

	if err := c.NATS.Limit(1); err != nil {
		t.Fatal(err)
	}
	unavailable("with a full disk")
	for _, n := range c.Nodes {
		if answer := modern(n, "tool_execute", count); !strings.Contains(answer, "counted "+settled) {
			t.Errorf("with a full disk, at %s: %s", n.Name, answer)
		}
	}
	c.NATS.Kill() // it has switched its store off
	if err := c.NATS.Start(); err != nil {
		t.Fatal(err)
	}
	back()
}

// lostSession makes a call in a session whose node was killed while the store is away.
func lostSession(t *testing.T, s *session, n *clustertest.Node, tool string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, n.URL+s.path, strings.NewReader(s.call(1<<21, tool, settled, 0)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Session-Id", s.id)
	resp, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "2" || !strings.Contains(string(answer), "store_unavailable") {
		t.Errorf("a session whose node was killed: %d %v %s %v", resp.StatusCode, resp.Header, answer, err)
	}
}

// TestStartWithoutStore: a node that starts while the store is away serves what needs nothing of it, for as long as that
// takes, and is in the cluster when the store is back. Its sessions go on.
func TestStartWithoutStore(t *testing.T) {
	_, url := serveCounter(t)
	c := clustertest.Start(t, clustertest.Options{Weir: weirBin, Nodes: 2, Config: fmt.Sprintf("mode: gateway\nmcpServers: {counter: {url: %q, required: true}}", url)})
	first, second := c.Nodes[0], c.Nodes[1]
	before := open(t, first, "/mcp")
	id := toolID(t, before, first)
	ready := func() (int, string) {
		client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Get(second.URL + "/readyz")
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return 0, err.Error()
		}
		return resp.StatusCode, string(body)
	}
	await := func(want string) string {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			status, body := ready()
			if status == http.StatusOK && strings.Contains(body, want) {
				return body
			}
			if time.Now().After(end) {
				t.Fatalf("/readyz: %d %s", status, body)
			}
		}
	}
	c.NATS.Kill()
	second.Kill()
	if err := second.Begin(); err != nil {
		t.Fatal(err)
	}
	if body := await(`"degraded"`); !strings.Contains(body, "store") { // a balancer has no better one
		t.Errorf("/readyz: %s", body)
	}
	s := open(t, second, "/mcp")
	call := func(s *session, n *clustertest.Node, number int) (int, string) {
		t.Helper()
		status, answer, _, err := s.post(t.Context(), n, s.call(1<<20+number, id, settled, 0))
		if err != nil {
			t.Fatal(err)
		}
		return status, answer
	}
	if status, answer := call(s, second, 1); status != http.StatusOK || !strings.Contains(answer, "counted "+settled) {
		t.Errorf("a session of a node without a store: %d %s", status, answer)
	}
	if status, answer := call(before, second, 2); status != http.StatusServiceUnavailable || !strings.Contains(answer, "store_unavailable") {
		t.Errorf("a session of another node: %d %s", status, answer)
	}
	if *chaosTime > 0 {
		time.Sleep(90 * time.Second)
		if status, answer := call(s, second, 3); status != http.StatusOK {
			t.Errorf("after a minute and a half: %d %s", status, answer)
		}
	}
	if err := c.NATS.Start(); err != nil {
		t.Fatal(err)
	}
	await(`"ok"`)
	if status, answer := call(s, second, 4); status != http.StatusOK || !strings.Contains(answer, "counted "+settled) {
		t.Errorf("with the store: %d %s", status, answer)
	}
	settles(t, c, s, id)
	settles(t, c, before, id)
}
