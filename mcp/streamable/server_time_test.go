package streamable_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// listener is a listener without a network, so that time in a bubble can stand
// still. Its connections have no buffers: what a client does not read, the
// server has not sent.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (m *listener) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *listener) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

func (m *listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (m *listener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case m.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// agent is a hand-made client of a Server in a bubble.
type agent struct {
	t       *testing.T
	s       *streamable.Server
	http    *http.Client
	token   string
	session string
	version string
	accept  string
}

// inBubble runs f with a Server and a client of it, where time is faked.
func inBubble(t *testing.T, o streamable.ServerOptions, f func(t *testing.T, a *agent)) {
	synctest.Test(t, func(t *testing.T) {
		s := streamable.NewServer(o)
		m := &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
		tokens := func(b string) (string, bool) { return b, b != "" }
		hs := &http.Server{Handler: guard.New(guard.Options{Authenticate: guard.ByName(tokens), Hosts: []string{"weir"}}).Wrap(s)}
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = hs.Serve(m)
		}()
		pool := &http.Transport{DialContext: m.dial}
		f(t, &agent{t: t, s: s, http: &http.Client{Transport: pool}, token: "ann", accept: "application/json, text/event-stream"})
		pool.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		_ = hs.Close()
		<-served
	})
}

// as is another client of the same server.
func (a agent) as(token string) *agent {
	a.token, a.session = token, ""
	return &a
}

// send sends a request and returns the response as soon as its headers are
// there. Closing the body or the end of ctx goes away.
func (a *agent) send(ctx context.Context, method, body string, header ...string) *http.Response {
	a.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://weir/mcp", strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	req.Header.Set("Accept", a.accept)
	if method == "POST" {
		req.Header.Set("Content-Type", "application/json")
	}
	if a.session != "" {
		req.Header.Set("Mcp-Session-Id", a.session)
	}
	if a.version != "" {
		req.Header.Set("Mcp-Protocol-Version", a.version)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := a.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		a.t.Fatal(err)
	}
	return resp
}

// ask sends a POST and returns status and body.
func (a *agent) ask(body string) (int, string) {
	a.t.Helper()
	resp := a.send(context.Background(), "POST", body)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Error(err)
	}
	return resp.StatusCode, string(data)
}

func (a *agent) initialize(version string) {
	a.t.Helper()
	resp := a.send(context.Background(), "POST", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
		a.t.Fatalf("initialize: %d, %v", resp.StatusCode, err)
	}
	a.session, a.version = resp.Header.Get("Mcp-Session-Id"), version
}

// events reads the events of a stream.
func events(resp *http.Response) *streamable.EventReader {
	return streamable.NewEventReader(bufio.NewReader(resp.Body), 1<<20)
}

