package agentserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/mcp"
)

func TestMain(m *testing.M) { leak.Main(m) }

// testEnv is the environment that agents in tests have.
func testEnv(name string) (string, bool) {
	switch name {
	case "PATH", "HOME":
		return os.LookupEnv(name)
	case "SECRET":
		return "hunter2", true
	}
	return "", false
}

// agent is an agent that serves at a URL.
type agent struct {
	*Server
	t   *testing.T
	url string
	dir string
}

// newAgent serves an agent with a configuration in YAML, "" for none.
func newAgent(t *testing.T, conf string, o Options) *agent {
	t.Helper()
	a := &agent{t: t, dir: t.TempDir()}
	if conf != "" {
		o.Config = filepath.Join(a.dir, "agent.yaml")
		a.write("agent.yaml", conf)
	}
	o.ConfigOptions.LookupEnv = testEnv
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	a.Server = s
	h := httptest.NewServer(s.Handler())
	a.url = h.URL
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = s.Close(ctx)
		h.Close()
	})
	return a
}

func (a *agent) write(name, text string) {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		a.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// reply is what came back from a POST.
type reply struct {
	status int
	header http.Header
	body   json.RawMessage
}

func (r reply) get(path ...string) json.RawMessage { return rawjson.GetPath(r.body, path...) }
func (r reply) text(path ...string) string         { return rawjson.Text(r.get(path...)) }

// content is the text of the result's first block.
func (r reply) content() string {
	var first json.RawMessage
	_ = rawjson.EachElement(r.get("result", "content"), func(v []byte) bool { first = v; return false })
	return rawjson.Text(rawjson.Get(first, "text"))
}

// code is the code of an error, 0 where there is none.
func (r reply) code() (n int) {
	_ = json.Unmarshal(r.get("error", "code"), &n)
	return n
}

// do sends a POST with headers and reads JSON, or the last event of a stream.
func (a *agent) do(ctx context.Context, body string, headers ...string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+"/mcp", strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		for line := range bytes.Lines(data) {
			if d, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				data = bytes.TrimSpace(d)
			}
		}
	}
	return reply{resp.StatusCode, resp.Header, data}, err
}

// post asks without session and version, as the first clients of agents do.
func (a *agent) post(method, params string, headers ...string) reply {
	a.t.Helper()
	r, err := a.do(a.t.Context(), request(method, params), headers...)
	if err != nil {
		a.t.Fatal(err)
	}
	return r
}

func request(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"a-1","method":%q,"params":%s}`, method, params)
}

// call calls a tool.
func (a *agent) call(tool, args string) reply {
	a.t.Helper()
	return a.post("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, args))
}

// modern asks in 2026-07-28, with the client's capabilities.
func (a *agent) modern(method, params, capabilities string) reply {
	a.t.Helper()
	meta := fmt.Sprintf(`{%q:%q,%q:%s}`, mcp.MetaVersion, mcp.V20260728, mcp.MetaClientCapabilities, capabilities)
	full, err := rawjson.Set([]byte(params), "_meta", []byte(meta))
	if err != nil {
		a.t.Fatal(err)
	}
	headers := []string{"Mcp-Protocol-Version", mcp.V20260728, "Mcp-Method", method, "Accept", "application/json, text/event-stream"}
	for _, key := range []string{"name", "uri", "taskId"} {
		if v := rawjson.Text(rawjson.Get(full, key)); v != "" {
			headers = append(headers, "Mcp-Name", v)
		}
	}
	return a.post(method, string(full), headers...)
}

// session makes the handshake and returns the headers of its requests.
func (a *agent) session(version string) []string {
	a.t.Helper()
	r := a.post("initialize", fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"t","version":"1"}}`, version))
	id := r.header.Get("Mcp-Session-Id")
	if id == "" {
		a.t.Fatalf("no session: %d %s", r.status, r.body)
	}
	headers := []string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", version, "Accept", "application/json, text/event-stream"}
	if _, err := a.do(a.t.Context(), `{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers...); err != nil {
		a.t.Fatal(err)
	}
	return headers
}

// task asks for a task over HTTP.
func (a *agent) task(method, id string, headers ...string) reply {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), method, a.url+"/getTaskStatus?taskId="+id, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, data}
}

// ended asks until a task has ended.
func (a *agent) ended(id string, headers ...string) reply {
	a.t.Helper()
	for range 3000 {
		r := a.task(http.MethodGet, id, headers...)
		switch r.text("task", "status") {
		case "completed", "failed", "cancelled":
			return r
		}
		time.Sleep(10 * time.Millisecond)
	}
	a.t.Fatalf("task %s does not end", id)
	return reply{}
}

// eventually waits for a condition that nothing tells of, such as the end of a
// process that is nobody's child here.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for range 3000 {
		if cond() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%s: not within 30 s", what)
}

// writeTemp writes a file of its own folder and returns its path.
func writeTemp(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
