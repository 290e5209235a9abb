package app_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestAgentsOfACluster: an agent that registers at one gateway is called at all of them, also when that
// gateway is killed.
func TestAgentsOfACluster(t *testing.T) {
	t.Parallel()
	c := startNodes(t, 3)
	register := func(n *node) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.front.URL+"/agents", strings.NewReader(`{"name":"helper","instance":"1","url":"`+c.up.URL+`/mcp"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+clusterToken)
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
	if status, answer := register(c.all[0]); status != http.StatusOK || !strings.Contains(answer, `"leaseMs":60000`) || !strings.Contains(answer, `"secret"`) {
		t.Fatal(status, answer)
	}
	call := func(n *node) {
		t.Helper()
		c.path = "/mcps/helper/mcp"
		defer func() { c.path = "/mcp" }()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			status, body := c.modern(n, "tools/call", "echo", `"name":"echo","arguments":{"text":"hello"},`)
			if status == http.StatusOK && strings.Contains(body, "hello") {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("at %s: %d %s", n.name, status, body)
			}
		}
	}
	for _, n := range c.all {
		call(n)
	}
	c.kill(c.all[0])
	if status, answer := register(c.all[2]); status != http.StatusOK {
		t.Error(status, answer)
	}
	call(c.all[1])
	call(c.start("n3"))
}
