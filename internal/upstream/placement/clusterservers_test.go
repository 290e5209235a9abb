package placement_test

//lint:file-ignore SA1019 The legacy era has sampling; weir serves it as long as there are legacy peers.

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/observe"
	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
	"github.com/weir-mcp/weir/mcp"
)

// TestScopeCluster: one node of three is connected to a server with scope: cluster, and agents call it at all of them.
// The next node takes it over when its node ends, at once. All nodes say which one it is.
func TestScopeCluster(t *testing.T) {
	t.Parallel()
	c := gatewaytest.ScopedNodes(t, 3, "", mcp.V20251125)
	var sessions []string
	for _, path := range []string{"/mcp", "/mcps/up/mcp"} {
		c.Path = path
		for _, n := range c.All {
			session := c.Open(n)
			c.Works(session)
			if path != "/mcp" {
				sessions = append(sessions, session)
			}
		}
	}
	if got := c.Connections(); got != 1 {
		t.Errorf("%d connections to the server: %v", got, c.Fake.Events())
	}
	first := c.Holder(func(string) bool { return true })
	if first != "n0" {
		t.Errorf("the holder is %s", first)
	}
	c.Stop(c.All[0])
	c.Holder(func(name string) bool { return name != first })
	for _, session := range sessions {
		c.Settles(func() (bool, string) {
			resp, body := c.Post(session, `{"jsonrpc":"2.0","id":7777,"method":"tools/call","params":{"name":"echo","arguments":{"text":"on"}}}`)
			return resp.StatusCode == http.StatusOK && strings.Contains(body, `"result"`), body
		})
		c.Works(session)
	}
	if got := c.Connections(); got != 2 {
		t.Errorf("%d connections to the server: %v", got, c.Fake.Events())
	}
}

// TestScopeClusterAsks: what a server with scope: cluster asks and tells reaches agents at a node that does not have it,
// and what they cancel reaches the server.
func TestScopeClusterAsks(t *testing.T) {
	for _, server := range []string{mcp.V20251125, mcp.V20260728} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			c := gatewaytest.ScopedNodes(t, 2, "", server)
			for _, version := range []string{mcp.V20251125, mcp.V20260728} {
				asksOf(t, c, version)
			}
		})
	}
}

