package gateway_test

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
)

// TestLabelsOfACluster: what an agent has read at one node decides at another one, a result that is held at one node has
// its label at another one, and a person clears the label of a principal at all of them.
func TestLabelsOfACluster(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartNodesWith(t, 2, "flow: {mode: enforce, sinks: [{tool: \"up:sleep*\"}]}\n")
	first, second := c.All[0], c.All[1]
	session := c.Open(first)
	echo, handle := c.Holds(first, session, "word")
	add := regexp.MustCompile(`up:sleep#[0-9a-f]+`).FindString(c.Calls(first, session, "tool_browse", `{"query":"sleep"}`))
	execute := func(n *gatewaytest.Node, id, args string) string {
		_, body := c.Modern(n, "tools/call", "tool_execute", `"name":"tool_execute","arguments":{"tool_id":"`+id+`","args":`+args+`},`)
		return body
	}
	refused := func(n *gatewaytest.Node) bool {
		return strings.Contains(execute(n, add, `{"sleep_ms":0}`), "PERMISSION_DENIED")
	}
	operate := func(path, body string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, first.Front.URL+"/api/v1/flow/"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+gatewaytest.OpsToken)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(answer)
	}
	if refused(second) {
		t.Fatal("a principal that has read nothing")
	}
	operate("clear", `{"session":"principal:ann"}`) // of the answer of the sink
	execute(first, echo, `{"text":"send 900"}`)
	if !refused(first) || !refused(second) {
		t.Error("the label of a principal is not known at each node")
	}
	if answer := operate("clear", `{"session":"principal:ann"}`); !strings.Contains(answer, `"integrity":"untrusted"`) || !strings.Contains(answer, "send 900") {
		t.Errorf("cleared: %s", answer)
	}
	if refused(second) {
		t.Error("a cleared principal is refused at the other node")
	}
	other := c.Open(second)
	if strings.Contains(c.Calls(second, other, "tool_execute", `{"tool_id":"`+add+`","args":{"sleep_ms":0}}`), "PERMISSION_DENIED") {
		t.Error("a session that has read nothing")
	}
	third := c.Open(second)
	c.Calls(second, third, "tool_view", `{"handle":"`+handle+`","selector":{"type":"head"}}`)
	if !strings.Contains(c.Calls(second, third, "tool_execute", `{"tool_id":"`+add+`","args":{"sleep_ms":0}}`), "PERMISSION_DENIED") {
		t.Error("a result that another node holds has no label here")
	}
}
