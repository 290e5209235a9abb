package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
	"github.com/weir-mcp/weir/mcp"
)

// runs makes runs of programs at nodes of a cluster.
type runs struct {
	*gatewaytest.Nodes
	t *testing.T
}

// start runs a program at a node for a client that cannot be asked. The channel gets the answer, or why there is none.
func (c *runs) start(n *gatewaytest.Node, arguments string) <-chan string {
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool_run","arguments":` + arguments + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, n.Front.URL+"/mcp", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for key, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + gatewaytest.AnnToken, "Mcp-Protocol-Version": mcp.V20260728, "Mcp-Method": "tools/call", "Mcp-Name": "tool_run"} {
		r.Header.Set(key, value)
	}
	answer := make(chan string, 1)
	go func() {
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		answer <- fmt.Sprint(string(text), err)
	}()
	return answer
}

// waits returns the call that waits for an operator, as a node lists it.
func (c *runs) waits(n *gatewaytest.Node) (call string) {
	c.t.Helper()
	c.Settles(func() (bool, string) {
		_, list := c.Ask(n, "GET", "/api/v1/approvals", gatewaytest.OpsToken, "")
		_ = rawjson.EachElement(rawjson.Get([]byte(list), "approvals"), func(one []byte) bool {
			call = string(one)
			return false
		})
		return call != "", list
	})
	return call
}

// approve allows calls at a node.
func (c *runs) approve(n *gatewaytest.Node, call string, calls int) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, n.Front.URL+"/api/v1/approvals/"+rawjson.Text(rawjson.Get([]byte(call), "id")), strings.NewReader(fmt.Sprintf(`{"decision":"approve","calls":%d}`, calls)))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+gatewaytest.OpsToken)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		c.t.Fatalf("%d %s", resp.StatusCode, text)
	}
}

func (c *runs) ends(answer <-chan string, want string) {
	c.t.Helper()
	select {
	case got := <-answer:
		if !strings.Contains(got, want) {
			c.t.Errorf("the run ended with %s, want %s", got, want)
		}
	case <-time.After(30 * time.Second):
		c.t.Fatal("the run waits on")
	}
}

const loopOfThree = `"for (let n = 0; n < 3; n++) await tools.up.echo({text: String(n)}); return \"all\""`

// TestApprovalOfARunAtAnotherNode: a run waits at its node for an operator, who sees the program at another node and
// allows the calls of the loop there.
func TestApprovalOfARunAtAnotherNode(t *testing.T) {
	t.Parallel()
	c := &runs{gatewaytest.StartNodesWith(t, 2, "policy: {rules: [{action: require_approval, tool: \"up:echo*\"}]}\n"), t}
	first, second := c.All[0], c.All[1]
	answer := c.start(first, `{"program":`+loopOfThree+`}`)
	call := c.waits(second)
	if !strings.Contains(call, `"node":"n0"`) || !strings.Contains(call, "A program asks for it") || !strings.Contains(call, "for (let n = 0;") {
		t.Errorf("the other node shows %s", call)
	}
	c.approve(second, call, 3)
	c.ends(answer, `"text":"all"`)
}

// TestRunOfANodeThatIsGone: the node of a run dies while a call of its program waits for an operator. The run goes on
// at another node, which asks again, and makes no call twice.
func TestRunOfANodeThatIsGone(t *testing.T) {
	t.Parallel()
	c := &runs{gatewaytest.StartNodesWith(t, 2, "policy: {rules: [{action: require_approval, tool: \"up:echo*\"}]}\n"), t}
	first, second := c.All[0], c.All[1]
	_ = c.start(first, `{"program":`+loopOfThree+`}`)
	call := c.waits(second)
	c.approve(second, call, 1)
	c.Settles(func() (bool, string) { // the second call waits
		again := c.waits(second)
		return again != call && strings.Contains(again, "1 call before"), again
	})
	c.Kill(first)
	var answer <-chan string
	c.Settles(func() (bool, string) {
		_, list := c.Ask(second, "GET", "/api/v1/approvals", gatewaytest.OpsToken, "")
		return strings.Contains(list, `"approvals":[]`), list
	})
	answer = c.start(second, `{"program":`+loopOfThree+`,"resume":"last"}`)
	call = c.waits(second)
	if strings.Contains(call, `"node"`) || !strings.Contains(call, `text (1 character): \"1\"`) {
		t.Errorf("the other node asks for %s", call)
	}
	c.approve(second, call, 2)
	c.ends(answer, `"text":"all"`)
	if body := <-c.start(second, `{"program":`+loopOfThree+`,"resume":"last"}`); !strings.Contains(body, `"from_journal":3`) {
		t.Errorf("not all calls are in the journal: %s", body)
	}
}

// TestServersAskDuringARun: a server that asks during a call of a program reaches an agent of 2026-07-28, whose answer
// comes to another node of the cluster.
func TestServersAskDuringARun(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartNodes(t, 2)
	first, second := c.All[0], c.All[1]
	for _, tt := range []struct{ tool, capability, answer, want string }{
		{"elicit", `"elicitation":{"form":{}}`, `{"action":"accept","content":{"name":"Ada"}}`, "Ada"},
		{"sample", `"sampling":{}`, `{"role":"assistant","model":"m","content":{"type":"text","text":"weir it is"}}`, "weir it is"},
		{"roots", `"roots":{}`, `{"roots":[{"uri":"file:///srv/ada"}]}`, "file:///srv/ada"},
	} {
		params := `"name":"tool_run","arguments":{"program":"return await tools.up.` + tt.tool + `({})"},`
		_, asked := c.Sends(first, "/mcp", gatewaytest.AnnToken, "tools/call", "tool_run", params, tt.capability)
		state := regexp.MustCompile(`"requestState":("[^"]+")`).FindStringSubmatch(asked)
		key := regexp.MustCompile(`"inputRequests":\{("[^"]+")`).FindStringSubmatch(asked)
		if state == nil || key == nil {
			t.Errorf("%s: nothing is asked: %s", tt.tool, asked)
			continue
		}
		params += `"requestState":` + state[1] + `,"inputResponses":{` + key[1] + `:` + tt.answer + `},`
		if _, body := c.Sends(second, "/mcp", gatewaytest.AnnToken, "tools/call", "tool_run", params, tt.capability); !strings.Contains(body, tt.want) || strings.Contains(body, `"isError":true`) {
			t.Errorf("%s: %s", tt.tool, body)
		}
	}
}
