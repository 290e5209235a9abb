package cli

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/gateway"
)

// heapLimit is limits.memory of the gateway under test.
const heapLimit = 64 << 20

// TestMemoryOfReferences: calls whose arguments are small and stand for many rows take no more than twice
// limits.memory over what the gateway takes when idle, one alone and 16 at a time: as much as the account has,
// and as much garbage. Pages of files do not count, as the system takes them back.
func TestMemoryOfReferences(t *testing.T) {
	l := newLoad(t)
	for _, s := range l.references() {
		for _, atOnce := range []int{1, 16} {
			l.drive(s, atOnce)
		}
	}
}

// TestMemoryOfOwnArguments: the same holds for each meta-tool that the gateway lists, with arguments of 9 MB that
// are for no server: the first of its arguments that is a text. Each has a gateway of its own, so that the garbage
// of one is not counted in the next.
func TestMemoryOfOwnArguments(t *testing.T) {
	long := strings.Repeat("a long query of words ", 400_000)
	tools := newLoad(t).metaTools()
	if len(tools) < 8 {
		t.Fatalf("the gateway lists %d meta-tools", len(tools))
	}
	for _, tool := range tools {
		t.Run(tool[0], func(t *testing.T) {
			l := newLoad(t)
			for _, atOnce := range []int{1, 16} {
				l.drive(sent{tool[0] + " " + tool[1], l.call(tool[0], fmt.Sprintf(`{%q:%q}`, tool[1], long))}, atOnce)
			}
		})
	}
}

// TestMemoryOfBlobs: the same holds for images that are held back, in messages that are received into a file and
// in messages on the heap, and for what is kept of them, also where secrets are looked for in it.
func TestMemoryOfBlobs(t *testing.T) {
	for _, redact := range []bool{false, true} {
		t.Run(fmt.Sprintf("redact=%v", redact), func(t *testing.T) {
			l := newLoadOf(t, fmt.Sprintf("{max_bytes: 1GB, redact: %v}", redact))
			for _, s := range []sent{
				{"an image of 20 MB", l.run("blob", `,"args":{}`)},
				{"an image of 5 MB", l.run("image", `,"args":{}`)},
				{"a blob of a resource", l.call("resource_read", `{"uri":"mem://blob"}`)},
				{"a text of 20 MB", l.run("text", `,"args":{}`)},
				{"a structured result of 20 MB", l.run("structured", `,"args":{}`)},
				{"a kept text", l.api("GET", "/artifacts/"+l.kept("text"), nil)},
				{"a kept text with a secret", l.api("GET", "/artifacts/"+l.kept("secret"), nil)},
				{"its lines", l.call("tool_view", fmt.Sprintf(`{"handle":%q,"selector":{"search":"words"}}`, l.kept("secret")))},
				{"kept rows", l.api("GET", "/artifacts/"+l.table, nil)},
				{"a kept image", l.api("GET", "/artifacts/"+l.kept("blob"), nil)},
			} {
				for _, atOnce := range []int{1, 16} {
					l.drive(s, atOnce)
				}
			}
		})
	}
}

// load is a gateway under load.
type load struct {
	*server
	client *http.Client
	up     *bulky
	idle   int64
	table  string // handles of kept results
	wide   string
}

// sent is one kind of request. next makes the next request of it.
type sent struct {
	name string
	next func() *http.Request
}

const heapToken = "heap-token"

func newLoad(t *testing.T) *load { return newLoadOf(t, "{max_bytes: 1GB}") }

func newLoadOf(t *testing.T, artifacts string) *load {
	up := newBulky(t)
	config := fmt.Sprintf("mode: gateway\nexpose_hydrate: true\nlimits: {memory: %d}\nartifacts: %s\nauth: {tokens: [{name: ann, operator: true, sha256: %x}]}\nmcpServers: {up: {url: %q, required: true}}\n",
		heapLimit, artifacts, sha256.Sum256([]byte(heapToken)), up.URL+"/mcp")
	l := &load{server: serve(t, config), up: up, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}, Timeout: limit}}
	t.Cleanup(l.client.CloseIdleConnections)
	l.token = heapToken
	up.gateway = l.base
	l.await("the server is ready", func(h gateway.Health) bool { return h.Upstreams["up"].State == "ready" })
	l.table, l.wide = l.kept("rows"), l.kept("wide")
	time.Sleep(500 * time.Millisecond)
	l.idle = l.resident()
	return l
}

// resident returns the memory of the gateway's process that is in no file.
func (l *load) resident() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", l.cmd.Process.Pid))
	if err != nil {
		l.t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "RssAnon:")
	kb, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	if err != nil {
		l.t.Fatal(err)
	}
	return kb << 10
}

