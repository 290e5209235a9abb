package gatewaytest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/smcp/computer"
)

// secrets registers an agent at a node and returns the secrets that the agent is told.
func (c *Nodes) Secrets(n *Node) []string {
	c.t.Helper()
	status, answer := c.Register(n, c.Up.URL+"/mcp")
	var told struct {
		Invocation struct {
			Secret string   `json:"secret"`
			Others []string `json:"others"`
		} `json:"invocation"`
	}
	if err := json.Unmarshal([]byte(answer), &told); err != nil || status != http.StatusOK {
		c.t.Fatal(status, answer, err)
	}
	return append([]string{told.Invocation.Secret}, told.Invocation.Others...)
}

// register registers an agent at a node.
func (c *Nodes) Register(n *Node, at string) (int, string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, n.Front.URL+"/agents", strings.NewReader(`{"name":"helper","instance":"1","url":"`+at+`"}`))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+AnnToken)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// stream opens an event stream at a node and returns its lines of data.
func (c *Nodes) Stream(n *Node, path string) <-chan string {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, n.Front.URL+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+AnnToken)
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		c.t.Fatalf("%v %v", resp, err)
	}
	lines := make(chan string, 16)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(lines)
		scan := bufio.NewScanner(resp.Body)
		for scan.Scan() {
			if data, ok := strings.CutPrefix(scan.Text(), "data: "); ok {
				lines <- data
			}
		}
	}()
	c.t.Cleanup(func() { _ = resp.Body.Close(); <-ended })
	return lines
}

