package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
)

// TestOperatorsOfACluster: a call that waits for an operator at one node is listed, approved and denied at the
// others, by operators alone.
func TestOperatorsOfACluster(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartNodesWith(t, 2, "policy: {rules: [{action: require_approval, namespace: up}]}\n")
	first, second := c.All[0], c.All[1]
	c.Path = "/mcps/up/mcp"
	session := c.Open(first)
	begin := func() <-chan string {
		answer := make(chan string, 1)
		c.Call++
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"echo"}}}`, c.Call)
		go func() {
			r, _ := http.NewRequest(http.MethodPost, first.Front.URL+c.Path, strings.NewReader(body)) // the URL is good
			for key, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + gatewaytest.AnnToken, "Mcp-Session-Id": session} {
				r.Header.Set(key, value)
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				answer <- err.Error()
				return
			}
			defer resp.Body.Close()
			text := new(strings.Builder)
			for buf := make([]byte, 4096); err == nil; {
				var n int
				n, err = resp.Body.Read(buf)
				text.Write(buf[:n])
			}
			answer <- text.String()
		}()
		return answer
	}
	waits := func(n *gatewaytest.Node) (id, list string) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			_, list = c.Ask(n, "GET", "/api/v1/approvals", gatewaytest.OpsToken, "")
			_ = rawjson.EachElement(rawjson.Get([]byte(list), "approvals"), func(call []byte) bool {
				id = rawjson.Text(rawjson.Get(call, "id"))
				return false
			})
			if id != "" {
				return id, list
			}
		}
		t.Fatal("no call waits at " + n.Name + ": " + list)
		return "", ""
	}
	decide := func(n *gatewaytest.Node, token, id, decision string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.Front.URL+"/api/v1/approvals/"+id, strings.NewReader(`{"decision":"`+decision+`","reason":"not today"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	ends := func(answer <-chan string, want string) {
		t.Helper()
		select {
		case got := <-answer:
			if !strings.Contains(got, want) {
				t.Errorf("the call ended with %s, want %s", got, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the call waits on")
		}
	}
	answer := begin()
	id, list := waits(second)
	if !strings.Contains(list, `"node":"n0"`) {
		t.Errorf("the list does not say where the call waits: %s", list)
	}
	if _, own := waits(first); strings.Contains(own, `"node"`) {
		t.Errorf("the call waits here: %s", own)
	}
	if status := decide(second, gatewaytest.BobToken, id, "approve"); status != http.StatusForbidden {
		t.Errorf("no operator: %d", status)
	}
	if status, body := c.Ask(second, "GET", "/peer/v1/approvals", gatewaytest.OpsToken, ""); status != http.StatusNotFound {
		t.Errorf("the path of nodes is open: %d %s", status, body)
	}
	if status := decide(second, gatewaytest.OpsToken, id, "approve"); status != http.StatusOK {
		t.Errorf("approved at another node: %d", status)
	}
	ends(answer, `"text":"echo"`)
	if status := decide(second, gatewaytest.OpsToken, id, "approve"); status != http.StatusNotFound {
		t.Errorf("a second time: %d", status)
	}
	answer = begin()
	id, _ = waits(second)
	if status := decide(second, gatewaytest.OpsToken, id, "deny"); status != http.StatusOK {
		t.Errorf("denied at another node: %d", status)
	}
	ends(answer, "not today")
}

// TestApprovalsWithoutANode: the list of calls that wait for an operator names a node that has not answered, and so does
// the refusal of a decision about a call that may wait there.
func TestApprovalsWithoutANode(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartNodesWith(t, 2, "policy: {rules: [{action: require_approval, namespace: up}]}\n")
	first, second := c.All[0], c.All[1]
	if _, list := c.Ask(second, "GET", "/api/v1/approvals", gatewaytest.OpsToken, ""); strings.Contains(list, "silent") {
		t.Errorf("while both are there: %s", list)
	}
	first.Link.Cut() // it lives, and no node reaches it
	c.Settles(func() (bool, string) {
		_, list := c.Ask(second, "GET", "/api/v1/approvals", gatewaytest.OpsToken, "")
		return strings.Contains(list, `"approvals":[]`) && strings.Contains(list, `"silent":["n0"]`), list
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, second.Front.URL+"/api/v1/approvals/k3x7qa", strings.NewReader(`{"decision":"approve"}`))
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
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusBadGateway || !strings.Contains(string(text), "n0 did not answer") {
		t.Errorf("%d %s, %v", resp.StatusCode, text, err)
	}
}