// drive makes n requests of a kind at once, and looks at the memory.
func (l *load) drive(s sent, n int) {
	began := time.Now()
	var most atomic.Int64
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for {
			most.Store(max(most.Load(), l.resident()))
			select {
			case <-stop:
				return
			case <-time.After(3 * time.Millisecond):
			}
		}
	}()
	var all sync.WaitGroup
	var mu sync.Mutex
	served := 0
	for range n {
		req := s.next()
		all.Go(func() {
			req.Header.Set("Authorization", "Bearer "+heapToken)
			resp, err := l.client.Do(req)
			if err != nil {
				l.t.Error(err)
				return
			}
			if req.Method != http.MethodGet || resp.Header.Get("Content-Type") != "text/event-stream" { // a stream does not end
				_, _ = io.Copy(io.Discard, resp.Body)
			}
			_ = resp.Body.Close()
			mu.Lock()
			served++
			mu.Unlock()
		})
	}
	all.Wait()
	close(stop)
	<-stopped
	over := most.Load() - l.idle
	l.t.Logf("%-40s × %2d: %4d MB over idle, %v", s.name, n, over>>20, time.Since(began).Round(time.Millisecond))
	if served != n || over > 2*heapLimit {
		l.t.Errorf("%s: %d of %d are answered, %d MB over idle, and limits.memory has %d MB", s.name, served, n, over>>20, heapLimit>>20)
	}
}

// message returns a request of MCP without a session.
func (l *load) message(method, params string) func() *http.Request {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,%s}}`, method, params, meta)
	return func() *http.Request {
		req, err := http.NewRequest(http.MethodPost, l.url, strings.NewReader(body))
		if err != nil {
			l.t.Fatal(err)
		}
		name := regexp.MustCompile(`^"name":"([^"]*)"`).FindStringSubmatch(params)
		if name != nil {
			req.Header.Set("Mcp-Name", name[1])
		}
		req.Header.Set("Mcp-Method", method)
		req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		return req
	}
}

// call returns a call of a meta-tool.
func (l *load) call(name, arguments string) func() *http.Request {
	return l.message("tools/call", fmt.Sprintf(`"name":%q,"arguments":%s`, name, arguments))
}

// do makes a request and returns its answer.
func (l *load) do(req *http.Request) string {
	req.Header.Set("Authorization", "Bearer "+heapToken)
	resp, err := l.client.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return string(data)
}

// run returns a call of a tool of the server.
func (l *load) run(tool, more string) func() *http.Request {
	return l.call("tool_execute", fmt.Sprintf(`{"tool_id":%q%s}`, l.id(tool), more))
}

var ids sync.Map

// id returns the tool_id of a tool of the server, or of another one that its name has before a colon.
func (l *load) id(tool string) string {
	if !strings.Contains(tool, ":") {
		tool = "up:" + tool
	}
	if id, ok := ids.Load(l.base + tool); ok {
		return id.(string)
	}
	id, answer := "", ""
	for deadline := time.Now().Add(limit); id == "" && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		answer = l.do(l.call("tool_browse", fmt.Sprintf(`{"query":"tool %s"}`, tool[strings.Index(tool, ":")+1:]))())
		id = regexp.MustCompile(tool + "#[0-9a-z]+").FindString(answer)
	}
	if id == "" {
		l.t.Fatalf("there is no tool %s: %.500s", tool, answer)
	}
	ids.Store(l.base+tool, id)
	return id
}

// kept calls a tool, and returns the handle of its result.
func (l *load) kept(tool string) string {
	answer := l.do(l.run(tool, `,"args":{}`)())
	handle := regexp.MustCompile(`art_[0-9a-z]+`).FindString(answer)
	if handle == "" {
		l.t.Fatalf("%s is not kept: %.500s", tool, answer)
	}
	return handle
}

// metaTools returns the name of each meta-tool with the first of its arguments that is a text.
func (l *load) metaTools() (out [][2]string) {
	var list struct {
		Result struct {
			Tools []struct {
				Name        string
				InputSchema struct {
					Properties map[string]struct{ Type any }
				}
			}
		}
	}
	answer := l.do(l.message("tools/list", `"x":0`)())
	if err := json.Unmarshal([]byte(answer), &list); err != nil {
		l.t.Fatalf("%v: %.500s", err, answer)
	}
	for _, tool := range list.Result.Tools {
		first := ""
		for key, schema := range tool.InputSchema.Properties {
			if schema.Type == "string" && key != "mode" && (first == "" || key < first) {
				first = key
			}
		}
		if first == "" {
			l.t.Errorf("%s takes no text", tool.Name)
		}
		out = append(out, [2]string{tool.Name, first})
	}
	return out
}

