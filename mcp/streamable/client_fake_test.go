package streamable

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// fake is a hand-written MCP server. Its zero value makes a legacy handshake
// with the session "s1", accepts notifications and answers, offers no GET
// stream, and answers every call with {}.
type fake struct {
	modern bool
	// call answers a request other than the handshake.
	call func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message)
	// get serves GET.
	get http.HandlerFunc
	// told takes notifications and answers, after they are logged.
	told func(m jsonrpc.Message)

	mu  sync.Mutex
	log []string // "METHOD what", in order
}

func (f *fake) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, fmt.Sprintf(format, args...))
}

func (f *fake) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.log...)
}

// waitFor waits until the server has seen a message that contains want.
func (f *fake) waitFor(t *testing.T, want string) string {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		for _, s := range f.seen() {
			if strings.Contains(s, want) {
				return s
			}
		}
	}
	t.Fatalf("the server never saw %q, only %q", want, f.seen())
	return ""
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		f.note("GET %s", r.Header.Get(HeaderLastEventID))
		if f.get == nil {
			http.Error(w, "no", http.StatusMethodNotAllowed)
			return
		}
		f.get(w, r)
		return
	case http.MethodDelete:
		f.note("DELETE %s", r.Header.Get(HeaderSession))
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m, err := jsonrpc.Parse(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f.note("POST %s", body)
	switch {
	case m.Method == "" || m.ID == "":
		if f.told != nil {
			f.told(m)
		}
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "initialize" && f.modern:
		writeJSON(w, jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: -32601, Message: "modern only"}))
	case m.Method == "initialize":
		w.Header().Set(HeaderSession, "s1")
		writeJSON(w, jsonrpc.AppendResult(nil, m.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"fake"}}`)))
	case m.Method == "server/discover":
		writeJSON(w, jsonrpc.AppendResult(nil, m.ID, []byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete"}`)))
	case f.call != nil:
		f.call(w, r, m)
	default:
		writeJSON(w, jsonrpc.AppendResult(nil, m.ID, nil))
	}
}

func writeJSON(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", ContentJSON)
	_, _ = w.Write(body)
}

// events begins an SSE response and returns the function that writes one event.
func events(w http.ResponseWriter) func(id, data string) {
	w.Header().Set("Content-Type", ContentSSE)
	_ = http.NewResponseController(w).Flush()
	return func(id, data string) {
		_, _ = w.Write(AppendEvent(nil, Event{ID: id, Data: []byte(data)}))
		_ = http.NewResponseController(w).Flush()
	}
}

func result(m jsonrpc.Message, result string) string {
	return string(jsonrpc.AppendResult(nil, m.ID, []byte(result)))
}

// dial starts f and connects to it.
func dial(t *testing.T, f http.Handler, edit func(*ClientOptions)) *Client {
	t.Helper()
	server := httptest.NewServer(f)
	opts := ClientOptions{URL: server.URL + "/mcp"}
	if edit != nil {
		edit(&opts)
	}
	c, err := Dial(t.Context(), opts)
	if err != nil {
		server.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		server.CloseClientConnections()
		server.Close()
	})
	return c
}

// recorder is a Handler that notes what it gets.
type recorder struct {
	mu     sync.Mutex
	got    []string
	each   func(r *mcp.Request)
	answer func(ctx context.Context, r *mcp.Request) (json.RawMessage, error)
}

func (h *recorder) Serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	if h.each != nil {
		h.each(r)
	}
	h.mu.Lock()
	h.got = append(h.got, strings.TrimPrefix(r.Method, "notifications/")+" "+string(r.Params))
	h.mu.Unlock()
	if h.answer != nil && !r.IsNotification() {
		return h.answer(ctx, r)
	}
	return nil, nil
}

func (h *recorder) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.got...)
}

func (h *recorder) waitFor(t *testing.T, want string) {
	t.Helper()
	h.waitWhile(t, want, func() {})
}

// waitWhile is waitFor, and does something now and then. The pause is longer than an SDK waits for further changes.
func (h *recorder) waitWhile(t *testing.T, want string, do func()) {
	t.Helper()
	var last time.Time
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if time.Since(last) > 200*time.Millisecond {
			do()
			last = time.Now()
		}
		for _, s := range h.all() {
			if strings.Contains(s, want) {
				return
			}
		}
	}
	t.Fatalf("never got %q, only %q", want, h.all())
}
