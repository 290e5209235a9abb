package agentserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/protocol/listchange"
	"github.com/weir-mcp/weir/internal/testkit/proctest"
	"github.com/weir-mcp/weir/mcp"
)

const basic = `
name: demo
tools:
  - name: echo
    description: Gives back what it reads
    command: cat
    inputSchema:
      type: object
      properties: {text: {type: string, minLength: 1}}
      required: [text]
      additionalProperties: false
  - {name: fails, description: Fails, command: sh, args: [-c, "echo partial; echo broken >&2; exit 3"]}
  - {name: slow, description: Sleeps, command: sleep, args: ["60"], timeoutMs: 200}
  - {name: job, description: Works, command: sh, args: [-c, "cat; echo step >&2"], async: true}
resources:
  - {name: health, uri: "health://status", description: State, mimeType: application/json, command: echo, args: ['{"ok":true}']}
  - {name: doc, template: "doc://{folder}/{id}", mimeType: text/markdown, command: cat}
  - {name: bytes, uri: "bytes://x", command: printf, args: ['\377\376']}
  - {name: broken, uri: "broken://x", command: sh, args: [-c, "echo why >&2; exit 5"]}
prompts:
  - name: summarize
    description: Short summary
    arguments: [{name: text, required: true}, {name: tone}]
    messages:
      - {role: user, content: "Summarize in a ${tone} tone: {{text}} ${other}"}
      - {role: assistant, content: {type: text, text: "Sure."}}
  - {name: made, command: sh, args: [-c, 'read l; echo "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"hi\"}}]}"'], arguments: [{name: who}]}
  - {name: plain, command: cat}
`

