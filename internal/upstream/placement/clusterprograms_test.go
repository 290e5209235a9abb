package placement_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
)

// TestTasksOfProgramsOfACluster: a task of a server program is read and cancelled at each node, by its principal
// alone, and is gone with the node whose program has it.
func TestTasksOfProgramsOfACluster(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartPrograms(t, 3)
	c.Path = "/mcps/prog/mcp"
	first, second, third := c.All[0], c.All[1], c.All[2]
	makes := func() (id, params string) {
		t.Helper()
		made := c.Agent(first, gatewaytest.AnnToken, "tools/call", "slow", `"name":"slow","arguments":{},`)
		found := regexp.MustCompile(`"taskId":"(t-[0-9-]+)"`).FindStringSubmatch(made)
		if found == nil {
			t.Fatal(made)
		}
		return found[1], `"taskId":"` + found[1] + `",`
	}
	id, task := makes()
	for _, n := range c.All {
		if got := c.Agent(n, gatewaytest.AnnToken, "tasks/get", id, task); !strings.Contains(got, `"status":"working"`) {
			t.Errorf("at %s: %s", n.Name, got)
		}
		if got := c.Agent(n, gatewaytest.BobToken, "tasks/get", id, task); !strings.Contains(got, "no such task") {
			t.Errorf("another principal at %s: %s", n.Name, got)
		}
		if status, got := c.Ask(n, "GET", "/mcps/prog/task?taskId="+id, gatewaytest.AnnToken, ""); status != http.StatusOK || !strings.Contains(got, id) {
			t.Errorf("the status at %s: %d %s", n.Name, status, got)
		}
		if status, got := c.Ask(n, "GET", "/mcps/prog/task?taskId="+id, gatewaytest.BobToken, ""); status != http.StatusNotFound {
			t.Errorf("the status for another principal at %s: %d %s", n.Name, status, got)
		}
	}
	session := c.Open(second)
	if _, got := c.PostTo(second, session, `{"jsonrpc":"2.0","id":70,"method":"tasks/get","params":{"taskId":"`+id+`"}}`); !strings.Contains(got, `"status":"working"`) {
		t.Errorf("in a session of another node: %s", got)
	}
	if got := c.Agent(third, gatewaytest.AnnToken, "tasks/cancel", id, task); !strings.Contains(got, `"result"`) {
		t.Errorf("cancelled at another node: %s", got)
	}
	if got := c.Agent(first, gatewaytest.AnnToken, "tasks/get", id, task); !strings.Contains(got, `"status":"cancelled"`) {
		t.Errorf("after its end: %s", got)
	}
	id, task = makes()
	c.Kill(first)
	c.Settles(func() (bool, string) {
		got := c.Agent(second, gatewaytest.AnnToken, "tasks/get", id, task)
		return strings.Contains(got, "gone with the gateway whose server program ran it") && strings.Contains(got, "-32602"), got
	})
	if status, got := c.Ask(third, "GET", "/mcps/prog/task?taskId="+id, gatewaytest.AnnToken, ""); status != http.StatusNotFound || !strings.Contains(got, "gone with the gateway") {
		t.Errorf("the status of a task that is gone: %d %s", status, got)
	}
}

// TestStatesOfProgramsOfACluster: the state that a modern server program gives an agent comes back to that program
// from each node, and is refused when its node is gone.
func TestStatesOfProgramsOfACluster(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartPrograms(t, 3)
	first, second, third := c.All[0], c.All[1], c.All[2]
	tool := regexp.MustCompile(`prog:ask#[0-9a-f]+`).FindString(c.Calls(first, c.Open(first), "tool_browse", `{"query":"asks for a name"}`))
	const given = `"inputResponses":{"who":{"action":"accept","content":{"name":"Ada"}}},`
	for _, path := range []string{"/mcps/prog/mcp", "/mcp"} {
		c.Path = path
		name, call := "ask", `"name":"ask","arguments":{},`
		if path == "/mcp" {
			name, call = "tool_execute", `"name":"tool_execute","arguments":{"tool_id":"`+tool+`","args":{}},`
		}
		asks := func() string {
			t.Helper()
			asked := c.Agent(first, gatewaytest.AnnToken, "tools/call", name, call)
			state := regexp.MustCompile(`"requestState":"(weir3\.([a-z0-9]+)-[^"]+)"`).FindStringSubmatch(asked)
			if state == nil || state[2] != first.Node.Inc() {
				t.Fatalf("%s: %s", path, asked)
			}
			return `"requestState":"` + state[1] + `",`
		}
		state := asks()
		for _, n := range []*gatewaytest.Node{second, third, first} {
			if got := c.Agent(n, gatewaytest.AnnToken, "tools/call", name, call+state+given); !strings.Contains(got, "hello Ada") {
				t.Errorf("%s at %s: %s", path, n.Name, got)
			}
		}
		if path == "/mcp" {
			c.Kill(first)
			c.Settles(func() (bool, string) {
				got := c.Agent(second, gatewaytest.AnnToken, "tools/call", name, call+state+given)
				return strings.Contains(got, "is gone; make the call again without requestState"), got
			})
		}
	}
}

// TestTaskHandlesOfACluster: the handle of a task of a server program is read and cancelled at each node, by its
// principal alone, and says so when it is gone with its node.
func TestTaskHandlesOfACluster(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartPrograms(t, 0)
	c.More += "tasks: {wait: 1s}\n"
	for i := range 3 {
		c.Start(fmt.Sprint("n", i))
	}
	first, second, third := c.All[0], c.All[1], c.All[2]
	session, other := c.Open(first), c.Open(second)
	tool := regexp.MustCompile(`prog:slow#[0-9a-f]+`).FindString(c.Calls(first, session, "tool_browse", `{"query":"works slowly"}`))
	handles := regexp.MustCompile(`task_[a-z0-9]+`)
	makes := func() string {
		t.Helper()
		called := c.Calls(first, session, "tool_execute", `{"tool_id":"`+tool+`","args":{}}`)
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
	if got := c.Calls(second, other, "tool_view", view(handle, "head")); !strings.Contains(got, "still running") {
		t.Errorf("at another node: %s", got)
	}
	c.Path = "/mcp"
	viewed := `"name":"tool_view","arguments":` + view(handle, "head") + `,`
	if got := c.Agent(third, gatewaytest.AnnToken, "tools/call", "tool_view", viewed); !strings.Contains(got, "still running") {
		t.Errorf("a modern agent: %s", got)
	}
	if got := c.Agent(third, gatewaytest.BobToken, "tools/call", "tool_view", viewed); !strings.Contains(got, "no task has the handle") {
		t.Errorf("another principal: %s", got)
	}
	if got := c.Calls(second, other, "tool_view", view(handle, "cancel")); !strings.Contains(got, "is cancelled") {
		t.Errorf("cancelled at another node: %s", got)
	}
	if got := c.Calls(first, session, "tool_view", view(handle, "head")); !strings.Contains(got, "cancelled") {
		t.Errorf("after its end: %s", got)
	}
	if got := c.Calls(second, other, "tool_view", view("task_"+strings.Repeat("../", 3), "head")); !strings.Contains(got, "no task has the handle") {
		t.Errorf("a handle that is none: %s", got)
	}
	handle = makes()
	c.Kill(first)
	c.Settles(func() (bool, string) {
		got := c.Calls(second, other, "tool_view", view(handle, "head"))
		return strings.Contains(got, "is gone with the gateway that ran its server"), got
	})
}