func callOf(id int, tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"_meta":{"progressToken":%d}}}`, id, tool, id)
}

// tools makes a server of functions.
type toolFunc func(ctx context.Context, r *mcp.Request) (json.RawMessage, error)

func serverOf(tools map[string]toolFunc) mcp.Handler {
	return &mcp.Lifecycle{
		ServerInfo:   json.RawMessage(`{"name":"test","version":"1"}`),
		Capabilities: func(*mcp.Request) json.RawMessage { return json.RawMessage(`{}`) },
		Next: mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
			name := r.Method
			if name == "tools/call" {
				name = rawjson.Text(rawjson.Get(r.Params, "name"))
			}
			if f := tools[name]; f != nil {
				return f(ctx, r)
			}
			return nil, mcp.MethodNotFound(name)
		}),
	}
}

// cause is why contexts ended, as handlers saw it.
type cause struct {
	mu  sync.Mutex
	err error
}

func (c *cause) set(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *cause) get() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// after returns a tool that takes a time and tells how its context ended.
func after(d time.Duration, ended *cause) toolFunc {
	return func(ctx context.Context, _ *mcp.Request) (json.RawMessage, error) {
		select {
		case <-time.After(d):
			return json.RawMessage(`{"done":true}`), nil
		case <-ctx.Done():
			ended.set(context.Cause(ctx))
			return nil, ctx.Err()
		}
	}
}

func TestServerSilenceBecomesAStream(t *testing.T) {
	var ended cause
	inBubble(t, streamable.ServerOptions{Handler: serverOf(map[string]toolFunc{"slow": after(20*time.Second, &ended)})}, func(t *testing.T, a *agent) {
		a.initialize(mcp.V20251125)
		began := time.Now()
		resp := a.send(t.Context(), "POST", callOf(1, "slow"))
		defer resp.Body.Close()
		if d := time.Since(began); d != time.Second {
			t.Errorf("headers after %v, want 1s", d)
		}
		data, err := io.ReadAll(resp.Body)
		want := "id: c1-1_0\nretry: 1000\ndata: \n\n: keep-alive\n\nevent: message\nid: c1-1_1\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"done\":true}}\n\n"
		if err != nil || string(data) != want {
			t.Errorf("stream %q, %v; want %q", data, err, want)
		}
		if d := time.Since(began); d != 20*time.Second {
			t.Errorf("answer after %v, want 20s", d)
		}
		if ended.get() != nil {
			t.Errorf("the call was cancelled: %v", ended.get())
		}
	})
}

func TestServerJSONOnlyClient(t *testing.T) {
	noisy := func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		_ = r.Peer.Notify(ctx, "notifications/message", json.RawMessage(`{"level":"info","data":1}`))
		_, err := r.Peer.Call(ctx, "roots/list", nil, nil)
		return nil, err
	}
	var ended cause
	inBubble(t, streamable.ServerOptions{Handler: serverOf(map[string]toolFunc{"slow": after(20*time.Second, &ended), "noisy": noisy})}, func(t *testing.T, a *agent) {
		a.initialize(mcp.V20251125)
		a.accept = "application/json"
		if status, body := a.ask(callOf(1, "slow")); status != 200 || body != `{"jsonrpc":"2.0","id":1,"result":{"done":true}}` {
			t.Errorf("%d %s", status, body)
		}
		_, body := a.ask(callOf(2, "noisy"))
		if kind := rawjson.Text(rawjson.GetPath([]byte(body), "error", "data", "kind")); kind != "no_back_channel" {
			t.Errorf("a request to a client that takes no stream: %s", body)
		}
		// With its GET stream open, notifications go there.
		sse := *a
		sse.accept = "text/event-stream"
		get := sse.send(t.Context(), "GET", "")
		defer get.Body.Close()
		in := events(get)
		if _, err := in.Next(); err != nil { // the priming event
			t.Fatal(err)
		}
		a.ask(callOf(3, "noisy"))
		if ev, err := in.Next(); err != nil || !strings.Contains(string(ev.Data), "notifications/message") {
			t.Errorf("on the GET stream: %s, %v", ev.Data, err)
		}
		// It goes away: the call runs on, for less than the window.
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		began := time.Now()
		if resp := a.send(ctx, "POST", callOf(4, "slow")); resp != nil {
			t.Fatalf("an answer before the client went away: %d", resp.StatusCode)
		}
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("the client went away after %v", d)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if ended.get() != nil {
			t.Errorf("the call ended with %v although the window had not passed", ended.get())
		}
	})
}

// TestServerWildcard: */* is what HTTP clients send that know of no streams. They
// read JSON, however long it takes.
func TestServerWildcard(t *testing.T) {
	var ended cause
	inBubble(t, streamable.ServerOptions{Sessionless: true, Handler: serverOf(map[string]toolFunc{"slow": after(20*time.Second, &ended)})}, func(t *testing.T, a *agent) {
		for _, accept := range []string{"*/*", "application/json, */*;q=0.1", "text/html, */*"} {
			a.accept = accept
			if status, body := a.ask(callOf(1, "slow")); status != 200 || body != `{"jsonrpc":"2.0","id":1,"result":{"done":true}}` {
				t.Errorf("%s: %d %s", accept, status, body)
			}
		}
	})
}

func TestServerResume(t *testing.T) {
	var ended cause
	tool := func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		_ = r.Peer.Notify(ctx, "notifications/message", json.RawMessage(`{"n":1}`))
		result, err := after(30*time.Second, &ended)(ctx, r)
		_ = r.Peer.Notify(ctx, "notifications/message", json.RawMessage(`{"n":2}`))
		return result, err
	}
	inBubble(t, streamable.ServerOptions{Handler: serverOf(map[string]toolFunc{"slow": tool})}, func(t *testing.T, a *agent) {
		a.initialize(mcp.V20251125)
		resp := a.send(t.Context(), "POST", callOf(1, "slow"))
		in := events(resp)
		var ids []string
		for range 2 {
			ev, err := in.Next()
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, ev.ID)
		}
		resp.Body.Close()
		other := a.send(t.Context(), "POST", callOf(2, "slow"))
		var rest []byte
		go func() {
			defer other.Body.Close()
			rest, _ = io.ReadAll(other.Body)
		}()
		read := func(after string) string {
			t.Helper()
			get := a.send(t.Context(), "GET", "", "Last-Event-ID", after)
			defer get.Body.Close()
			if get.StatusCode != 200 {
				return fmt.Sprint(get.StatusCode)
			}
			var got []string
			in := events(get)
			for {
				ev, err := in.Next()
				if errors.Is(err, io.EOF) {
					return strings.Join(got, " ")
				}
				if err != nil {
					t.Fatal(err)
				}
				if len(ev.Data) > 0 {
					got = append(got, ev.ID)
				}
				if ev.ID == "" { // an answer in place of the stream
					got = append(got, string(rawjson.Get(ev.Data, "id")), string(rawjson.GetPath(ev.Data, "error", "data")))
				}
			}
		}
		time.Sleep(10 * time.Second)
		if got := read(ids[1]); got != "c1-1_2 c1-1_3" {
			t.Errorf("after %s: %s, want what followed of that stream alone", ids[1], got)
		}
		if got := read(ids[0]); got != "c1-1_1 c1-1_2 c1-1_3" {
			t.Errorf("again, after %s: %s, want everything", ids[0], got)
		}
		if got := read("c1-1_3"); got != "" {
			t.Errorf("after the last event: %s", got)
		}
		if got := read("c1-1_99"); got != "" {
			t.Errorf("after an event that never was: %s", got)
		}
		time.Sleep(61 * time.Second)
		if got := read(ids[0]); got != ` 1 {"kind":"node_gone","maybe_ran":true}` {
			t.Errorf("past the window: %s, want an answer to the call", got)
		}
		synctest.Wait()
		if ended.get() != nil {
			t.Errorf("the call was cancelled: %v", ended.get())
		}
		if !strings.Contains(string(rest), "id: c2-2_3") || strings.Contains(string(rest), "id: c1") {
			t.Errorf("the other stream: %q", rest)
		}
	})
}

// A client that goes away: when does its call end?
func TestServerClientGoesAway(t *testing.T) {
	const modern = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow",` + modernMeta + `}}`
	tests := []struct {
		name string
		open func(a *agent)
		body string
		want time.Duration
	}{
		{"legacy, after the resume window", func(a *agent) { a.initialize(mcp.V20250618) }, callOf(1, "slow"), 65 * time.Second},
		{"legacy without a stream", func(a *agent) { a.initialize(mcp.V20250618); a.accept = "application/json" }, callOf(1, "slow"), 65 * time.Second},
		{"legacy without a session, at once", func(*agent) {}, callOf(1, "slow"), 5 * time.Second},
		{"legacy without a session or a stream, at once", func(a *agent) { a.accept = "application/json" }, callOf(1, "slow"), 5 * time.Second},
		{"modern, at once", func(a *agent) { a.version = mcp.V20260728 }, modern, 5 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var ended cause
			var took time.Duration
			tool := func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
				began := time.Now()
				defer func() { took = time.Since(began) }()
				return after(time.Hour, &ended)(ctx, r)
			}
			inBubble(t, streamable.ServerOptions{Sessionless: true, Handler: serverOf(map[string]toolFunc{"slow": tool})}, func(t *testing.T, a *agent) {
				test.open(a)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(5*time.Second, cancel)
				header := []string{"Mcp-Method", "tools/call", "Mcp-Name", "slow"}
				if resp := a.send(ctx, "POST", test.body, header...); resp != nil {
					_, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					if !errors.Is(err, context.Canceled) {
						t.Errorf("the response ended with %v", err)
					}
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if ended.get() == nil || took != test.want {
					t.Errorf("the call ended after %v (%v), want %v", took, ended.get(), test.want)
				}
			})
		})
	}
}