// Every caller gets the same tools: without session, with one in each legacy
// version, and in the modern era.
func TestCallsInEveryEra(t *testing.T) {
	a := newAgent(t, basic, Options{})
	params := `{"name":"echo","arguments":{"text":"hello"}}`
	want := `{"tool":"echo","input":{"text":"hello"},"metadata":{"agent":"demo","principal":"local"}}`
	check := func(t *testing.T, r reply) {
		t.Helper()
		if r.status != http.StatusOK || r.content() != want+"\n" || string(r.get("result", "structuredContent")) != want || r.text("id") != "a-1" {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	t.Run("sessionless", func(t *testing.T) { check(t, a.post("tools/call", params)) })
	for _, v := range mcp.Versions[1:] {
		t.Run(v, func(t *testing.T) {
			headers := a.session(v)
			check(t, a.post("tools/call", params, headers...))
			for _, method := range []string{"tools/list", "resources/list", "resources/templates/list", "prompts/list", "ping"} {
				if r := a.post(method, `{}`, headers...); r.get("result") == nil {
					t.Errorf("%s: %s", method, r.body)
				}
			}
		})
	}
	t.Run("modern", func(t *testing.T) {
		r := a.modern("tools/call", params, `{}`)
		check(t, r)
		if r.text("result", "resultType") != "complete" {
			t.Errorf("%s", r.body)
		}
		for _, method := range []string{"server/discover", "tools/list", "resources/list", "resources/templates/list", "prompts/list"} {
			r := a.modern(method, `{}`, `{}`)
			if r.get("result", "ttlMs") == nil || r.get("result", "cacheScope") == nil {
				t.Errorf("%s: %s", method, r.body)
			}
		}
	})
}

func TestLists(t *testing.T) {
	a := newAgent(t, basic, Options{})
	names := func(method, key string) (all []string) {
		_ = rawjson.EachElement(a.post(method, "{}").get("result", key), func(v []byte) bool {
			all = append(all, rawjson.Text(rawjson.Get(v, "name")))
			return true
		})
		return all
	}
	for _, c := range []struct {
		method, key string
		want        []string
	}{
		{"tools/list", "tools", []string{"echo", "fails", "job", "slow"}},
		{"resources/list", "resources", []string{"broken", "bytes", "health"}},
		{"resources/templates/list", "resourceTemplates", []string{"doc"}},
		{"prompts/list", "prompts", []string{"made", "plain", "summarize"}},
	} {
		if got := names(c.method, c.key); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", c.method, got)
		}
	}
	tools := string(a.post("tools/list", "{}").body)
	if !strings.Contains(tools, `"inputSchema":{"type":"object","properties":{"text":{"type":"string","minLength":1}},"required":["text"],"additionalProperties":false}`) {
		t.Errorf("the schema is not told as it was written: %s", tools)
	}
	if r := a.post("tools/list", `{"cursor":"x"}`); r.code() != -32602 {
		t.Errorf("a cursor that was never given: %s", r.body)
	}
}

// The table of errors: what a caller without session and version is told, a
// legacy session, and a modern client.
func TestErrorCodes(t *testing.T) {
	a := newAgent(t, basic, Options{})
	headers := a.session(mcp.V20251125)
	for _, c := range []struct {
		name, method, params    string
		bare, session, inModern int
		kind, says              string
	}{
		{"unknown method", "tools/run", `{}`, -32601, -32601, -32601, "method_not_found", "tools/run"},
		{"unknown tool", "tools/call", `{"name":"ecko"}`, -32601, -32601, -32602, "not_found", "Tool 'ecko' not found"},
		{"no name", "tools/call", `{}`, -32602, -32602, -32602, "invalid_params", "params.name"},
		{"wrong type", "tools/call", `{"name":"echo","arguments":{"text":1}}`, -32602, -32602, -32602, "invalid_params", "/text must be string"},
		{"missing argument", "tools/call", `{"name":"echo"}`, -32602, -32602, -32602, "invalid_params", "text"},
		{"argument too much", "tools/call", `{"name":"echo","arguments":{"text":"x","more":1}}`, -32602, -32602, -32602, "invalid_params", "more"},
		{"arguments no object", "tools/call", `{"name":"echo","arguments":[]}`, -32602, -32602, -32602, "invalid_params", "object"},
		{"unknown resource", "resources/read", `{"uri":"doc://none"}`, -32001, -32002, -32602, "resource_not_found", "doc://none"},
		{"resource fails", "resources/read", `{"uri":"broken://x"}`, -32000, -32000, -32000, "tool_execution", "why"},
		{"unknown prompt", "prompts/get", `{"name":"none"}`, -32602, -32602, -32602, "invalid_params", "none"},
		{"missing prompt argument", "prompts/get", `{"name":"summarize"}`, -32602, -32602, -32602, "invalid_params", "text"},
		{"timeout", "tools/call", `{"name":"slow"}`, -32003, -32003, -32003, "timeout", "200ms"},
		{"unknown task", "tasks/cancel", `{"taskId":"none"}`, -32602, -32602, -32602, "not_found", "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			check := func(era string, r reply, code int) {
				t.Helper()
				if r.code() != code || r.text("error", "data", "kind") != c.kind || !strings.Contains(r.text("error", "message"), c.says) || r.text("id") != "a-1" {
					t.Errorf("%s: %d %s, want %d", era, r.status, r.body, code)
				}
			}
			check("bare", a.post(c.method, c.params), c.bare)
			check("session", a.post(c.method, c.params, headers...), c.session)
			check("modern", a.modern(c.method, c.params, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`), c.inModern)
		})
	}
	t.Run("parse error", func(t *testing.T) {
		r, err := a.do(t.Context(), `{"jsonrpc":`)
		if err != nil || r.status != http.StatusBadRequest || r.code() != -32700 || r.text("error", "data", "kind") != "parse_error" {
			t.Errorf("%d %s, %v", r.status, r.body, err)
		}
	})
	t.Run("invalid request", func(t *testing.T) {
		r, err := a.do(t.Context(), `{"id":1,"method":"ping"}`)
		if err != nil || r.code() != -32600 || r.text("error", "data", "kind") != "invalid_request" {
			t.Errorf("%d %s, %v", r.status, r.body, err)
		}
	})
	t.Run("names there are", func(t *testing.T) {
		if r := a.call("ecko", "{}"); string(r.get("error", "data", "tools")) != `["echo","fails","job","slow"]` {
			t.Errorf("%s", r.body)
		}
	})
}

// A failing command is a result that says so, with exit status and code.
func TestFailingTool(t *testing.T) {
	a := newAgent(t, basic, Options{})
	r := a.call("fails", "{}")
	if string(r.get("result", "isError")) != "true" || string(r.get("result", "_meta", "code")) != "-32000" || string(r.get("result", "_meta", "exit")) != "3" {
		t.Errorf("%s", r.body)
	}
	if r.content() != "partial\n" || !strings.Contains(string(r.body), `"text":"broken"`) {
		t.Errorf("%s", r.body)
	}
}

func TestResources(t *testing.T) {
	a := newAgent(t, basic, Options{})
	for uri, want := range map[string]string{
		"health://status": `{"contents":[{"uri":"health://status","mimeType":"application/json","text":"{\"ok\":true}\n"}]}`,
		"bytes://x":       `{"contents":[{"uri":"bytes://x","mimeType":"application/octet-stream","blob":"//4="}]}`,
	} {
		if r := a.post("resources/read", `{"uri":"`+uri+`"}`); string(r.get("result")) != want {
			t.Errorf("%s: %s", uri, r.body)
		}
	}
	r := a.post("resources/read", `{"uri":"doc://notes/a%20b"}`)
	var first json.RawMessage
	_ = rawjson.EachElement(r.get("result", "contents"), func(v []byte) bool { first = v; return false })
	got := []byte(rawjson.Text(rawjson.Get(first, "text")))
	if rawjson.Text(rawjson.GetPath(got, "params", "folder")) != "notes" || rawjson.Text(rawjson.GetPath(got, "params", "id")) != "a b" || rawjson.Text(rawjson.Get(got, "uri")) != "doc://notes/a%20b" {
		t.Errorf("the command read %s", got)
	}
}

func TestPrompts(t *testing.T) {
	a := newAgent(t, basic, Options{})
	for _, c := range []struct{ params, want string }{
		{`{"name":"summarize","arguments":{"text":"a \"b\"","tone":"dry"}}`, `{"description":"Short summary","messages":[{"role":"user","content":{"type":"text","text":"Summarize in a dry tone: a \"b\" ${other}"}},{"role":"assistant","content":{"type":"text","text":"Sure."}}]}`},
		{`{"name":"summarize","arguments":{"text":"${tone}"}}`, `{"description":"Short summary","messages":[{"role":"user","content":{"type":"text","text":"Summarize in a  tone: ${tone} ${other}"}},{"role":"assistant","content":{"type":"text","text":"Sure."}}]}`},
		{`{"name":"made"}`, `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]}`},
	} {
		if r := a.post("prompts/get", c.params); string(r.get("result")) != c.want {
			t.Errorf("%s: %s", c.params, r.body)
		}
	}
	r := a.post("prompts/get", `{"name":"plain","arguments":{"a":"1"}}`)
	if !strings.Contains(string(r.body), `\"prompt\":\"plain\"`) || !strings.Contains(string(r.body), `\"a\":\"1\"`) {
		t.Errorf("a command's text is a message: %s", r.body)
	}
}

// A full queue, and its numbers.
func TestQueueFull(t *testing.T) {
	gate := make(chan struct{})
	started := make(chan struct{}, 10)
	wait := Func("wait", "Waits", func(ctx context.Context, _ struct{}) (string, error) {
		started <- struct{}{}
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return "done", nil
	})
	a := newAgent(t, "", Options{Tools: []Tool{wait}, QueueMax: 2})
	var all sync.WaitGroup
	answers := make(chan reply, 3)
	for range 3 {
		all.Go(func() { answers <- a.call("wait", "{}") })
	}
	<-started
	eventually(t, "the queue fills", func() bool { return a.Status().Queued == 2 })
	r := a.call("wait", "{}")
	want := `{"concurrency":1,"kind":"queue_full","limit":2,"queued":2,"running":1}`
	if r.code() != -32002 || string(r.get("error", "data")) != want || !strings.HasPrefix(r.text("error", "message"), "QueueFull") {
		t.Errorf("%d %s", r.status, r.body)
	}
	// What does not fit the schema does not even get there.
	if r := a.call("wait", `{"x":1}`); r.code() != -32602 {
		t.Errorf("validation comes before the queue: %s", r.body)
	}
	close(gate)
	all.Wait()
	for range 3 {
		if r := <-answers; r.content() != `"done"` {
			t.Errorf("%s", r.body)
		}
	}
}

// A caller that goes away ends its tool and leaves its place.
func TestCallerGoesAway(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "pid")
	a := newAgent(t, fmt.Sprintf(`
tools:
  - {name: hang, description: Hangs, command: sh, args: [-c, "sleep 60 & echo $! > %s; wait"]}
  - {name: quick, description: Quick, command: echo, args: [ok]}
`, file), Options{})
	for era, headers := range map[string][]string{
		"sessionless": nil,
		"modern":      {"Mcp-Protocol-Version", mcp.V20260728, "Mcp-Method", "tools/call", "Mcp-Name", "hang", "Accept", "application/json, text/event-stream"},
	} {
		_ = os.Remove(file)
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() {
			meta := fmt.Sprintf(`{%q:%q,%q:{}}`, mcp.MetaVersion, mcp.V20260728, mcp.MetaClientCapabilities)
			if headers == nil {
				meta = "{}"
			}
			_, err := a.do(ctx, request("tools/call", `{"name":"hang","_meta":`+meta+`}`), headers...)
			over <- err
		}()
		pid := pidIn(t, file)
		cancel()
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", era, err)
		}
		eventually(t, era+": the tool ends", func() bool { return !proctest.Alive(pid) })
		if r := a.call("quick", "{}"); r.content() != "ok\n" {
			t.Errorf("%s: the next one: %s", era, r.body)
		}
	}
}