func asksOf(t *testing.T, c *gatewaytest.Nodes, version string) {
	progress, changed := make(chan float64, 16), make(chan string, 16)
	client := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, &sdk.ClientOptions{
		CreateMessageHandler: func(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			return &sdk.CreateMessageResult{Model: "m", Role: "assistant", Content: &sdk.TextContent{Text: "said by the model"}}, nil
		},
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { progress <- r.Params.Progress },
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { changed <- "tools" },
	})
	cs, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: c.All[1].Front.URL + "/mcps/up/mcp", HTTPClient: &http.Client{Transport: gatewaytest.Bearer{Token: gatewaytest.AnnToken}},
	}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	defer cs.Close()
	call := func(tool string, args map[string]any) string {
		t.Helper()
		params := &sdk.CallToolParams{Name: tool, Arguments: args}
		params.SetProgressToken("tok")
		res, err := cs.CallTool(t.Context(), params)
		if err != nil {
			t.Fatalf("%s: %s: %v", version, tool, err)
		}
		return fmt.Sprint(res.Content[0].(*sdk.TextContent).Text)
	}
	for tool, want := range map[string]string{"sample": "said by the model", "elicit": "Ada"} {
		if got := call(tool, map[string]any{"rounds": 2}); !strings.Contains(got, want) {
			t.Errorf("%s: %s: %s", version, tool, got)
		}
	}
	call("progress", map[string]any{"n": 3})
	for want := 1.0; want <= 3; want++ {
		select {
		case got := <-progress:
			if got != want {
				t.Errorf("%s: progress %v, not %v", version, got, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: no progress %v", version, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	before := len(c.Fake.Events())
	failed := make(chan error, 1)
	go func() {
		_, err := cs.CallTool(ctx, &sdk.CallToolParams{Name: "sleep", Arguments: map[string]any{"sleep_ms": 30_000}})
		failed <- err
	}()
	since := func(prefix string) func() bool {
		return func() bool {
			return slices.ContainsFunc(c.Fake.Events()[before:], func(e string) bool { return strings.HasPrefix(e, prefix) })
		}
	}
	gatewaytest.Eventually(t, "the call runs", since("sleeping "))
	cancel()
	if err := <-failed; err == nil {
		t.Errorf("%s: a cancelled call has a result", version)
	}
	gatewaytest.Eventually(t, "the call is cancelled", func() bool { return since("cancelled ")() || since("disconnected ")() })
	if version == mcp.V20251125 {
		tools := 0
		gatewaytest.Eventually(t, "the client is told of changed tools", func() bool { // its stream may begin after the first change
			tools++
			call("set_tools", map[string]any{"n": tools})
			select {
			case <-changed:
				return true
			case <-time.After(500 * time.Millisecond):
				return false
			}
		})
	}
}

// TestScopeClusterApproves: a call at a node that does not have its server meets the policy once. Asked twice, a person
// would say yes twice.
func TestScopeClusterApproves(t *testing.T) {
	t.Parallel()
	c := gatewaytest.ScopedNodes(t, 2, "policy: {rules: [{action: require_approval, namespace: up}]}\n", mcp.V20260728)
	n := c.All[1]
	c.Elicit = regexp.MustCompile(`up:elicit#[0-9a-f]+`).FindString(c.Calls(n, c.Open(n), "tool_browse", `{"query":"elicit"}`))
	for _, path := range []string{"/mcps/up/mcp", "/mcp"} {
		status, asked := c.Answers(n, path, gatewaytest.AnnToken, "")
		state := regexp.MustCompile(`"requestState":("[^"]+")`).FindStringSubmatch(asked)
		if status != http.StatusOK || state == nil || !strings.Contains(asked, "Allow ") {
			t.Fatalf("%s: %d %s", path, status, asked)
		}
		_, body := c.Answers(n, path, gatewaytest.AnnToken, `,"requestState":`+state[1]+`,"inputResponses":{"approve-1":{"action":"accept","content":{}}}`)
		if !strings.Contains(body, "What is your name?") {
			t.Errorf("%s: after the yes: %s", path, body)
		}
	}
}

// TestScopeClusterTasks: a task of a server with scope: cluster, and its handle, work at each node, by its principal
// alone, also when the node is gone that the agent asked for it.
func TestScopeClusterTasks(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartNodesWith(t, 0, "tasks: {wait: 10ms}\npolicy: {rules: [{action: deny, namespace: another}]}\n")
	c.Programs = ", " + strings.Replace(gatewaytest.ProgramConfig(t), "{command", "{scope: cluster, command", 1)
	for i := range 3 {
		c.Start(fmt.Sprint("n", i)) // the first one has the server
	}
	tool := regexp.MustCompile(`prog:slow#[0-9a-f]+`).FindString(c.Calls(c.All[0], c.Open(c.All[0]), "tool_browse", `{"query":"works slowly"}`))
	const direct, whole = "/mcps/prog/mcp", "/mcp"
	makes := func(n *gatewaytest.Node, path string) string {
		t.Helper()
		name, call, id := "slow", `"name":"slow","arguments":{},`, `t-[0-9-]+`
		if path == whole {
			name, call, id = "tool_execute", `"name":"tool_execute","arguments":{"tool_id":"`+tool+`","args":{}},`, `task_[a-z0-9]+`
		}
		c.Path = path
		made := c.Agent(n, gatewaytest.AnnToken, "tools/call", name, call)
		found := regexp.MustCompile(id).FindString(made)
		if found == "" {
			t.Fatal(made)
		}
		return found
	}
	reads := func(n *gatewaytest.Node, path, token, id string) string {
		t.Helper()
		c.Path = path
		if path == whole {
			return c.Agent(n, token, "tools/call", "tool_view", `"name":"tool_view","arguments":{"handle":"`+id+`","selector":{"type":"head"}},`)
		}
		return c.Agent(n, token, "tasks/get", id, `"taskId":"`+id+`",`)
	}
	runs := func(got string) bool {
		return strings.Contains(got, `"working"`) || strings.Contains(got, "still running")
	}
	var last map[string]string
	for _, maker := range c.All[:2] {
		last = map[string]string{}
		for _, path := range []string{direct, whole} {
			id := makes(maker, path)
			last[path] = id
			for _, n := range c.All {
				if got := reads(n, path, gatewaytest.AnnToken, id); !runs(got) {
					t.Errorf("%s: a task of %s at %s: %s", path, maker.Name, n.Name, got)
				}
				if got := reads(n, path, gatewaytest.BobToken, id); runs(got) || !strings.Contains(got, "no such task") && !strings.Contains(got, "no task has the handle") {
					t.Errorf("%s: another principal at %s: %s", path, n.Name, got)
				}
			}
		}
	}
	c.Kill(c.All[1])
	for path, id := range last {
		c.Settles(func() (bool, string) {
			got := reads(c.All[2], path, gatewaytest.AnnToken, id)
			return runs(got), got
		})
	}
	c.Stop(c.All[0]) // the program of the next holder does not know the tasks
	for path, id := range last {
		c.Settles(func() (bool, string) {
			got := reads(c.All[2], path, gatewaytest.AnnToken, id)
			return !runs(got) && (strings.Contains(got, "no such thing here") || strings.Contains(got, "no such task")), got
		})
	}
}

// TestScopeClusterAgain: a server with scope: cluster that leaves the configuration and comes back, while a call of it
// still runs, has one holder.
func TestScopeClusterAgain(t *testing.T) {
	t.Parallel()
	c := gatewaytest.ScopedNodes(t, 2, "", mcp.V20251125)
	c.Path = "/mcps/up/mcp"
	n := c.All[0]
	session := c.Open(n)
	called := make(chan string, 1)
	go func() {
		r, _ := http.NewRequest(http.MethodPost, n.Front.URL+c.Path, strings.NewReader(`{"jsonrpc":"2.0","id":9001,"method":"tools/call","params":{"name":"sleep","arguments":{"sleep_ms":1500}}}`)) // the URL is good
		for key, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + gatewaytest.AnnToken, "Mcp-Session-Id": session} {
			r.Header.Set(key, value)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			called <- err.Error()
			return
		}
		resp.Body.Close()
		called <- ""
	}()
	gatewaytest.Eventually(t, "the call runs", func() bool {
		return slices.ContainsFunc(c.Fake.Events(), func(e string) bool { return strings.HasPrefix(e, "sleeping ") })
	})
	with, without := n.Gateway.Config(), *n.Gateway.Config()
	without.Servers = nil
	n.Gateway.Reload(&without, n.Server, observe.NewLog(io.Discard, &without))
	n.Gateway.Reload(with, n.Server, observe.NewLog(io.Discard, with))
	if err := <-called; err != "" {
		t.Fatal(err)
	}
	gatewaytest.Eventually(t, "a gateway has the server again", func() bool { return c.Connections() > 1 })
	time.Sleep(1500 * time.Millisecond) // in which a second one would take it
	if got := c.Connections(); got != 2 {
		t.Errorf("%d connections to the server: %v", got, c.Fake.Events())
	}
}