func TestServerIdleSessions(t *testing.T) {
	var ended cause
	inBubble(t, streamable.ServerOptions{Handler: serverOf(map[string]toolFunc{"slow": after(time.Hour, &ended)})}, func(t *testing.T, a *agent) {
		ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
		status := func() int { s, _ := a.ask(ping); return s }
		a.initialize(mcp.V20251125)
		for range 3 {
			time.Sleep(29 * time.Minute)
			if got := status(); got != 200 {
				t.Fatalf("a session in use: %d", got)
			}
		}
		time.Sleep(31 * time.Minute)
		if got := status(); got != 404 {
			t.Errorf("after 31 minutes: %d, want 404", got)
		}
		a.session, a.version = "", ""
		a.initialize(mcp.V20251125)
		ctx, cancel := context.WithCancel(t.Context())
		get := a.send(ctx, "GET", "")
		defer get.Body.Close()
		go func() { _, _ = io.Copy(io.Discard, get.Body) }()
		time.Sleep(3 * time.Hour)
		if got := status(); got != 200 {
			t.Errorf("with a stream open: %d", got)
		}
		cancel()
		synctest.Wait()
		go a.ask(callOf(2, "slow"))
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		if ended.get() != nil {
			t.Errorf("a call in flight was cancelled: %v", ended.get())
		}
		if got := status(); got != 200 {
			t.Errorf("with a call in flight: %d", got)
		}
		time.Sleep(time.Hour)
		if got := status(); got != 404 {
			t.Errorf("an hour later: %d, want 404", got)
		}
	})
}

