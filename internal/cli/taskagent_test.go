package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// witness passes requests on to an agent server and keeps the versions and methods that it is asked
// in.
type witness struct {
	mu   sync.Mutex // guards below
	seen map[string]int
}

// before starts a proxy in front of a server and returns its URL.
func (w *witness) before(t *testing.T, base string) string {
	t.Helper()
	to, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: transport, FlushInterval: -1}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.mu.Lock()
		w.seen[r.Header.Get("Mcp-Protocol-Version")+" "+rawjson.Text(rawjson.Get(body, "method"))]++
		w.mu.Unlock()
		proxy.ServeHTTP(rw, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	return server.URL
}

func (w *witness) has(version, method string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[version+" "+method] > 0
}

// caller calls a tool of the gateway and returns the text of the result.
type caller func(tool string, args map[string]any) string

// legacyCaller is a new session of 2025-11-25.
func legacyCaller(t *testing.T, at string, told *lockedBuffer) caller {
	t.Helper()
	client, session := httpClient(t), ""
	send := func(body string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
			req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode/100 != 2 {
			t.Fatalf("%s %s %v", resp.Status, text, err)
		}
		if session == "" {
			session = resp.Header.Get("Mcp-Session-Id")
		}
		fmt.Fprint(told, string(text))
		return string(text)
	}
	send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return func(tool string, args map[string]any) string {
		t.Helper()
		raw, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		text := send(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"progressToken":"p"}}}`, tool, raw))
		return text[strings.LastIndex(text, `"jsonrpc"`):]
	}
}

// modernCaller makes requests of 2026-07-28, which know no session.
func modernCaller(t *testing.T, at string, told *lockedBuffer) caller {
	return func(tool string, args map[string]any) string {
		t.Helper()
		body := strings.Replace(string(modernCall(1, tool, args)), `"_meta":{`, `"_meta":{"progressToken":"p",`, 1)
		status, text, err := post(t.Context(), httpClient(t), at, tool, []byte(body))
		if err != nil || status != http.StatusOK {
			t.Fatalf("%d %s %v", status, text, err)
		}
		fmt.Fprint(told, text)
		return text[strings.LastIndex(text, `"jsonrpc"`):]
	}
}

var taskHandlePattern = regexp.MustCompile(`task_[a-z0-9]+`)

// TestAgentTasksInBothEras: calls of an agent server's async tools end in their results, in the call
// itself and after a handle, also from another session; cancelling ends the process.
func TestAgentTasksInBothEras(t *testing.T) {
	t.Parallel()
	for era, connect := range map[string]func(*testing.T, string, *lockedBuffer) caller{
		"2025-11-25": legacyCaller, "2026-07-28": modernCaller,
	} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			w := &witness{seen: map[string]int{}}
			at := w.before(t, startAgent(t, taskAgent, nil).base)
			gateway := func(wait string) *server {
				return serve(t, fmt.Sprintf("mode: gateway\ntasks: {wait: %s}\nmcpServers: {stock: {url: %q, agent: true}}\n", wait, at+"/mcp"))
			}

			patient, told := gateway("30s"), &lockedBuffer{}
			later := map[string]any{"tool_id": patient.tool("stock:later"), "args": map[string]any{}}
			if got := connect(t, patient.url, told)("tool_execute", later); !strings.Contains(got, "counted") || strings.Contains(got, "task_") {
				t.Errorf("within tasks.wait: %s", got)
			}
			if !strings.Contains(told.String(), "runs as a task") {
				t.Errorf("progress: %s", told)
			}

			hasty := gateway("100ms")
			later["tool_id"] = hasty.tool("stock:later")
			first := connect(t, hasty.url, told)("tool_execute", later)
			handle := taskHandlePattern.FindString(first)
			if handle == "" || !strings.Contains(first, "still running") {
				t.Fatalf("no handle: %s", first)
			}
			again := connect(t, hasty.url, told)
			until(t, "counted", func() string { return again("tool_view", map[string]any{"handle": handle}) })

			file := filepath.Join(t.TempDir(), "pid")
			never := map[string]any{"tool_id": hasty.tool("stock:never"), "args": map[string]any{"pid": file}}
			handle = taskHandlePattern.FindString(again("tool_execute", never))
			pid := pidIn(t, file)
			cancel := map[string]any{"handle": handle, "selector": map[string]any{"type": "cancel"}}
			if got := connect(t, hasty.url, told)("tool_view", cancel); !strings.Contains(got, "is cancelled") {
				t.Errorf("cancel: %s", got)
			}
			ends(t, pid)
			if got := again("tool_view", map[string]any{"handle": handle}); !strings.Contains(got, "cancelled by its agent") {
				t.Errorf("a view of what was cancelled: %s", got)
			}
			if !w.has(era, "tasks/get") {
				t.Errorf("the agent was never asked tasks/get in %s: %v", era, w.seen)
			}
		})
	}
}
