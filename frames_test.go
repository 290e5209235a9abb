package weir_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-mcp/weir"
)

// Ceilings of the stack of a call, from the HTTP face to the wire of its server. They only fall. The
// number of frames differs by one from run to run.
const (
	maxFrames = 38 // functions of weir
	maxHops   = 0  // adapters that only hand on: Serve, Dispatch or ServeHTTP of a function type
)

// TestFramesOfACall: a reader of a stack dump sees the way of a call.
func TestFramesOfACall(t *testing.T) {
	var stack atomic.Pointer[string]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal(body, &m)
		result := `{}`
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			result = `{"content":[{"type":"text","text":"ok"}]}`
			if text, ok := waiting(); ok {
				stack.Store(&text)
			}
		}
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+result+`}`)
	}))
	defer server.Close()

	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte("mode: gateway\nmcpServers:\n  echo: {url: \""+server.URL+"\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := weir.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	g, err := weir.New(t.Context(), c, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Shutdown(context.WithoutCancel(t.Context()))
	front := httptest.NewServer(g)
	defer front.Close()
	if err := g.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool_execute","arguments":{"tool_id":"` + idOfEcho(t, front.URL) + `","args":{}},"_meta":` + modernMeta + `}}`
	if answer := post(t, front.URL, "tools/call", "tool_execute", call); !strings.Contains(answer, "ok") {
		t.Fatal(answer)
	}
	text := stack.Load()
	if text == nil {
		t.Fatal("no goroutine was seen that waits for the server")
	}
	checkWalk(t, *text)
	frames, hops := 0, 0
	for line := range strings.SplitSeq(*text, "\n") {
		if strings.Contains(line, "\tgithub.com/weir-mcp/weir") {
			frames++
			if hop.MatchString(line) {
				hops++
			}
		}
	}
	if frames > maxFrames || hops > maxHops {
		t.Errorf("%d frames of weir, at most %d; %d adapters, at most %d:\n%s", frames, maxFrames, hops, maxHops, *text)
	}
	if frames < maxFrames-1 || hops < maxHops {
		t.Errorf("%d frames of weir and %d adapters: lower maxFrames and maxHops", frames, hops)
	}
}

// walked matches a function in the first walk of docs/design.md, behind its file.
var walked = regexp.MustCompile("`([a-z0-9/_]+\\.go)`|`([A-Za-z]+)`")

// checkWalk compares the first walk of docs/design.md with the stack of a call.
func checkWalk(t *testing.T, stack string) {
	t.Helper()
	design, err := os.ReadFile("docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	_, walk, _ := strings.Cut(string(design), "## Two walks\n")
	_, walk, _ = strings.Cut(walk, "\n1. ")
	walk, rest, ok := strings.Cut(walk, "\nAnd back")
	if !ok || rest == "" {
		t.Fatal("docs/design.md has no first walk")
	}
	lines := strings.Split(stack, "\n")
	slices.Reverse(lines) // the wire is on top
	file := ""
	for _, m := range walked.FindAllStringSubmatch(walk, -1) {
		if m[1] != "" {
			file = m[1]
			continue
		}
		name := regexp.MustCompile(`\.` + m[2] + `[.+].*/` + regexp.QuoteMeta(file) + ":")
		at := slices.IndexFunc(lines, name.MatchString)
		if at < 0 {
			t.Errorf("%s of %s is not on the stack behind what the walk names before:\n%s", m[2], file, stack)
			return
		}
		lines = lines[at+1:]
	}
}

// hop matches methods of function types.
var hop = regexp.MustCompile(`Func\.(Serve|Dispatch|ServeHTTP)\+`)

const modernMeta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

// waiting returns the stack of the goroutine that serves a client and waits for a server. The profile has
// up to 128 frames, a stack dump leaves out those in the middle.
func waiting() (string, bool) {
	var profile strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return "", false
	}
	for one := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(one, ").RoundTrip") && strings.Contains(one, "net/http.(*conn).serve") && strings.Contains(one, "weir-mcp/weir/internal") {
			return one, true
		}
	}
	return "", false
}

// post sends a request of 2026-07-28 to /mcp.
func post(t *testing.T, url, method, name, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name} {
		r.Header.Set(key, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// idOfEcho finds the id of the server's tool.
func idOfEcho(t *testing.T, url string) string {
	t.Helper()
	answer := post(t, url, "tools/call", "tool_browse", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool_browse","arguments":{"query":"echo"},"_meta":`+modernMeta+`}}`)
	id := regexp.MustCompile(`echo:echo#[0-9a-f]{8}`).FindString(answer)
	if id == "" {
		t.Fatal(answer)
	}
	return id
}
