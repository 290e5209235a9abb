package passthrough_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// recorder is an Observer that remembers.
type recorder struct {
	mu             sync.Mutex
	calls          []passthrough.Call
	started, ended int
}

func (r *recorder) RequestStarted(string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started++
}

func (r *recorder) RequestEnded(string, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended++
}

func (r *recorder) Called(c passthrough.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, c)
}

// seen waits for a number of calls, as an answer may be read before it is observed.
func (r *recorder) seen(t *testing.T, n int) []passthrough.Call {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		calls := append([]passthrough.Call(nil), r.calls...)
		r.mu.Unlock()
		if len(calls) >= n {
			return calls
		}
		if time.Now().After(end) {
			t.Fatalf("%d calls observed, want %d", len(calls), n)
		}
	}
}

// TestObserver: every call is told of once, either way to the upstream: what was
// called and, where the answer was looked at, how it ended.
func TestObserver(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			o := &recorder{}
			e := w.start(t, fakemcp.Config{}, func(_ *config.Server, opts *passthrough.Options) {
				opts.Observer = o
				opts.Sign = func(string, string, string) (string, error) { return "", nil } // as weir serve has one
			})
			session := e.initialize("2025-11-25")
			for i, tool := range []string{"echo", "refuse", "fail"} {
				e.post("/mcps/fake/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"text":"x"}}}`, i+1, tool),
					"Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-11-25")
			}
			calls := o.seen(t, 3)
			if len(calls) != 3 {
				t.Fatalf("%+v", calls)
			}
			for i, tool := range []string{"echo", "refuse", "fail"} {
				if c := calls[i]; c.Tool != tool || c.Method != "tools/call" || c.Upstream != "fake" || c.Session != session || c.Began.IsZero() || c.Took <= 0 {
					t.Errorf("%+v", c)
				}
			}
			if w.name == "forward" {
				if !calls[0].Unread || !calls[1].Unread {
					t.Errorf("what was handed on byte by byte: %+v", calls)
				}
				if o.started == 0 || o.started != o.ended {
					t.Errorf("%d requests started, %d ended", o.started, o.ended)
				}
				return
			}
			var wire *jsonrpc.Error
			if calls[0].Unread || calls[0].IsError || calls[0].Err != nil || !calls[1].IsError || !errors.As(calls[2].Err, &wire) {
				t.Errorf("%+v", calls)
			}
		})
	}
}

// TestObserverOfADeadServer: a call that reaches nobody is told with the error that
// the agent was answered.
func TestObserverOfADeadServer(t *testing.T) {
	o := &recorder{}
	e := start(t, func(_ *config.Server, opts *passthrough.Options) { opts.Observer = o },
		&config.Server{Name: "fake", URL: "http://127.0.0.1:1/mcp", Type: mcpserver.TransportHTTP})
	res := e.post("/mcps/fake/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "echo")
	if res.status < 500 {
		t.Errorf("%d %s", res.status, res.body)
	}
	if calls := o.seen(t, 1); len(calls) != 1 || calls[0].Err == nil || calls[0].Unread || calls[0].Method != "tools/call" {
		t.Errorf("%+v", calls)
	}
}