// A session cancels its call with a notification.
func TestCancelledNotification(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	a := newAgent(t, "tools: [{name: hang, description: Hangs, command: sh, args: [-c, 'echo $$ > "+file+"; exec sleep 60']}]", Options{})
	headers := a.session(mcp.V20250618)
	over := make(chan reply, 1)
	go func() {
		r, _ := a.do(t.Context(), request("tools/call", `{"name":"hang"}`), headers...)
		over <- r
	}()
	pid := pidIn(t, file)
	if _, err := a.do(t.Context(), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a-1"}}`, headers...); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tool ends", func() bool { return !proctest.Alive(pid) })
	<-over
}

// The time a tool may take counts from its start, not from its arrival.
func TestTimeoutCountsFromTheStart(t *testing.T) {
	a := newAgent(t, "tools: [{name: nap, description: Sleeps, command: sleep, args: ['0.4'], timeoutMs: 2500}]", Options{}) // one at a time
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if r := a.call("nap", "{}"); r.code() != 0 {
				t.Errorf("%s", r.body)
			}
		})
	}
	all.Wait()
}

// Progress and log of a function.
func TestFunctions(t *testing.T) {
	type in struct {
		A int `json:"a" jsonschema:"the first"`
		B int `json:"b,omitempty"`
	}
	add := Func("add", "Adds", func(ctx context.Context, v in) (map[string]int, error) {
		c := CallOf(ctx)
		if err := c.Progress(ctx, 1, 2, "half"); err != nil {
			return nil, err
		}
		fmt.Fprintln(c, "adding for", c.Principal)
		return map[string]int{"sum": v.A + v.B}, nil
	})
	double := Func("double", "Doubles", func(_ context.Context, v in) (int, error) { return 2 * v.A, nil })
	broken := Func("broken", "Breaks", func(context.Context, struct{}) (string, error) { return "", errors.New("no disk") })
	panics := Func("panics", "Panics", func(context.Context, struct{}) (string, error) { panic("secret") })
	raw := Func("raw", "Anything", func(_ context.Context, v map[string]any) (any, error) { return v["x"], nil })
	note := ResourceFunc("note", "note://{id}", "text/plain", func(_ context.Context, uri string, p map[string]string) ([]byte, error) {
		if p["id"] == "0" {
			return nil, ErrNoResource
		}
		return []byte(uri + " " + p["id"]), nil
	})
	a := newAgent(t, "", Options{Name: "sums", Tools: []Tool{add, double, broken, panics, raw}, Resources: []Resource{note}})
	tools := string(a.post("tools/list", "{}").body)
	if !strings.Contains(tools, `"required":["a"]`) || !strings.Contains(tools, `"description":"the first"`) || !strings.Contains(tools, `"outputSchema":{"type":"object","properties":{"result":{"type":"integer"}},"required":["result"]}`) {
		t.Errorf("schemas: %s", tools)
	}
	for _, c := range []struct{ tool, args, text, structured string }{
		{"add", `{"a":1,"b":2}`, `{"sum":3}`, `{"sum":3}`},
		{"double", `{"a":4}`, `8`, `{"result":8}`},
		{"raw", `{"x":["<b>",1.5]}`, `["<b>",1.5]`, `{"result":["<b>",1.5]}`},
	} {
		if r := a.call(c.tool, c.args); r.content() != c.text || string(r.get("result", "structuredContent")) != c.structured {
			t.Errorf("%s: %s", c.tool, r.body)
		}
	}
	for tool, code := range map[string]string{"broken": "-32000"} {
		if r := a.call(tool, "{}"); string(r.get("result", "isError")) != "true" || r.content() != "no disk" || string(r.get("result", "_meta", "code")) != code {
			t.Errorf("%s: %s", tool, r.body)
		}
	}
	if r := a.call("panics", "{}"); r.code() != -32000 || strings.Contains(string(r.body), "secret") {
		t.Errorf("panics: %s", r.body)
	}
	if r := a.call("add", `{"A":1}`); r.code() != -32602 {
		t.Errorf("names are compared exactly: %s", r.body)
	}
	if r := a.post("resources/read", `{"uri":"note://7"}`); !strings.Contains(string(r.body), `"text":"note://7 7"`) {
		t.Errorf("%s", r.body)
	}
	if r := a.post("resources/read", `{"uri":"note://0"}`); r.code() != -32001 {
		t.Errorf("%s", r.body)
	}

	// Progress comes before the response, on its stream.
	headers := a.session(mcp.V20250618)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.url+"/mcp", strings.NewReader(request("tools/call", `{"name":"add","arguments":{"a":1},"_meta":{"progressToken":"p"}}`)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := resp.Body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			break
		}
	}
	progress, result := strings.Index(b.String(), `{"progressToken":"p","progress":1,"total":2,"message":"half"}`), strings.Index(b.String(), `"sum"`)
	if progress < 0 || result < progress {
		t.Errorf("%s", b.String())
	}
}