// references returns calls with references to rows.
func (l *load) references() []sent {
	ref := `{"$table":"` + l.table + `"}`
	remote := `{"$table":"` + l.up.URL + `/s2sp/data/long"}`
	return []sent{
		{"rows", l.run("take", `,"args":{"rows":[`+ref+`,`+ref+`,`+ref+`]}`)},
		{"more than a call may have", l.run("take", `,"args":{"rows":[`+ref+strings.Repeat(","+ref, 10)+`]}`)},
		{"rows as text", l.run("take", `,"args":{"text":`+ref+`}`)},
		{"a wide row", l.run("take", `,"args":{"rows":[{"$table":"`+l.wide+`"}]}`)},
		{"an endless row of a server", l.run("take", `,"args":{"rows":`+remote+`}`)},
	}
}

// bulky is an MCP server, and the data plane of it, with large answers.
type bulky struct {
	*httptest.Server
	gateway string
	rows    string
	text    string
}

func newBulky(t *testing.T) *bulky {
	b := &bulky{}
	var rows strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&rows, `%c{"id":%d,"a":"a text of row %d","t":"%s"}`, "[,"[min(i, 1)], i, i, strings.Repeat("x", 30))
	}
	b.rows = rows.String() + "]"
	b.text = strings.Repeat("# a heading\nand a line of some words\n", 20<<20/37)
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

// ServeHTTP implements http.Handler.
func (b *bulky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/s2sp/data/") {
		_, _ = io.WriteString(w, `{"body":[{"_row_id":0,"a":"`)
		piece := strings.Repeat("x", 64<<10)
		for range 250 << 20 / len(piece) {
			if _, err := io.WriteString(w, piece); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, `"}]}`)
		return
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name string
			URI  string
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	result := ""
	switch m.Method {
	case "initialize":
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"up","version":"1"}}`
	case "tools/list":
		const any = `{"type":"object","properties":{"text":{"type":"string"},"rows":{"type":"array"}}}`
		var tools []string
		for _, name := range []string{"take", "rows", "text", "wide", "blob", "image", "secret", "structured"} {
			tools = append(tools, fmt.Sprintf(`{"name":%q,"description":"The tool %s.","inputSchema":%s}`, name, name, any))
		}
		tools = append(tools, `{"name":"divided","description":"The tool divided.","inputSchema":{"type":"object","properties":{"abstract_domains":{"type":"string"},"mode":{"type":"string"}}}}`,
			`{"name":"vast","description":"The tool vast.","inputSchema":{"type":"object","properties":{"x":{"type":"string","description":"`+strings.Repeat("words ", 9_000)+`"}}}}`)
		result = `{"tools":[` + strings.Join(tools, ",") + `]}`
	case "resources/list":
		result = `{"resources":[{"uri":"mem://text","name":"text"},{"uri":"mem://blob","name":"blob"}]}`
	case "resources/templates/list":
		result = `{"resourceTemplates":[{"uriTemplate":"mem://parts/{part}","name":"parts"}]}`
	case "prompts/list":
		result = `{"prompts":[{"name":"prompt","arguments":[{"name":"text"}]}]}`
	case "resources/read":
		if m.Params.URI == "mem://blob" {
			result = `{"contents":[{"uri":"mem://blob","mimeType":"image/png","blob":"` + strings.Repeat("QUJD", 5<<20) + `"}]}`
			break
		}
		result = `{"contents":[{"uri":"mem://text","mimeType":"text/plain","text":` + quoted(b.text) + `}]}`
	case "prompts/get":
		result = `{"messages":[{"role":"user","content":{"type":"text","text":` + quoted(b.text) + `}}]}`
	case "ping":
		result = "{}"
	case "tools/call":
		text := "done"
		switch m.Params.Name {
		case "take":
			time.Sleep(200 * time.Millisecond)
		case "rows":
			text = b.rows
		case "text":
			text = b.text
		case "wide":
			text = `[{"id":0,"a":"` + strings.Repeat(`x\"`, 1_000_000) + `","t":""}]`
		case "divided":
			text = `{"abstract":[{"_row_id":0}],"resource_url":"` + b.URL + `/s2sp/data/long","columns":["a"]}`
		case "structured":
			result = `{"content":[{"type":"text","text":"short"}],"structuredContent":{"text":` + quoted(b.text) + `}}`
		case "secret":
			text = b.text + "ghp_" + strings.Repeat("a1", 18)
		case "image":
			result = `{"content":[{"type":"image","mimeType":"image/png","data":"` + strings.Repeat("QUJD", 5<<18) + `"}]}`
		case "blob":
			result = `{"content":[{"type":"image","mimeType":"image/png","data":"` + strings.Repeat("QUJD", 5<<20) + `"}]}`
		}
		if result == "" {
			result = `{"content":[{"type":"text","text":` + quoted(text) + `}]}`
		}
	}
	if result == "" {
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
		return
	}
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func quoted(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(out)
}
