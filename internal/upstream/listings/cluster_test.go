package listings_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
)

// listed is an MCP server with one tool, whose description the test sets.
type listed struct {
	*httptest.Server

	mu    sync.Mutex // guards below
	about string
	gate  chan struct{} // nil: it lists at once
}

func startListed(t *testing.T, about string) *listed {
	s := &listed{about: about}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() { s.hold(nil); s.CloseClientConnections(); s.Close() })
	return s
}

// set changes the description. Clients are not told.
func (s *listed) set(about string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.about = about
}

// hold makes lists wait until a channel is closed.
func (s *listed) hold(gate chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = gate
}

func (s *listed) serve(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	s.mu.Lock()
	about, gate := s.about, s.gate
	s.mu.Unlock()
	if m.Method == "tools/list" && gate != nil {
		select {
		case <-gate:
		case <-r.Context().Done():
			return
		}
	}
	result := map[string]string{
		"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`,
		"tools/list": fmt.Sprintf(`{"tools":[{"name":"count","description":%q,"inputSchema":{"type":"object"}}]}`, about),
		"tools/call": `{"content":[{"type":"text","text":"forty"}]}`,
	}[m.Method]
	if m.ID == nil || result == "" {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// listedNodes returns a cluster without nodes, whose nodes have a server s.
func listedNodes(t *testing.T, more string) (*gatewaytest.Nodes, *listed) {
	t.Helper()
	c, s := gatewaytest.StartNodesWith(t, 0, more), startListed(t, "Counts sheep")
	c.Programs = fmt.Sprintf(", s: {url: %q}", s.URL+"/mcp")
	return c, s
}

// TestListingsOfACluster: a node that starts has the catalog of the others before a server has listed anything to it,
// and the others list again what a node has listed differently.
func TestListingsOfACluster(t *testing.T) {
	t.Parallel()
	c, s := listedNodes(t, "")
	key := "l." + store.Hash("s")
	first := c.Start("n0")
	c.Sees(first, "sheep")
	c.Settles(func() (bool, string) { text := c.Stored(key); return strings.Contains(text, "sheep"), text })

	gate := make(chan struct{})
	s.hold(gate)
	s.set("Counts wolves")
	second := c.Start("n1")
	if got := second.Describes(); got != "Counts sheep" {
		t.Errorf("before its own listing, the second node has %q", got)
	}
	s.hold(nil)
	close(gate)
	c.Sees(second, "wolves")
	began := time.Now()
	c.Sees(first, "wolves") // the server has told it nothing
	t.Logf("the first node has it %v after the second", time.Since(began))
	c.Settles(func() (bool, string) { text := c.Stored(key); return strings.Contains(text, "wolves"), text })

	// One with another configuration of the server begins with its own listing.
	gate = make(chan struct{})
	s.hold(gate)
	c.Programs = fmt.Sprintf(", s: {url: %q, exclude_tools: [other]}", s.URL+"/mcp")
	third := c.Start("n2")
	if got := third.Describes(); got != "" {
		t.Errorf("with another configuration: %q", got)
	}
	s.hold(nil)
	close(gate)
	c.Sees(third, "wolves")
	for _, word := range []string{gatewaytest.AnnToken, s.URL} {
		if text := c.Stored(key); strings.Contains(text, word) {
			t.Errorf("the document has %q", word)
		}
	}
}

// TestFirstDefinitionsOfACluster: all nodes compare with what one of them saw first, also after all have been started
// again.
func TestFirstDefinitionsOfACluster(t *testing.T) {
	t.Parallel()
	c, s := listedNodes(t, "")
	changed := func(n *gatewaytest.Node) {
		t.Helper()
		c.Settles(func() (bool, string) {
			changes := n.Gateway.Catalog.Info(time.Time{}).Changes
			text, err := json.Marshal(changes)
			return err == nil && len(changes) == 1 && changes[0].Change == catalog.EntryChanged && strings.Contains(string(text), "sheep") && strings.Contains(string(text), "wolves"), n.Name + ": " + string(text)
		})
	}
	first := c.Start("n0")
	c.Sees(first, "sheep")
	if text := c.Stored("f." + store.Hash("s")); !strings.Contains(text, "sheep") {
		t.Errorf("the first definitions are not kept: %s", text)
	}
	s.set("Counts wolves")
	second := c.Start("n1")
	changed(second)
	changed(first)
	c.Stop(first)
	c.Stop(second)
	changed(c.Start("n2"))
}

// TestFirstDefinitionsAreOne: of nodes that list at the same time, one has the first definitions for all.
func TestFirstDefinitionsAreOne(t *testing.T) {
	t.Parallel()
	c, s := listedNodes(t, "")
	gate := make(chan struct{})
	s.hold(gate)
	var all []*gatewaytest.Node
	for i := range 3 {
		all = append(all, c.Start(fmt.Sprint("n", i)))
	}
	s.hold(nil)
	close(gate)
	s.set("Counts wolves")
	for _, n := range all {
		c.Settles(func() (bool, string) { got := n.Describes(); return got != "", n.Name + " has no tool" })
	}
	first := c.Stored("f." + store.Hash("s"))
	for _, n := range all {
		c.Settles(func() (bool, string) {
			text := fmt.Sprintf("%s: %s, %+v, first %s", n.Name, n.Describes(), n.Gateway.Catalog.Info(time.Time{}).Changes, first)
			return len(n.Gateway.Catalog.Info(time.Time{}).Changes) == map[bool]int{true: 0, false: 1}[strings.Contains(first, n.Describes())], text
		})
	}
}

// TestLockOfANewNode: a node without weir.lock does not begin to trust definitions that have changed since the cluster saw
// them first.
func TestLockOfANewNode(t *testing.T) {
	t.Parallel()
	c, s := listedNodes(t, "trust: hold\n")
	c.Folders = true
	first := c.Start("n0")
	c.Sees(first, "sheep")
	s.set("Counts wolves")
	second := c.Start("n1")
	for _, n := range []*gatewaytest.Node{second, first} {
		c.Settles(func() (bool, string) {
			got := n.Gateway.Definitions.Summary("s")
			return got.Differs == 1 && n.Describes() == "", fmt.Sprintf("%s: %+v, %q", n.Name, got, n.Describes())
		})
	}
}