// The defaults of an agent (one call at a time, 1,024 wait, 30 seconds) and what
// takes their place.
func TestDefaults(t *testing.T) {
	a := newAgent(t, "", Options{})
	if s := a.Status(); a.Name() != "agent" || s.Concurrency != 1 || s.Max != 1024 || a.o.Timeout != 30*time.Second {
		t.Errorf("%s, %+v, %v", a.Name(), s, a.o.Timeout)
	}
	conf := "name: file\nconcurrency: 2\nqueue: {max: 3}\ntimeoutMs: 4000"
	a = newAgent(t, conf, Options{})
	if s := a.Status(); a.Name() != "file" || s.Concurrency != 2 || s.Max != 3 || a.o.Timeout != 4*time.Second {
		t.Errorf("%s, %+v, %v", a.Name(), s, a.o.Timeout)
	}
	a = newAgent(t, conf, Options{Name: "own", Concurrency: 5, QueueMax: 6, Timeout: time.Second})
	if err := a.Reload(); err != nil {
		t.Fatal(err)
	}
	if s := a.Status(); a.Name() != "own" || s.Concurrency != 5 || s.Max != 6 || a.o.Timeout != time.Second {
		t.Errorf("%s, %+v, %v", a.Name(), s, a.o.Timeout)
	}
	if d := (&Tool{Async: true}).timeout(time.Second); d != defaultAsyncTimeout {
		t.Errorf("an async tool may take %v", d)
	}
}

