package app_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/mcp"
)

// startPrograms starts nodes that have a server program each.
func startPrograms(t *testing.T, count int) *nodes {
	t.Helper()
	c := startNodes(t, 0)
	c.programs, c.more = ", "+programConfig(t), "policy: {rules: [{action: deny, namespace: another}]}\n"
	for i := range count {
		c.start(fmt.Sprint("n", i))
	}
	return c
}

// agent makes a request of a modern agent without a session at a node.
func (c *nodes) agent(n *node, token, method, name, params string) string {
	c.t.Helper()
	_, answer := c.sends(n, c.path, token, method, name, params, `"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}`)
	return answer
}

// sends makes a request of a client of 2026-07-28 with some capabilities. The params end with a comma.
func (c *nodes) sends(n *node, path, token, method, name, params, capabilities string) (int, string) {
	c.t.Helper()
	c.mu.Lock()
	c.call++
	id := c.call
	c.mu.Unlock()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{%s}}}}`, id, method, params, capabilities)
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, n.front.URL+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for key, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + token,
		"Mcp-Protocol-Version": mcp.V20260728, "Mcp-Method": method, "Mcp-Name": name,
	} {
		if value != "" {
			r.Header.Set(key, value)
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// TestTasksOfProgramsOfACluster: a task of a server program is read and cancelled at each node, by its principal
// alone, and is gone with the node whose program has it.
func TestTasksOfProgramsOfACluster(t *testing.T) {
	t.Parallel()
	c := startPrograms(t, 3)
	c.path = "/mcps/prog/mcp"
	first, second, third := c.all[0], c.all[1], c.all[2]
	makes := func() (id, params string) {
		t.Helper()
		made := c.agent(first, clusterToken, "tools/call", "slow", `"name":"slow","arguments":{},`)
		found := regexp.MustCompile(`"taskId":"(t-[0-9-]+)"`).FindStringSubmatch(made)
		if found == nil {
			t.Fatal(made)
		}
		return found[1], `"taskId":"` + found[1] + `",`
	}
	id, task := makes()
	for _, n := range c.all {
		if got := c.agent(n, clusterToken, "tasks/get", id, task); !strings.Contains(got, `"status":"working"`) {
			t.Errorf("at %s: %s", n.name, got)
		}
		if got := c.agent(n, otherToken, "tasks/get", id, task); !strings.Contains(got, "no such task") {
			t.Errorf("another principal at %s: %s", n.name, got)
		}
		if status, got := c.ask(n, "GET", "/mcps/prog/task?taskId="+id, clusterToken, ""); status != http.StatusOK || !strings.Contains(got, id) {
			t.Errorf("the status at %s: %d %s", n.name, status, got)
		}
		if status, got := c.ask(n, "GET", "/mcps/prog/task?taskId="+id, otherToken, ""); status != http.StatusNotFound {
			t.Errorf("the status for another principal at %s: %d %s", n.name, status, got)
		}
	}
	session := c.open(second)
	if _, got := c.postTo(second, session, `{"jsonrpc":"2.0","id":70,"method":"tasks/get","params":{"taskId":"`+id+`"}}`); !strings.Contains(got, `"status":"working"`) {
		t.Errorf("in a session of another node: %s", got)
	}
	if got := c.agent(third, clusterToken, "tasks/cancel", id, task); !strings.Contains(got, `"result"`) {
		t.Errorf("cancelled at another node: %s", got)
	}
	if got := c.agent(first, clusterToken, "tasks/get", id, task); !strings.Contains(got, `"status":"cancelled"`) {
		t.Errorf("after its end: %s", got)
	}
	id, task = makes()
	c.kill(first)
	c.settles(func() (bool, string) {
		got := c.agent(second, clusterToken, "tasks/get", id, task)
		return strings.Contains(got, "gone with the gateway whose server program ran it") && strings.Contains(got, "-32602"), got
	})
	if status, got := c.ask(third, "GET", "/mcps/prog/task?taskId="+id, clusterToken, ""); status != http.StatusNotFound || !strings.Contains(got, "gone with the gateway") {
		t.Errorf("the status of a task that is gone: %d %s", status, got)
	}
}

// TestStatesOfProgramsOfACluster: the state that a modern server program gives an agent comes back to that program
// from each node, and is refused when its node is gone.
func TestStatesOfProgramsOfACluster(t *testing.T) {
	t.Parallel()
	c := startPrograms(t, 3)
	first, second, third := c.all[0], c.all[1], c.all[2]
	tool := regexp.MustCompile(`prog:ask#[0-9a-f]+`).FindString(c.calls(first, c.open(first), "tool_browse", `{"query":"asks for a name"}`))
	const given = `"inputResponses":{"who":{"action":"accept","content":{"name":"Ada"}}},`
	for _, path := range []string{"/mcps/prog/mcp", "/mcp"} {
		c.path = path
		name, call := "ask", `"name":"ask","arguments":{},`
		if path == "/mcp" {
			name, call = "tool_execute", `"name":"tool_execute","arguments":{"tool_id":"`+tool+`","args":{}},`
		}
		asks := func() string {
			t.Helper()
			asked := c.agent(first, clusterToken, "tools/call", name, call)
			state := regexp.MustCompile(`"requestState":"(weir3\.([a-z0-9]+)-[^"]+)"`).FindStringSubmatch(asked)
			if state == nil || state[2] != first.node.Inc() {
				t.Fatalf("%s: %s", path, asked)
			}
			return `"requestState":"` + state[1] + `",`
		}
		state := asks()
		for _, n := range []*node{second, third, first} {
			if got := c.agent(n, clusterToken, "tools/call", name, call+state+given); !strings.Contains(got, "hello Ada") {
				t.Errorf("%s at %s: %s", path, n.name, got)
			}
		}
		if path == "/mcp" {
			c.kill(first)
			c.settles(func() (bool, string) {
				got := c.agent(second, clusterToken, "tools/call", name, call+state+given)
				return strings.Contains(got, "is gone; make the call again without requestState"), got
			})
		}
	}
}

