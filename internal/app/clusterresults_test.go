package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/store"
)

// ask makes a request of any kind at a node.
func (c *nodes) ask(n *node, method, path, token, body string) (status int, answer string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, n.front.URL+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatalf("%s: %v", n.name, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, err.Error()
	}
	return resp.StatusCode, string(raw)
}

// calls calls a meta-tool in a session at a node.
func (c *nodes) calls(n *node, session, tool, args string) string {
	c.t.Helper()
	c.call++
	resp, body := c.postTo(n, session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, c.call, tool, args))
	if resp.StatusCode != http.StatusOK {
		c.t.Errorf("%s: %d %s", n.name, resp.StatusCode, body)
	}
	return body
}

// holds makes a table of 300 rows that is held back at the node of a session.
func (c *nodes) holds(n *node, session, word string) (echo, handle string) {
	c.t.Helper()
	echo = regexp.MustCompile(`up:echo#[0-9a-f]+`).FindString(c.calls(n, session, "tool_browse", `{"query":"echo"}`))
	rows := make([]map[string]any, 300)
	for i := range rows {
		rows[i] = map[string]any{"n": i, "word": word}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		c.t.Fatal(err)
	}
	called := c.calls(n, session, "tool_execute", `{"tool_id":"`+echo+`","args":{"text":`+string(rawjson.Quote(string(text)))+`}}`)
	if handle = regexp.MustCompile(`art_[a-z0-9]+`).FindString(called); handle == "" {
		c.t.Fatal(called)
	}
	return echo, handle
}

// offers returns the path of a URL that works once.
func (c *nodes) offers(n *node, handle string) string {
	c.t.Helper()
	status, body := c.ask(n, "POST", "/s2sp/offer/"+handle, clusterToken, "")
	at := rawjson.Text(rawjson.Get([]byte(body), "resource_url"))
	if status != http.StatusOK || at == "" {
		c.t.Fatalf("%d %s", status, body)
	}
	return at[strings.Index(at, "/s2sp/"):]
}

// TestRowsOfACluster: a URL that works once works at each node, once, and ends with its node.
func TestRowsOfACluster(t *testing.T) {
	t.Parallel()
	c := startNodesWith(t, 3, "public_url: http://weir.test\n")
	first, second, third := c.all[0], c.all[1], c.all[2]
	session := c.open(first)
	echo, handle := c.holds(first, session, "plain")

	at := c.offers(first, handle)
	if !strings.HasPrefix(at, "/s2sp/data/"+first.node.Inc()+"-") {
		t.Errorf("the token %q does not name its node", at)
	}
	if status, body := c.ask(second, "POST", at, "", `{"columns":"word"}`); status != http.StatusBadRequest {
		t.Errorf("a bad request: %d %s", status, body)
	}
	if status, body := c.ask(second, "POST", at, "", `{"row_ids":[7],"columns":["n"]}`); status != http.StatusOK || !strings.Contains(body, `[{"_row_id":7,"n":7}]`) {
		t.Errorf("%d %s", status, body)
	}
	for _, n := range c.all {
		if status, body := c.ask(n, "POST", at, "", ""); status != http.StatusNotFound {
			t.Errorf("the second time, at %s: %d %.200s", n.name, status, body)
		}
	}

	// Another node gives a URL for the result, too. It is that node's own.
	at = c.offers(third, handle)
	if status, body := c.ask(second, "POST", at, "", `{"row_ids":[7],"columns":["n"]}`); status != http.StatusOK || !strings.HasPrefix(at, "/s2sp/data/"+third.node.Inc()+"-") {
		t.Errorf("of a result of another node: %s: %d %s", at, status, body)
	}
	if status, _ := c.ask(third, "POST", "/s2sp/offer/"+handle, otherToken, ""); status != http.StatusNotFound {
		t.Errorf("for another principal: %d", status)
	}

	at = c.offers(first, handle)
	var all sync.WaitGroup
	var mu sync.Mutex
	got := map[int]int{}
	for i := range 12 {
		all.Go(func() {
			status, _ := c.ask(c.all[i%3], "POST", at, "", "")
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
	other := c.open(second)
	refers := func(at string) string {
		return c.calls(second, other, "tool_execute", `{"tool_id":"`+echo+`","args":{"text":"echo","rows":{"$table":"http://weir.test`+at+`","row_ids":[3],"columns":["n"]}}}`)
	}
	at = c.offers(first, handle)
	if answer := refers(at); !strings.Contains(answer, `"text":"echo"`) {
		t.Errorf("a reference: %s", answer)
	}
	if answer := refers(at); !strings.Contains(answer, "unknown or expired resource") {
		t.Errorf("the second reference: %s", answer)
	}

	at = c.offers(first, handle)
	c.kill(first)
	for _, n := range []*node{second, third} {
		if status, body := c.ask(n, "POST", at, "", ""); status != http.StatusNotFound || !strings.Contains(body, "its node is gone; make the call again") {
			t.Errorf("of a node that is gone, at %s: %d %.200s", n.name, status, body)
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
	c := startNodesWith(t, 0, "")
	if backup {
		c.blobs = store.NewMemoryBlobs()
	}
	first, second, third := c.start("n0"), c.start("n1"), c.start("n2")
	session, other := c.open(first), c.open(second)
	_, handle := c.holds(first, session, "plain")
	if !strings.HasPrefix(handle, "art_"+first.node.Inc()) {
		t.Errorf("the handle %s does not name its node", handle)
	}
	views := func(n *node, session, handle string) string {
		return c.calls(n, session, "tool_view", `{"handle":"`+handle+`","selector":{"type":"rows","start":7,"end":8}}`)
	}
	if answer := views(second, other, handle); !strings.Contains(answer, "plain") || !strings.Contains(answer, `\"n\":7`) {
		t.Errorf("at another node: %s", answer)
	}
	if status, body := c.ask(second, "GET", "/artifacts/"+handle, clusterToken, ""); status != http.StatusOK || !strings.Contains(body, `"n":299`) {
		t.Errorf("the bytes: %d %.300s", status, body)
	}
	for _, n := range c.all {
		if status, body := c.ask(n, "GET", "/artifacts/"+handle, otherToken, ""); status != http.StatusNotFound {
			t.Errorf("of another principal, at %s: %d %.300s", n.name, status, body)
		}
		if status, body := c.ask(n, "GET", "/peer/v1/artifact/"+handle, clusterToken, ""); status != http.StatusNotFound {
			t.Errorf("the path of nodes is open: %d %.300s", status, body)
		}
	}
	at := c.offers(second, handle)
	if status, body := c.ask(third, "POST", at, "", `{"row_ids":[9],"columns":["n"]}`); status != http.StatusOK || !strings.Contains(body, `"n":9`) {
		t.Errorf("rows of a result of another node: %d %s", status, body)
	}
	_, unread := c.holds(first, session, "unread")
	c.kill(first)
	if answer := views(second, other, handle); !strings.Contains(answer, "plain") {
		t.Errorf("a copy is lost with the node: %s", answer)
	}
	c.settles(func() (bool, string) {
		_, body := c.ask(third, "GET", "/artifacts/"+unread, clusterToken, "")
		want := map[bool]string{false: "its node is gone; make the call again", true: `"word":"unread"`}[backup]
		return strings.Contains(body, want), fmt.Sprintf("%.300s", body)
	})
	if _, body := c.ask(third, "GET", "/artifacts/"+unread, otherToken, ""); strings.Contains(body, "unread\",") {
		t.Errorf("the copy is open to another principal: %.300s", body)
	}
}