func TestServerGetStream(t *testing.T) {
	var session *mcp.Session
	var mu sync.Mutex
	keep := func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
		mu.Lock()
		defer mu.Unlock()
		session = r.Session
		return nil, nil
	}
	inBubble(t, streamable.ServerOptions{Handler: serverOf(map[string]toolFunc{"keep": keep})}, func(t *testing.T, a *agent) {
		a.initialize(mcp.V20251125)
		a.ask(callOf(1, "keep"))
		notify := func(method, params string) {
			t.Helper()
			if err := session.Peer().Notify(t.Context(), method, json.RawMessage(params)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := session.Peer().Call(t.Context(), "roots/list", nil, nil); err == nil {
			t.Error("a request to a client that never listened was answered")
		} else if k, _ := mcp.KindOf(err); k != mcp.KindNoBackChannel {
			t.Errorf("a request to a client that never listened: %v", err)
		}
		notify("notifications/message", `{"n":1}`)
		notify("notifications/tools/list_changed", "")
		notify("notifications/tools/list_changed", "")
		notify("notifications/message", `{"n":2}`)

		first := a.send(t.Context(), "GET", "")
		if first.Header.Get("X-Accel-Buffering") != "no" || !strings.HasPrefix(first.Header.Get("Cache-Control"), "no-cache") {
			t.Errorf("headers %v", first.Header)
		}
		in := events(first)
		next := func() streamable.Event {
			t.Helper()
			ev, err := in.Next()
			if err != nil {
				t.Fatal(err)
			}
			return ev
		}
		for _, want := range []string{"g_0 ", `g_1 {"n":1}`, "g_2 ", `g_3 {"n":2}`} {
			ev := next()
			if got := ev.ID + " " + string(rawjson.Get(ev.Data, "params")); got != want {
				t.Errorf("event %s, want %s: what nobody listened for is kept, the same again is not", got, want)
			}
		}
		// A second GET takes over; the first one ends.
		second := a.send(t.Context(), "GET", "", "Last-Event-ID", "g_2")
		if _, err := in.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("the older stream: %v, want its end", err)
		}
		first.Body.Close()
		in = events(second)
		if ev := next(); ev.ID != "g_2" || len(ev.Data) != 0 {
			t.Errorf("priming event %+v, want where it goes on", ev)
		}
		if ev := next(); ev.ID != "g_3" {
			t.Errorf("replayed %s, want g_3", ev.ID)
		}
		// A request outside any call, answered by POST.
		go func() {
			ev := next()
			status, body := a.ask(`{"jsonrpc":"2.0","id":` + string(rawjson.Get(ev.Data, "id")) + `,"result":{"roots":[]}}`)
			if status != 202 || body != "" {
				t.Errorf("answer to the server: %d %s", status, body)
			}
		}()
		result, err := session.Peer().Call(t.Context(), "roots/list", nil, nil)
		if err != nil || string(result) != `{"roots":[]}` {
			t.Errorf("roots/list: %s, %v", result, err)
		}
		// The client's connection breaks; what comes now is there for the next.
		second.Body.Close()
		synctest.Wait()
		notify("notifications/message", `{"n":4}`)
		third := a.send(t.Context(), "GET", "")
		defer third.Body.Close()
		in = events(third)
		next()
		if ev := next(); string(rawjson.Get(ev.Data, "params")) != `{"n":4}` {
			t.Errorf("after the gap: %s", ev.Data)
		}
		if got := a.send(t.Context(), "DELETE", "").StatusCode; got != 204 {
			t.Errorf("DELETE: %d", got)
		}
		if _, err := in.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("after DELETE the stream goes on: %v", err)
		}
		select {
		case <-session.Done():
		default:
			t.Error("the session goes on after DELETE")
		}
	})
}
