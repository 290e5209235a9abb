package metatool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/memnet"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// crowd is a gateway behind the streamable HTTP server and its guard, on a
// network in memory.
type crowd struct {
	fleet
	state  *State
	client *http.Client
}

func newCrowd(t *testing.T, opts Options) *crowd {
	t.Helper()
	store := artifact.NewMemory(artifact.Options{})
	c := &crowd{fleet: fleet{calltest.NewFleet(NewSnapshot(catalog.Limits{}))}, state: NewState()}
	opts.Upstreams, opts.Artifacts, opts.State = c, store, c.state
	g := New(opts)
	front := streamable.NewServer(streamable.ServerOptions{Handler: &mcp.Lifecycle{
		ServerInfo: json.RawMessage(`{"name":"weir","version":"1"}`), Capabilities: func(*mcp.Request) json.RawMessage { return g.Capabilities(t.Context()) }, Next: g,
	}})
	network := memnet.New()
	srv := &http.Server{Handler: guard.New(guard.Options{Authenticate: guard.ByName(func(bearer string) (string, bool) { return bearer, bearer != "" })}).Wrap(front)}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(network) }()
	transport := &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64, DialContext: func(ctx context.Context, n, a string) (net.Conn, error) { return network.DialContext(ctx, n, a) }}
	c.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := front.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		_ = srv.Close()
		<-served
		c.state.Close(context.Background())
		store.Close()
	})
	return c
}

// visitor is one session of a principal.
type visitor struct {
	*crowd
	principal, session string
}

