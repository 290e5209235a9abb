package dataplane_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
)

// TestRowsOfACluster: a URL that works once works at each node, once, and ends with its node.
func TestRowsOfACluster(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartNodesWith(t, 3, "public_url: http://weir.test\n")
	first, second, third := c.All[0], c.All[1], c.All[2]
	session := c.Open(first)
	echo, handle := c.Holds(first, session, "plain")

	at := c.Offers(first, handle)
	if !strings.HasPrefix(at, "/s2sp/data/"+first.Node.Inc()+"-") {
		t.Errorf("the token %q does not name its node", at)
	}
	if status, body := c.Ask(second, "POST", at, "", `{"columns":"word"}`); status != http.StatusBadRequest {
		t.Errorf("a bad request: %d %s", status, body)
	}
	if status, body := c.Ask(second, "POST", at, "", `{"row_ids":[7],"columns":["n"]}`); status != http.StatusOK || !strings.Contains(body, `[{"_row_id":7,"n":7}]`) {
		t.Errorf("%d %s", status, body)
	}
	for _, n := range c.All {
		if status, body := c.Ask(n, "POST", at, "", ""); status != http.StatusNotFound {
			t.Errorf("the second time, at %s: %d %.200s", n.Name, status, body)
		}
	}

	// Another node gives a URL for the result, too. It is that node's own.
	at = c.Offers(third, handle)
	if status, body := c.Ask(second, "POST", at, "", `{"row_ids":[7],"columns":["n"]}`); status != http.StatusOK || !strings.HasPrefix(at, "/s2sp/data/"+third.Node.Inc()+"-") {
		t.Errorf("of a result of another node: %s: %d %s", at, status, body)
	}
	if status, _ := c.Ask(third, "POST", "/s2sp/offer/"+handle, gatewaytest.BobToken, ""); status != http.StatusNotFound {
		t.Errorf("for another principal: %d", status)
	}

	at = c.Offers(first, handle)
	var all sync.WaitGroup
	var mu sync.Mutex
	got := map[int]int{}
	for i := range 12 {
		all.Go(func() {
			status, _ := c.Ask(c.All[i%3], "POST", at, "", "")
			mu.Lock()
			defer mu.Unlock()
			got[status]++
		})
	}
	all.Wait()
	if got[http.StatusOK] != 1 || got[http.StatusNotFound] != 11 {
		t.Errorf("twelve readers at a time: %v", got)
	}

	// A reference in arguments is resolved by the node of the call.
	other := c.Open(second)
	refers := func(at string) string {
		return c.Calls(second, other, "tool_execute", `{"tool_id":"`+echo+`","args":{"text":"echo","rows":{"$table":"http://weir.test`+at+`","row_ids":[3],"columns":["n"]}}}`)
	}
	at = c.Offers(first, handle)
	if answer := refers(at); !strings.Contains(answer, `"text":"echo"`) {
		t.Errorf("a reference: %s", answer)
	}
	if answer := refers(at); !strings.Contains(answer, "unknown or expired resource") {
		t.Errorf("the second reference: %s", answer)
	}

	at = c.Offers(first, handle)
	c.Kill(first)
	for _, n := range []*gatewaytest.Node{second, third} {
		if status, body := c.Ask(n, "POST", at, "", ""); status != http.StatusNotFound || !strings.Contains(body, "its node is gone; make the call again") {
			t.Errorf("of a node that is gone, at %s: %d %.200s", n.Name, status, body)
		}
	}
	if answer := refers(at); !strings.Contains(answer, "unknown or expired resource") {
		t.Errorf("a reference to rows of a node that is gone: %s", answer)
	}
}

// TestResultsOfACluster: a result that was held back is read at each node, by its principal alone, and ends with its node
// unless there is a copy.
func TestResultsOfACluster(t *testing.T) {
	for _, backup := range []bool{false, true} {
		t.Run(fmt.Sprintf("backup %v", backup), func(t *testing.T) {
			t.Parallel()
			testResults(t, backup)
		})
	}
}

func testResults(t *testing.T, backup bool) {
	c := gatewaytest.StartNodesWith(t, 0, "")
	if backup {
		c.Blobs = store.NewMemoryBlobs()
	}
	first, second, third := c.Start("n0"), c.Start("n1"), c.Start("n2")
	session, other := c.Open(first), c.Open(second)
	_, handle := c.Holds(first, session, "plain")
	if !strings.HasPrefix(handle, "art_"+first.Node.Inc()) {
		t.Errorf("the handle %s does not name its node", handle)
	}
	views := func(n *gatewaytest.Node, session, handle string) string {
		return c.Calls(n, session, "tool_view", `{"handle":"`+handle+`","selector":{"type":"rows","start":7,"end":8}}`)
	}
	if answer := views(second, other, handle); !strings.Contains(answer, "plain") || !strings.Contains(answer, `\"n\":7`) {
		t.Errorf("at another node: %s", answer)
	}
	if status, body := c.Ask(second, "GET", "/artifacts/"+handle, gatewaytest.AnnToken, ""); status != http.StatusOK || !strings.Contains(body, `"n":299`) {
		t.Errorf("the bytes: %d %.300s", status, body)
	}
	for _, n := range c.All {
		if status, body := c.Ask(n, "GET", "/artifacts/"+handle, gatewaytest.BobToken, ""); status != http.StatusNotFound {
			t.Errorf("of another principal, at %s: %d %.300s", n.Name, status, body)
		}
		if status, body := c.Ask(n, "GET", "/peer/v1/artifact/"+handle, gatewaytest.AnnToken, ""); status != http.StatusNotFound {
			t.Errorf("the path of nodes is open: %d %.300s", status, body)
		}
	}
	at := c.Offers(second, handle)
	if status, body := c.Ask(third, "POST", at, "", `{"row_ids":[9],"columns":["n"]}`); status != http.StatusOK || !strings.Contains(body, `"n":9`) {
		t.Errorf("rows of a result of another node: %d %s", status, body)
	}
	_, unread := c.Holds(first, session, "unread")
	c.Kill(first)
	if answer := views(second, other, handle); !strings.Contains(answer, "plain") {
		t.Errorf("a copy is lost with the node: %s", answer)
	}
	c.Settles(func() (bool, string) {
		_, body := c.Ask(third, "GET", "/artifacts/"+unread, gatewaytest.AnnToken, "")
		want := map[bool]string{false: "its node is gone; make the call again", true: `"word":"unread"`}[backup]
		return strings.Contains(body, want), fmt.Sprintf("%.300s", body)
	})
	if _, body := c.Ask(third, "GET", "/artifacts/"+unread, gatewaytest.BobToken, ""); strings.Contains(body, "unread\",") {
		t.Errorf("the copy is open to another principal: %.300s", body)
	}
}