// TestTaskHandlesOfACluster: the handle of a task of a server program is read and cancelled at each node, by its
// principal alone, and says so when it is gone with its node.
func TestTaskHandlesOfACluster(t *testing.T) {
	t.Parallel()
	c := startPrograms(t, 0)
	c.more += "tasks: {wait: 1s}\n"
	for i := range 3 {
		c.start(fmt.Sprint("n", i))
	}
	first, second, third := c.all[0], c.all[1], c.all[2]
	session, other := c.open(first), c.open(second)
	tool := regexp.MustCompile(`prog:slow#[0-9a-f]+`).FindString(c.calls(first, session, "tool_browse", `{"query":"works slowly"}`))
	handles := regexp.MustCompile(`task_[a-z0-9]+`)
	makes := func() string {
		t.Helper()
		called := c.calls(first, session, "tool_execute", `{"tool_id":"`+tool+`","args":{}}`)
		handle := handles.FindString(called)
		if handle == "" {
			t.Fatal(called)
		}
		return handle
	}
	handle := makes()
	view := func(handle, how string) string {
		return `{"handle":"` + handle + `","selector":{"type":"` + how + `"}}`
	}
	if got := c.calls(second, other, "tool_view", view(handle, "head")); !strings.Contains(got, "still running") {
		t.Errorf("at another node: %s", got)
	}
	c.path = "/mcp"
	viewed := `"name":"tool_view","arguments":` + view(handle, "head") + `,`
	if got := c.agent(third, clusterToken, "tools/call", "tool_view", viewed); !strings.Contains(got, "still running") {
		t.Errorf("a modern agent: %s", got)
	}
	if got := c.agent(third, otherToken, "tools/call", "tool_view", viewed); !strings.Contains(got, "no task has the handle") {
		t.Errorf("another principal: %s", got)
	}
	if got := c.calls(second, other, "tool_view", view(handle, "cancel")); !strings.Contains(got, "is cancelled") {
		t.Errorf("cancelled at another node: %s", got)
	}
	if got := c.calls(first, session, "tool_view", view(handle, "head")); !strings.Contains(got, "cancelled") {
		t.Errorf("after its end: %s", got)
	}
	if got := c.calls(second, other, "tool_view", view("task_"+strings.Repeat("../", 3), "head")); !strings.Contains(got, "no task has the handle") {
		t.Errorf("a handle that is none: %s", got)
	}
	handle = makes()
	c.kill(first)
	c.settles(func() (bool, string) {
		got := c.calls(second, other, "tool_view", view(handle, "head"))
		return strings.Contains(got, "is gone with the gateway that ran its server"), got
	})
}