func (c *crowd) enter(ctx context.Context, principal string) (*visitor, error) {
	v := &visitor{c, principal, ""}
	if _, err := v.post(ctx, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"visitor","version":"1"}}}`); err != nil {
		return nil, err
	}
	_, err := v.post(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return v, err
}

func (v *visitor) post(ctx context.Context, body string) ([]byte, error) {
	return v.do(ctx, "POST", body)
}

func (v *visitor) do(ctx context.Context, method, body string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost/mcp", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+v.principal)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if v.session != "" {
		r.Header.Set("Mcp-Session-Id", v.session)
		r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	resp, err := v.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		v.session = id
	}
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("HTTP %d: %s", resp.StatusCode, answer)
	}
	// A slow answer is an event of a stream.
	if _, data, ok := bytes.Cut(answer, []byte("data: {")); ok {
		answer = append([]byte{'{'}, bytes.TrimSpace(data)...)
	}
	return answer, err
}

// tool calls a meta-tool and returns the text and the handle of what was held
// back.
func (v *visitor) tool(ctx context.Context, name, arguments string) (text, handle string, err error) {
	answer, err := v.post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, arguments))
	if err != nil {
		return "", "", err
	}
	var reply struct {
		Result calltest.Answer
		Error  json.RawMessage
	}
	if err := json.Unmarshal(answer, &reply); err != nil || reply.Error != nil {
		return "", "", fmt.Errorf("%w: %s", err, answer)
	}
	for _, block := range reply.Result.Content {
		text += block.Text
	}
	var env struct {
		Artifacts []struct{ Handle string }
	}
	if raw := reply.Result.Meta[result.MetaEnvelope]; raw != nil {
		if err := json.Unmarshal(raw, &env); err != nil {
			return "", "", err
		}
	}
	if len(env.Artifacts) > 0 {
		handle = env.Artifacts[0].Handle
	}
	return text, handle, nil
}

// A thousand sessions of twenty principals, over HTTP: each has its quota and no
// more, reads what was answered to its principal and no other's results or
// artifacts, and never runs another tool than the one it names, while the
// catalog changes all the time.
func TestManySessionsShareNothing(t *testing.T) {
	const sessions, principals, allowed, tries = 1000, 20, 2, 3
	const limited = "db:limited@1"
	c := newCrowd(t, Options{
		RateLimits: dispatch.RateLimits{Tools: map[string]dispatch.RateLimit{limited: {PerSession: allowed}}},
		Cache:      dispatch.CacheOptions{ReadOnly: true, MaxEntries: 64},
		Retry:      dispatch.RetryPolicy{MaxAttempts: 2},
	})
	tool := func(name, version string, readOnly bool) string {
		return fmt.Sprintf(`{"name":%q,"description":"A tool.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":%v},"_meta":{"version":%q}}`, name, readOnly, version)
	}
	var ran atomic.Int64 // calls of the limited tool
	c.Add("db", func(ctx context.Context, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
		var call struct {
			Name      string
			Arguments struct{ N int }
		}
		if err := json.Unmarshal(params, &call); err != nil {
			return nil, err
		}
		mine := fmt.Sprintf("%s of <%s> for %d", call.Name, mcp.Caller(ctx).Principal(), call.Arguments.N)
		switch call.Name {
		case "limited":
			ran.Add(1)
		case "large":
			mine += strings.Repeat("\nanother line of it", 300)
		}
		return json.RawMessage(calltest.Text(mine)), nil
	}, tool("shared", "1", true), tool("large", "1", false), tool("limited", "1", false))
	c.Add("churn", calltest.Say(calltest.Text("churned")), tool("run", "0", false))

	// The catalog changes as fast as it can while calls are made, until the last
	// session has gone.
	made, changed := make(chan struct{}, 1), make(chan int)
	var version atomic.Int64
	go func() {
		n := 0
		for range made {
			n++
			c.Add("churn", nil, tool("run", fmt.Sprint(n), false))
			version.Store(int64(n))
		}
		changed <- n
	}()

	var mu sync.Mutex // guards below
	handles := map[string]string{}
	visit := func(n int) error {
		principal := fmt.Sprint("principal", n%principals)
		v, err := c.enter(t.Context(), principal)
		if err != nil {
			return err
		}
		mine := "<" + principal + ">"
		execute := func(id, args string) (string, string, error) {
			return v.tool(t.Context(), ToolExecute, fmt.Sprintf(`{"tool_id":%q,"args":%s}`, id, args))
		}
		passed := 0
		for range tries {
			text, _, err := execute(limited, fmt.Sprintf(`{"n":%d}`, n))
			switch {
			case err != nil:
				return err
			case strings.Contains(text, "limited of "+mine):
				passed++
			case !strings.Contains(text, string(result.RateLimited)):
				return fmt.Errorf("the limited tool answered %s", text)
			}
			// Five arguments for everybody: the cache is hit all the time.
			if text, _, err = execute("db:shared@1", fmt.Sprintf(`{"n":%d}`, rand.IntN(5))); err != nil || !strings.Contains(text, "shared of "+mine) {
				return fmt.Errorf("the cache answered %q to %s, %w", text, mine, err)
			}
			select {
			case made <- struct{}{}:
			default: // it is at it
			}
			old := version.Load() - 1
			switch text, _, err = execute(fmt.Sprintf("churn:run@%d", old), `{}`); {
			case err != nil:
				return err
			case old >= 0 && !strings.Contains(text, string(result.HydrateFailed)):
				return fmt.Errorf("version %d was run when it was gone: %s", old, text)
			}
		}
		if passed != allowed {
			return fmt.Errorf("%d calls of the limited tool, want %d", passed, allowed)
		}
		_, handle, err := execute("db:large@1", fmt.Sprintf(`{"n":%d}`, n))
		if err != nil || handle == "" {
			return fmt.Errorf("nothing was held back: %w", err)
		}
		mu.Lock()
		handles[principal] = handle
		var foreign string
		for owner, h := range handles {
			if owner != principal {
				foreign = h
			}
		}
		mu.Unlock()
		view := func(handle string) (string, error) {
			text, _, err := v.tool(t.Context(), ToolView, fmt.Sprintf(`{"handle":%q,"selector":{"type":"head","chars":60}}`, handle))
			return text, err
		}
		if text, err := view(handle); err != nil || !strings.Contains(text, fmt.Sprintf("large of %s for %d", mine, n)) {
			return fmt.Errorf("its own artifact is %q, %w", text, err)
		}
		if foreign != "" {
			if text, err := view(foreign); err != nil || !strings.Contains(text, string(result.ViewFailed)) || strings.Contains(text, "large of") {
				return fmt.Errorf("another's artifact is %q, %w", text, err)
			}
		}
		_, err = v.do(t.Context(), "DELETE", "")
		return err
	}
	errs := make(chan error, sessions)
	for n := range sessions {
		go func() { errs <- visit(n) }()
	}
	failed := 0
	for range sessions {
		if err := <-errs; err != nil {
			if failed++; failed <= 5 {
				t.Error(err)
			}
		}
	}
	close(made)
	if n := <-changed; n < 100 {
		t.Errorf("the catalog changed %d times only", n)
	}
	if failed > 0 {
		t.Fatalf("%d of %d sessions failed", failed, sessions)
	}
	if got := ran.Load(); got != sessions*allowed {
		t.Errorf("the limited tool ran %d times, want %d", got, sessions*allowed)
	}
	if n := c.state.Sessions(); n != 0 {
		t.Errorf("%d sessions are remembered after their end", n)
	}
}