// Mistakes in a program are told when the agent is made.
func TestNewRefuses(t *testing.T) {
	ok := func(name string) Tool {
		return Func(name, "x", func(context.Context, struct{}) (int, error) { return 0, nil })
	}
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"twice":        {Options{Tools: []Tool{ok("a"), ok("a")}}, `two tools are called "a"`},
		"bad name":     {Options{Tools: []Tool{ok("a b")}}, "letters, digits"},
		"no function":  {Options{Tools: []Tool{{Name: "x"}}}, "make it with Func"},
		"no object":    {Options{Tools: []Tool{Func("n", "x", func(context.Context, int) (int, error) { return 0, nil })}}, "the input of a tool is an object"},
		"no schema":    {Options{Tools: []Tool{Func("c", "x", func(context.Context, struct{ C chan int }) (int, error) { return 0, nil })}}, `tool "c": no schema`},
		"agent's name": {Options{Name: "a/b"}, "stands in the URL"},
		"store":        {Options{Store: "redis:"}, "the task store must be"},
		"no uri":       {Options{Resources: []Resource{ResourceFunc("r", "nothing", "", nil)}}, "no URI"},
		"no file":      {Options{Config: "/no/such/file.yaml"}, "agent configuration"},
	} {
		if s, err := New(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
			if s != nil {
				_ = s.Close(t.Context())
			}
		}
	}
}