// watch takes nodes out of the balancer when /readyz says so, and ends with ctx.
func (c *Nodes) Watch(ctx context.Context) {
	for ctx.Err() == nil {
		c.Mu.Lock()
		all := append([]*Node(nil), c.All...)
		c.Mu.Unlock()
		for _, n := range all {
			resp, err := http.Get(n.Front.URL + "/readyz")
			if err == nil {
				resp.Body.Close()
			}
			if err != nil || resp.StatusCode != http.StatusOK {
				c.Mu.Lock()
				n.Out = true
				c.Mu.Unlock()
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// patience bounds a request of a test, and the waits for requests.
const Patience = time.Minute

// tryCall makes a request in a session through the balancer, and returns what was wrong.
func (c *Nodes) TryCall(session, body string) (id string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Next().Front.URL+c.Path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+AnnToken)
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || !strings.Contains(string(raw), `"result"`)) {
		err = fmt.Errorf("status %d: %.400s", resp.StatusCode, raw)
	}
	return resp.Header.Get("Mcp-Session-Id"), err
}

// look gets a path of a node with a token.
func (c *Nodes) Look(n *Node, path, token string) (int, string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, n.Front.URL+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// describes returns the description of the tool in the catalog of a node, "" if it is not there.
func (n *Node) Describes() string {
	for _, e := range n.Gateway.Catalog.Snapshot().Catalog.Of("s") {
		if e.RawName == "count" {
			return e.Description
		}
	}
	return ""
}

// stored returns a document of the cluster as text.
func (c *Nodes) Stored(key string) string {
	doc, err := c.Docs.Get(c.t.Context(), key)
	if err != nil || doc.Rev == 0 {
		return ""
	}
	r, err := gzip.NewReader(bytes.NewReader(doc.Value))
	if err != nil {
		c.t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

// sees waits until a node describes the tool with a word.
func (c *Nodes) Sees(n *Node, word string) {
	c.t.Helper()
	c.Settles(func() (bool, string) {
		got := n.Describes()
		return strings.Contains(got, word), n.Name + ": " + got
	})
}

// computer starts a Computer with the cluster's MCP server, at a node.
func (c *Nodes) Computer(n *Node, name string) {
	c.t.Helper()
	c.ComputerAt(computer.Hub{URL: n.Front.URL, Office: "weir", Token: AnnToken}, name)
}

// computerAt is computer for any hub.
func (c *Nodes) ComputerAt(at computer.Hub, name string) {
	c.t.Helper()
	it, err := computer.New(computer.Options{Name: name})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = it.Close(ctx) // its hub may be gone
	})
	f, err := computer.Parse("test", fmt.Appendf(nil, `{"servers":{"far":{"type":"streamable","default_tool_meta":{"auto_apply":true},"server_parameters":{"url":%q}}}}`, c.Up.URL+"/mcp"))
	if err == nil {
		err = it.Load(c.t.Context(), f)
	}
	if err == nil {
		err = it.Connect(c.t.Context(), at)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// reaches calls a Computer's tool in a session at a node, until that works.
func (c *Nodes) Reaches(n *Node, session, name, text string) {
	c.t.Helper()
	id := regexp.MustCompile(name + `-far:echo#[0-9a-f]+`)
	last := ""
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		last = c.Calls(n, session, "tool_browse", `{"query":"echo"}`)
		if tool := id.FindString(last); tool != "" {
			last = c.Calls(n, session, "tool_execute", fmt.Sprintf(`{"tool_id":%q,"arguments":{"text":%q}}`, tool, text))
			if strings.Contains(last, text[:min(len(text), 20)]) && !strings.Contains(last, `"isError":true`) {
				return
			}
		}
	}
	c.t.Fatalf("at %s, %s: %.500s", n.Name, name, last)
}

// startPrograms starts nodes that have a server program each.
func StartPrograms(t *testing.T, count int) *Nodes {
	t.Helper()
	c := StartNodes(t, 0)
	c.Programs, c.More = ", "+ProgramConfig(t), "policy: {rules: [{action: deny, namespace: another}]}\n"
	for i := range count {
		c.Start(fmt.Sprint("n", i))
	}
	return c
}

// agent makes a request of a modern agent without a session at a node.
func (c *Nodes) Agent(n *Node, token, method, name, params string) string {
	c.t.Helper()
	_, answer := c.Sends(n, c.Path, token, method, name, params, `"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}`)
	return answer
}

// sends makes a request of a client of 2026-07-28 with some capabilities. The params end with a comma.
func (c *Nodes) Sends(n *Node, path, token, method, name, params, capabilities string) (int, string) {
	c.t.Helper()
	c.Mu.Lock()
	c.Call++
	id := c.Call
	c.Mu.Unlock()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{%s}}}}`, id, method, params, capabilities)
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, n.Front.URL+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for key, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + token,
		"Mcp-Protocol-Version": mcp.V20260728, "Mcp-Method": method, "Mcp-Name": name,
	} {
		if value != "" {
			r.Header.Set(key, value)
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// modern makes a request of a client of 2026-07-28 at a node.
func (c *Nodes) Modern(n *Node, method, name, params string) (int, string) {
	c.t.Helper()
	return c.Sends(n, c.Path, AnnToken, method, name, params, "")
}

// browse calls tool_browse at a node, and reports whether a quota refuses it.
func (c *Nodes) Browse(n *Node) (limited bool) {
	c.t.Helper()
	status, body := c.Modern(n, "tools/call", "tool_browse", `"name":"tool_browse","arguments":{"query":"echo"},`)
	if limited = strings.Contains(body, "RATE_LIMITED"); status != http.StatusOK || !limited && !strings.Contains(body, "echo") {
		c.t.Fatalf("at %s: %d %s", n.Name, status, body)
	}
	return limited
}

// ask makes a request of any kind at a node.
func (c *Nodes) Ask(n *Node, method, path, token, body string) (status int, answer string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, n.Front.URL+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatalf("%s: %v", n.Name, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, err.Error()
	}
	return resp.StatusCode, string(raw)
}

// calls calls a meta-tool in a session at a node.
func (c *Nodes) Calls(n *Node, session, tool, args string) string {
	c.t.Helper()
	c.Call++
	resp, body := c.PostTo(n, session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, c.Call, tool, args))
	if resp.StatusCode != http.StatusOK {
		c.t.Errorf("%s: %d %s", n.Name, resp.StatusCode, body)
	}
	return body
}

// holds makes a table of 300 rows that is held back at the node of a session.
func (c *Nodes) Holds(n *Node, session, word string) (echo, handle string) {
	c.t.Helper()
	echo = regexp.MustCompile(`up:echo#[0-9a-f]+`).FindString(c.Calls(n, session, "tool_browse", `{"query":"echo"}`))
	rows := make([]map[string]any, 300)
	for i := range rows {
		rows[i] = map[string]any{"n": i, "word": word}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		c.t.Fatal(err)
	}
	called := c.Calls(n, session, "tool_execute", `{"tool_id":"`+echo+`","args":{"text":`+string(rawjson.Quote(string(text)))+`}}`)
	if handle = regexp.MustCompile(`art_[a-z0-9]+`).FindString(called); handle == "" {
		c.t.Fatal(called)
	}
	return echo, handle
}

// offers returns the path of a URL that works once.
func (c *Nodes) Offers(n *Node, handle string) string {
	c.t.Helper()
	status, body := c.Ask(n, "POST", "/s2sp/offer/"+handle, AnnToken, "")
	at := rawjson.Text(rawjson.Get([]byte(body), "resource_url"))
	if status != http.StatusOK || at == "" {
		c.t.Fatalf("%d %s", status, body)
	}
	return at[strings.Index(at, "/s2sp/"):]
}

// answers repeats a modern agent's call of the tool that asks for a name, with more in its params.
func (c *Nodes) Answers(n *Node, path, token, more string) (int, string) {
	c.t.Helper()
	name, call := "elicit", `"name":"elicit","arguments":{}`
	if path == "/mcp" {
		name, call = "tool_execute", `"name":"tool_execute","arguments":{"tool_id":"`+c.Elicit+`","args":{}}`
	}
	return c.Sends(n, path, token, "tools/call", name, call+more+",", `"elicitation":{"form":{}}`)
}

// settles repeats a request to what a killed node had, until the answer is as it must be: the connection to that node may
// have taken the first ones.
func (c *Nodes) Settles(f func() (ok bool, got string)) {
	c.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		ok, got := f()
		if ok {
			return
		}
		if time.Now().After(end) {
			c.t.Errorf("of a node that is gone: %s", got)
			return
		}
	}
}

// Bearer adds the token of a client.
type Bearer struct{ Token string }

// RoundTrip implements http.RoundTripper.
func (b Bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.Token)
	return http.DefaultTransport.RoundTrip(r)
}
