package cli

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

var kills = flag.Int("kills", 3, "how often TestHundredKills kills a gateway")

// killedWork is what clients of a gateway do while it is killed, and what was acknowledged to them.
type killedWork struct {
	base   string
	client *http.Client

	mu          sync.Mutex // guards below
	open, ended map[string]bool
	counted     map[string]int // calls that were let through, by who made them
}

// request makes a request, and returns status 0 if it was not answered.
func (w *killedWork) request(ctx context.Context, method, body string, header ...string) (status int, answer, session string) {
	req, err := http.NewRequestWithContext(ctx, method, w.base+"/mcp", strings.NewReader(body))
	if err != nil {
		return 0, err.Error(), ""
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, err.Error(), ""
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error(), ""
	}
	return resp.StatusCode, string(data), resp.Header.Get("Mcp-Session-Id")
}

// begin makes a handshake.
func (w *killedWork) begin(ctx context.Context) {
	if status, _, session := w.request(ctx, http.MethodPost, hello); status == http.StatusOK {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.open[session] = true
	}
}

// finish ends a session. One whose end was not acknowledged may be open or not.
func (w *killedWork) finish(ctx context.Context) {
	w.mu.Lock()
	session := ""
	for session = range w.open {
		break
	}
	delete(w.open, session)
	w.mu.Unlock()
	if session == "" {
		return
	}
	if status, _, _ := w.request(ctx, http.MethodDelete, "", "Mcp-Session-Id", session); status == http.StatusNoContent {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ended[session] = true
	}
}

// browse makes a call that has a quota: in a session, or as the principal of the modern era.
func (w *killedWork) browse(ctx context.Context, session string) (string, bool) {
	body, header := string(modernCall(1, "tool_browse", map[string]any{})), []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "tool_browse"}
	if session != "" {
		body, header = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool_browse","arguments":{}}}`, []string{"Mcp-Session-Id", session}
	}
	status, answer, _ := w.request(ctx, http.MethodPost, body, header...)
	passed := status == http.StatusOK && !strings.Contains(answer, "RATE_LIMITED")
	if passed {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.counted[session]++
	}
	return fmt.Sprint(status, " ", answer), passed
}

// TestHundredKills: clients work while the gateway is killed again and again. What was acknowledged
// is there afterwards, and no quota is exceeded. make chaos kills a hundred times.
func TestHundredKills(t *testing.T) {
	t.Parallel()
	const most, lease = 400, 16
	r := startKept(t, fmt.Sprintf("rate_limits: {tool_browse: {max_calls_per_session: %d}}\nmcpServers: {}\n", most))
	w := &killedWork{base: r.base, client: httpClient(t), open: map[string]bool{}, ended: map[string]bool{}, counted: map[string]int{}}
	status, answer, first := w.request(t.Context(), http.MethodPost, hello)
	if status != http.StatusOK || first == "" {
		t.Fatalf("initialize: %d %s", status, answer)
	}
	for n := range *kills {
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for _, work := range []func(){
			func() { w.begin(ctx) },
			func() { w.finish(ctx); time.Sleep(time.Millisecond) },
			func() { w.browse(ctx, ""); time.Sleep(5 * time.Millisecond) },
			func() { w.browse(ctx, first); time.Sleep(5 * time.Millisecond) },
		} {
			all.Go(func() {
				for ctx.Err() == nil {
					work()
				}
			})
		}
		time.Sleep(time.Duration(20+rand.IntN(80)) * time.Millisecond)
		r.kill(t)
		cancel()
		all.Wait()
		w.check(t, n)
	}
	for _, who := range []string{"", first} {
		answer, passed := "", true
		for passed {
			answer, passed = w.browse(t.Context(), who)
		}
		if n := w.counted[who]; !strings.Contains(answer, "RATE_LIMITED") || n > most || n < most-*kills*lease {
			t.Errorf("%q had %d calls of %d: %s", who, n, most, answer)
		}
	}
}

// check looks for what was acknowledged, and asks each session once.
func (w *killedWork) check(t *testing.T, n int) {
	t.Helper()
	for session := range w.open {
		if status, answer, _ := w.request(t.Context(), http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Mcp-Session-Id", session); status != http.StatusOK {
			t.Errorf("after kill %d a session is lost: %d %s", n, status, answer)
		}
	}
	for session := range w.ended {
		if status, answer, _ := w.request(t.Context(), http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Mcp-Session-Id", session); status != http.StatusNotFound {
			t.Errorf("after kill %d a session that was ended is there: %d %s", n, status, answer)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	clear(w.open)
	clear(w.ended)
}