// What the caller sends as _meta gets to the command, but not the protocol's.
func TestMetadata(t *testing.T) {
	a := newAgent(t, basic, Options{Authenticate: func(token string) (string, bool) { return "ann", token == "t0p-secret" }})
	r := a.post("tools/call", `{"name":"echo","arguments":{"text":"x"},"_meta":{"trace":"abc","io.modelcontextprotocol/x":1}}`, "Authorization", "Bearer t0p-secret")
	if got := string(r.get("result", "structuredContent", "metadata")); got != `{"agent":"demo","principal":"ann","meta":{"trace":"abc"}}` {
		t.Errorf("metadata %s", got)
	}
	if r := a.post("tools/list", "{}"); r.status != http.StatusUnauthorized {
		t.Errorf("without a token: %d %s", r.status, r.body)
	}
}

// A request body has a bound.
func TestBodyLimit(t *testing.T) {
	a := newAgent(t, basic, Options{})
	big := strings.Repeat("x", 10<<20)
	r, err := a.do(t.Context(), request("tools/call", `{"name":"echo","arguments":{"text":"`+big+`"}}`))
	if err != nil || r.status != http.StatusRequestEntityTooLarge || r.text("error", "data", "kind") != "too_large" {
		t.Errorf("%d %.200s, %v", r.status, r.body, err)
	}
	if r := a.call("echo", `{"text":"`+big[:9<<20]+`"}`); r.code() != 0 {
		t.Errorf("within the bound: %.200s", r.body)
	}
}

