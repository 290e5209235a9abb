package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
	"github.com/weir-mcp/weir/mcp"
)

// TestStreamsOfADrainingNode: a drain ends subscriptions with an answer, closes connections at /sse and lets
// Computers go, which come to another node.
func TestStreamsOfADrainingNode(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartNodesWith(t, 2, "hub: {}\n")
	first, second := c.All[0], c.All[1]
	session := c.Open(second)
	c.Computer(first, "desk")
	c.Reaches(second, session, "desk", "before")
	old := c.Stream(first, "/sse")
	<-old // its path
	answers := make(chan string, 1)
	listening := make(chan struct{})
	begun := sync.OnceFunc(func() { close(listening) })
	go func() {
		defer close(answers)
		body := `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
		r, _ := http.NewRequest(http.MethodPost, first.Front.URL+"/mcp", strings.NewReader(body)) // the URL is good
		for key, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + gatewaytest.AnnToken, "Mcp-Protocol-Version": mcp.V20260728, "Mcp-Method": "subscriptions/listen"} {
			r.Header.Set(key, value)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			answers <- err.Error()
			begun()
			return
		}
		defer resp.Body.Close()
		all, buf := "", make([]byte, 4096)
		for {
			n, err := resp.Body.Read(buf)
			if all += string(buf[:n]); strings.Contains(all, "acknowledged") {
				begun()
			}
			if err != nil {
				answers <- fmt.Sprint(all, " ", err)
				return
			}
		}
	}()
	select {
	case <-listening:
	case <-time.After(20 * time.Second):
		t.Fatal("the subscription does not begin")
	}
	first.Node.Drain()
	select {
	case got := <-answers:
		if !strings.Contains(got, `"id":7`) || !strings.Contains(got, `"result"`) || !strings.HasSuffix(got, " EOF") {
			t.Errorf("the subscription ended with %s", got)
		}
	case <-time.After(20 * time.Second):
		t.Error("the subscription stays")
	}
	ended := time.After(20 * time.Second)
	for open := true; open; {
		select {
		case _, open = <-old:
		case <-ended:
			t.Error("the connection at /sse stays")
			open = false
		}
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if status, _ := c.Ask(first, "GET", "/socket.io/?EIO=4&transport=polling", gatewaytest.AnnToken, ""); status == http.StatusServiceUnavailable {
			break
		}
		if time.Now().After(end) {
			t.Error("the draining node takes new Computers")
			break
		}
	}
	c.Computer(second, "desk")
	c.Reaches(second, session, "desk", "after")
}
