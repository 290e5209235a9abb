package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
)

// TestOldConnectionsOfACluster: a client of 2024-11-05 posts to any node, and the answers come on its stream.
func TestOldConnectionsOfACluster(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartNodes(t, 3)
	events := c.Stream(c.All[0], "/sse")
	at := <-events
	if !strings.Contains(at, "sessionId="+c.All[0].Node.Inc()+"-") {
		t.Errorf("the path %q does not name its node", at)
	}
	post := func(n *gatewaytest.Node, token, body string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.Front.URL+at, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if status := post(c.All[1], gatewaytest.AnnToken, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`); status != http.StatusAccepted {
		t.Fatal(status)
	}
	if answer := <-events; !strings.Contains(answer, `"id":1,"result"`) {
		t.Error(answer)
	}
	if status := post(c.All[2], gatewaytest.AnnToken, `{"jsonrpc":"2.0","id":2,"method":"ping"}`); status != http.StatusAccepted {
		t.Error(status)
	}
	if answer := <-events; !strings.Contains(answer, `"id":2,"result"`) {
		t.Error(answer)
	}
	if status := post(c.All[2], gatewaytest.BobToken, `{"jsonrpc":"2.0","id":3,"method":"ping"}`); status != http.StatusNotFound {
		t.Errorf("another principal: %d", status)
	}
	c.Kill(c.All[0])
	c.Settles(func() (bool, string) {
		status := post(c.All[2], gatewaytest.AnnToken, `{"jsonrpc":"2.0","id":4,"method":"ping"}`)
		return status == http.StatusNotFound, fmt.Sprint(status)
	})
}

// TestEngineOfACluster: polls, posts and upgrades of an Engine.IO session come to any node.
func TestEngineOfACluster(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartNodesWith(t, 3, "hub: {}\n")
	const base = "/socket.io/?EIO=4&transport=polling"
	status, opened := c.Ask(c.All[0], "GET", base, gatewaytest.AnnToken, "")
	_, sid, _ := strings.Cut(opened, `"sid":"`)
	sid, _, ok := strings.Cut(sid, `"`)
	if status != http.StatusOK || !ok || !strings.HasPrefix(sid, c.All[0].Node.Inc()+"-") {
		t.Fatalf("%d %s", status, opened)
	}
	if status, body := c.Ask(c.All[1], "POST", base+"&sid="+sid, "", "40/smcp,"); status != http.StatusOK {
		t.Fatalf("a post: %d %s", status, body)
	}
	if status, body := c.Ask(c.All[2], "GET", base+"&sid="+sid, "", ""); status != http.StatusOK || !strings.HasPrefix(body, "4") {
		t.Errorf("a poll: %d %s", status, body)
	}
	ws, resp, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(c.All[1].Front.URL, "http")+"/socket.io/?EIO=4&transport=websocket&sid="+sid, nil)
	if err != nil {
		t.Fatalf("an upgrade: %v %v", resp, err)
	}
	defer ws.Close()
	for _, step := range [][2]string{{"2probe", "3probe"}, {"5", ""}, {"40/nowhere,", "44"}} {
		if err := ws.WriteMessage(websocket.TextMessage, []byte(step[0])); err != nil {
			t.Fatal(err)
		}
		if step[1] == "" {
			continue
		}
		if _, got, err := ws.ReadMessage(); err != nil || !strings.HasPrefix(string(got), step[1]) {
			t.Errorf("%s: %s, %v", step[0], got, err)
		}
	}
	c.Kill(c.All[0])
	if _, got, err := ws.ReadMessage(); err == nil {
		t.Errorf("the connection outlives its node: %s", got)
	}
	c.Settles(func() (bool, string) {
		status, body := c.Ask(c.All[2], "GET", base+"&sid="+sid, "", "")
		return status == http.StatusBadRequest && strings.Contains(body, "Session ID unknown"), fmt.Sprint(status, body)
	})
}

// TestOuterHubOfACluster: polls and posts of an Engine.IO session come to hub.listen of any node.
func TestOuterHubOfACluster(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartNodesWith(t, 2, "hub: {listen: '127.0.0.1:0'}\n")
	ask := func(n *gatewaytest.Node, method, path, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+n.Gateway.Offices.Addr().String()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+gatewaytest.AnnToken)
		r.Header.Set("Weir-As", "forged")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(answer)
	}
	const base = "/socket.io/?EIO=4&transport=polling"
	status, opened := ask(c.All[0], "GET", base, "")
	_, sid, _ := strings.Cut(opened, `"sid":"`)
	sid, _, ok := strings.Cut(sid, `"`)
	if status != http.StatusOK || !ok {
		t.Fatalf("%d %s", status, opened)
	}
	if status, body := ask(c.All[1], "POST", base+"&sid="+sid, "40/smcp,"); status != http.StatusOK {
		t.Fatalf("a post: %d %s", status, body)
	}
	if status, body := ask(c.All[1], "GET", base+"&sid="+sid, ""); status != http.StatusOK || !strings.HasPrefix(body, "4") {
		t.Errorf("a poll: %d %s", status, body)
	}
}