// A caller that makes more calls than the queue takes is told that it is full, with
// the numbers, whatever else bounds requests.
func TestDefaultQueueIsFull(t *testing.T) {
	release := make(chan struct{})
	wait := Func("wait", "Waits.", func(ctx context.Context, _ struct{}) (string, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return "done", nil
	})
	a := newAgent(t, "name: demo", Options{Tools: []Tool{wait}})
	// Without sockets, of which there may not be enough.
	h := a.Handler()
	call := func() reply {
		req := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(request("tools/call", `{"name":"wait"}`)))
		req.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		return reply{rec.Code, rec.Header(), rec.Body.Bytes()}
	}
	const room = 1 + 1024
	var calls sync.WaitGroup
	defer calls.Wait()
	defer close(release)
	for range room {
		calls.Go(func() {
			if r := call(); r.code() != 0 {
				t.Errorf("a call that there is room for: %s", r.body)
			}
		})
	}
	for end := time.Now().Add(30 * time.Second); a.Status().Queued < room-1; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v", a.Status())
		}
	}
	r := call()
	if r.code() != -32002 || string(r.get("error", "data")) != `{"concurrency":1,"kind":"queue_full","limit":1024,"queued":1024,"running":1}` {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestConfiguredBodyLimit(t *testing.T) {
	a := newAgent(t, "maxRequestSize: 1KB\n"+basic, Options{})
	if r := a.call("echo", `{"text":"`+strings.Repeat("x", 1<<10)+`"}`); r.status != http.StatusRequestEntityTooLarge {
		t.Errorf("over the bound: %d %.200s", r.status, r.body)
	}
	if r := a.call("echo", `{"text":"`+strings.Repeat("x", 512)+`"}`); r.code() != 0 {
		t.Errorf("within the bound: %.200s", r.body)
	}
}

// A subscription tells when the tools change, and so does a session's channel.
func TestReload(t *testing.T) {
	a := newAgent(t, "tools: [{name: one, description: x, command: 'true'}]", Options{})
	watch, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if err := a.Watch(watch); err != nil {
			t.Error(err)
		}
	})
	defer all.Wait()
	defer stop()
	lines := a.stream(request("subscriptions/listen", fmt.Sprintf(`{"notifications":{"toolsListChanged":true},"_meta":{%q:%q,%q:{}}}`, mcp.MetaVersion, mcp.V20260728, mcp.MetaClientCapabilities)),
		"Mcp-Protocol-Version", mcp.V20260728, "Mcp-Method", "subscriptions/listen", "Accept", "text/event-stream, application/json")
	if line := <-lines; !strings.Contains(line, "notifications/subscriptions/acknowledged") || !strings.Contains(line, `"io.modelcontextprotocol/subscriptionId":"a-1"`) || !strings.Contains(line, `"toolsListChanged":true`) {
		t.Errorf("first: %s", line)
	}
	session := a.session(mcp.V20250618)
	own := a.stream("", session...)

	a.write("agent.yaml", "tools: [{name: two, description: x, command: 'true'}]")
	for name, c := range map[string]<-chan string{"subscription": lines, "session": own} {
		select {
		case line := <-c:
			if !strings.Contains(line, listchange.Tools) {
				t.Errorf("%s: %s", name, line)
			}
		case <-time.After(30 * time.Second):
			t.Errorf("%s: nothing is told", name)
		}
	}
	if got := string(a.post("tools/list", "{}").body); !strings.Contains(got, `"two"`) || strings.Contains(got, `"one"`) {
		t.Errorf("tools: %s", got)
	}
	// A configuration that is wrong changes nothing.
	a.write("agent.yaml", "tools: [{name: three}]")
	time.Sleep(3 * settle)
	if got := string(a.post("tools/list", "{}").body); !strings.Contains(got, `"two"`) {
		t.Errorf("tools: %s", got)
	}
	// Concurrency and the queue's bound follow the file.
	a.write("agent.yaml", "concurrency: 3\nqueue: {max: 7}\ntools: [{name: two, description: x, command: 'true'}]")
	eventually(t, "the queue is resized", func() bool { s := a.Status(); return s.Concurrency == 3 && s.Max == 7 })
}

// stream opens an event stream, with GET where there is no body, and hands on
// the data of its events until the test ends.
func (a *agent) stream(body string, headers ...string) <-chan string {
	a.t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, method, a.url+"/mcp", strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	if method == http.MethodGet {
		req.Header.Set("Accept", "text/event-stream")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	out := make(chan string, 100)
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer resp.Body.Close()
		buf, rest := make([]byte, 8192), ""
		for {
			n, err := resp.Body.Read(buf)
			rest += string(buf[:n])
			for {
				line, after, ok := strings.Cut(rest, "\n")
				if !ok {
					break
				}
				rest = after
				if data, ok := strings.CutPrefix(line, "data: "); ok && data != "" {
					out <- data
				}
			}
			if err != nil {
				return
			}
		}
	}()
	a.t.Cleanup(func() { cancel(); <-over })
	return out
}

// An agent that ends says so of itself, not of weir.
func TestEndingAgentNamesItself(t *testing.T) {
	a := newAgent(t, "", Options{Name: "files", Tools: []Tool{Func("ok", "Ok", func(context.Context, struct{}) (bool, error) { return true, nil })}})
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := a.call("ok", "{}")
	if want := `"message":"the agent \"files\" is shutting down; try again when it is back"`; r.status != http.StatusServiceUnavailable || !strings.Contains(string(r.body), want) {
		t.Errorf("%d %s", r.status, r.body)
	}
}
