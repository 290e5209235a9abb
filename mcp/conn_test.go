package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// pair returns the client's side of an in-memory connection to a server that
// h serves. Both end with the test.
func pair(t testing.TB, h Handler, client ConnOptions) (c, server *Conn) {
	t.Helper()
	a, b := Pipe()
	client.Client = true
	c, server = NewConn(a, client), NewConn(b, ConnOptions{Name: "client", Handler: h})
	t.Cleanup(func() { c.Close(); server.Close() })
	return c, server
}

// raw returns the client's side as a bare stream, to write what no client
// would.
func raw(t *testing.T, opts ConnOptions) (Stream, *Conn) {
	t.Helper()
	a, b := Pipe()
	c := NewConn(b, opts)
	t.Cleanup(func() { a.Close(); c.Close() })
	return a, c
}

func write(t *testing.T, s Stream, msg string) {
	t.Helper()
	if err := s.Write([]byte(msg)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, s Stream) string {
	t.Helper()
	msg, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	return string(msg)
}

// greeted returns a session whose handshake is complete.
func greeted() *Session {
	s := NewSession("", "ann")
	s.SetVersion(LatestLegacy)
	return s
}

func legacy(h Handler) Handler {
	return HandlerFunc(func(ctx context.Context, r *Request) (json.RawMessage, error) {
		r.Session.SetVersion(LatestLegacy)
		return h.Serve(ctx, r)
	})
}

func TestCallEcho(t *testing.T) {
	c, _ := pair(t, HandlerFunc(func(_ context.Context, r *Request) (json.RawMessage, error) {
		return json.RawMessage(r.Params), nil
	}), ConnOptions{})
	in := `{"z":1,"a":12345678901234567890,"a":"\ud83d\uDE00"}`
	out, err := c.Call(t.Context(), "echo", json.RawMessage(in), nil)
	if err != nil || string(out) != in {
		t.Fatalf("%s, %v", out, err)
	}
}

// spec/calls §2: a call's notifications, then its response, always.
func TestNotificationsBeforeResponse(t *testing.T) {
	c, _ := pair(t, legacy(HandlerFunc(func(ctx context.Context, r *Request) (json.RawMessage, error) {
		token := rawjson.GetPath(r.Params, "_meta", "progressToken")
		for i := range 5 {
			if err := r.Peer.Notify(ctx, "notifications/progress", fmt.Appendf(nil, `{"progressToken":%s,"progress":%d}`, token, i)); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})), ConnOptions{})
	var wg sync.WaitGroup
	for n := range 300 {
		wg.Go(func() {
			var got []string
			token := fmt.Sprintf(`"t%d"`, n)
			_, err := c.Call(t.Context(), "tools/call", json.RawMessage(`{"_meta":{"progressToken":`+token+`}}`),
				HandlerFunc(func(_ context.Context, r *Request) (json.RawMessage, error) {
					if tk := string(rawjson.Get(r.Params, "progressToken")); tk != token {
						t.Errorf("token %s, want %s", tk, token)
					}
					got = append(got, string(rawjson.Get(r.Params, "progress")))
					return nil, nil
				}))
			if err != nil || strings.Join(got, "") != "01234" {
				t.Errorf("call %d: %v, %v", n, got, err)
			}
		})
	}
	wg.Wait()
}

// spec/calls §1: weir's own integers upstream, the agent's bytes restored.
func TestIDsAreOwnUpstreamAndRestored(t *testing.T) {
	s, _ := raw(t, ConnOptions{Handler: legacy(HandlerFunc(func(_ context.Context, r *Request) (json.RawMessage, error) {
		return json.RawMessage(`{}`), nil
	}))})
	for _, id := range []string{`9007199254740993`, `1.5`, `"a\u0062"`, `-0`} {
		write(t, s, `{"jsonrpc":"2.0","id":`+id+`,"method":"initialize"}`)
		if got, want := read(t, s), `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// What follows initialize is served after it: scripts write all they have to ask
// into the pipe at once.
func TestWhatFollowsInitializeWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := raw(t, ConnOptions{Handler: HandlerFunc(func(_ context.Context, r *Request) (json.RawMessage, error) {
			if r.Method == "initialize" {
				time.Sleep(time.Second)
				r.Session.SetVersion(LatestLegacy)
				return nil, nil
			}
			return rawjson.Quote(r.Version), nil
		})})
		go func() {
			for _, msg := range []string{
				`{"jsonrpc":"2.0","id":1,"method":"initialize"}`,
				`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
				`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
				`[{"jsonrpc":"2.0","id":3,"method":"tools/list"}]`,
			} {
				if err := s.Write([]byte(msg)); err != nil {
					t.Error(err)
				}
			}
		}()
		if got := read(t, s); got != `{"jsonrpc":"2.0","id":1,"result":{}}` {
			t.Errorf("first %s", got)
		}
		got := []string{read(t, s), read(t, s)}
		slices.Sort(got)
		if got[0] != `{"jsonrpc":"2.0","id":2,"result":"2025-11-25"}` || !strings.Contains(got[1], "batches exist in protocol version 2025-03-26 only") {
			t.Errorf("then %s", got)
		}
		c.Close()
	})
}

// A connection that ends during its handshake ends at once.
func TestEndDuringTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := raw(t, ConnOptions{Handler: HandlerFunc(func(ctx context.Context, _ *Request) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})})
		write(t, s, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
		synctest.Wait()
		began := time.Now()
		c.Close()
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %s", took)
		}
	})
}

func TestDuplicateIDInFlightIsRefused(t *testing.T) {
	release := make(chan struct{})
	s, _ := raw(t, ConnOptions{Handler: HandlerFunc(func(ctx context.Context, r *Request) (json.RawMessage, error) {
		<-release
		return nil, nil
	}), Session: greeted()})
	write(t, s, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	write(t, s, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if got := read(t, s); !strings.Contains(got, "in use") || !strings.Contains(got, "-32600") {
		t.Errorf("got %s", got)
	}
	close(release)
	if got := read(t, s); got != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("got %s", got)
	}
}

// spec/calls §1: late progress is dropped.
func TestLateProgressIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stray atomic.Int32
		var token string
		c, server := pair(t, HandlerFunc(func(ctx context.Context, r *Request) (json.RawMessage, error) {
			token = string(rawjson.GetPath(r.Params, "_meta", "progressToken"))
			return nil, nil
		}), ConnOptions{Handler: HandlerFunc(func(context.Context, *Request) (json.RawMessage, error) {
			stray.Add(1)
			return nil, nil
		})})
		if _, err := c.Call(t.Context(), "initialize", json.RawMessage(`{"_meta":{"progressToken":"x"}}`), nil); err != nil {
			t.Fatal(err)
		}
		if err := server.Notify(t.Context(), "notifications/progress", json.RawMessage(`{"progressToken":`+token+`}`)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if stray.Load() != 0 {
			t.Error("late progress reached the connection's handler")
		}
	})
}

func TestCancelReachesTheOtherSide(t *testing.T) {
	started, ended := make(chan struct{}), make(chan error, 1)
	c, server := pair(t, legacy(HandlerFunc(func(ctx context.Context, r *Request) (json.RawMessage, error) {
		close(started)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, ctx.Err()
	})), ConnOptions{})
	server.Session().SetVersion(LatestLegacy)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if _, err := c.Call(ctx, "tools/call", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("call ended with %v", err)
	}
	if err := <-ended; !errors.Is(err, errCancelledByPeer) {
		t.Errorf("handler ended by %v", err)
	}
}

// A cancelled request gets no response, and its id is free again.
func TestCancelledRequestGetsNoResponse(t *testing.T) {
	s, _ := raw(t, ConnOptions{Handler: HandlerFunc(func(ctx context.Context, r *Request) (json.RawMessage, error) {
		if r.Params == nil {
			<-ctx.Done()
		}
		return nil, ctx.Err()
	}), Session: greeted()})
	write(t, s, `{"jsonrpc":"2.0","id":"a","method":"tools/list"}`)
	write(t, s, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"b"}}`)
	write(t, s, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}`)
	write(t, s, `{"jsonrpc":"2.0","id":"c","method":"tools/list","params":{}}`)
	if got := read(t, s); got != `{"jsonrpc":"2.0","id":"c","result":{}}` {
		t.Errorf("got %s", got)
	}
}

// spec/calls §3: on a shared process a server's request goes to the one caller
// with calls in flight; with several it is answered with an error that names
// per_session: true.
func TestBackRequestOwnership(t *testing.T) {
	var waiting sync.WaitGroup
	release := make(chan struct{})
	c, server := pair(t, legacy(HandlerFunc(func(ctx context.Context, r *Request) (json.RawMessage, error) {
		waiting.Done()
		<-release
		return nil, nil
	})), ConnOptions{Name: `upstream "chat"`})
	server.Session().SetVersion(LatestLegacy)
	answer := func(who string) Handler {
		return HandlerFunc(func(ctx context.Context, r *Request) (json.RawMessage, error) {
			return json.RawMessage(`{"from":"` + who + `"}`), nil
		})
	}
	ann, bob := NewSession("", "ann"), NewSession("", "bob")
	var calls sync.WaitGroup
	call := func(s *Session, who string) {
		waiting.Add(1)
		calls.Go(func() {
			if _, err := c.Call(WithCaller(t.Context(), s), "tools/call", nil, answer(who)); err != nil {
				t.Error(err)
			}
		})
		waiting.Wait()
	}
	for _, method := range []string{"sampling/createMessage", "future/ask"} {
		if _, err := server.Call(t.Context(), method, nil, nil); err == nil || !strings.Contains(err.Error(), "method not found") {
			t.Errorf("%s with no caller: %v", method, err)
		}
	}
	call(ann, "ann's first")
	call(ann, "ann's second")
	if out, err := server.Call(t.Context(), "sampling/createMessage", nil, nil); err != nil || string(out) != `{"from":"ann's second"}` {
		t.Errorf("with one caller: %s, %v", out, err)
	}
	// What a future version may ask belongs to the caller just the same.
	if out, err := server.Call(t.Context(), "future/ask", nil, nil); err != nil || string(out) != `{"from":"ann's second"}` {
		t.Errorf("an unknown question: %s, %v", out, err)
	}
	call(bob, "bob")
	for _, method := range []string{"roots/list", "future/ask"} {
		if _, err := server.Call(t.Context(), method, nil, nil); err == nil ||
			!strings.Contains(err.Error(), "per_session: true") || !strings.Contains(err.Error(), `upstream "chat"`) {
			t.Errorf("%s with two callers: %v", method, err)
		}
	}
	close(release)
	calls.Wait()
}

// spec/calls §3: unowned log messages go to the operator.
func TestUnownedNotificationsGoToTheHandler(t *testing.T) {
	got := make(chan string, 1)
	_, server := pair(t, nil, ConnOptions{Handler: HandlerFunc(func(_ context.Context, r *Request) (json.RawMessage, error) {
		got <- r.Method
		return nil, nil
	})})
	for _, m := range []string{"notifications/message", "notifications/tools/list_changed", "notifications/x"} {
		if err := server.Notify(t.Context(), m, nil); err != nil {
			t.Fatal(err)
		}
		if g := <-got; g != m {
			t.Errorf("got %s", g)
		}
	}
}

// A server that asks and asks without reading the answers gets not all of them;
// what it says besides is heard.
func TestReaderDoesNotWaitForAServerThatDoesNotRead(t *testing.T) {
	for _, ping := range []string{`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, `[{"jsonrpc":"2.0","id":%d,"method":"ping"},{"jsonrpc":"2.0","id":0,"result":{}}]`} {
		synctest.Test(t, func(t *testing.T) {
			heard := make(chan struct{})
			s, c := raw(t, ConnOptions{Client: true, Handler: HandlerFunc(func(context.Context, *Request) (json.RawMessage, error) {
				close(heard)
				return nil, nil
			})})
			for i := range 2 * (writeQueueLen + maxLate) {
				write(t, s, fmt.Sprintf(ping, i))
			}
			write(t, s, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			<-heard
			c.Close()
		})
	}
}

// A server that asks while much is on its way to it gets its answer when it has
// read that.
func TestAnswersBehindManyCalls(t *testing.T) {
	for _, ping := range []string{`{"jsonrpc":"2.0","id":"p","method":"ping"}`, `[{"jsonrpc":"2.0","id":"p","method":"ping"}]`} {
		synctest.Test(t, func(t *testing.T) {
			s, c := raw(t, ConnOptions{Client: true})
			var calls sync.WaitGroup
			for range 2 * writeQueueLen {
				calls.Go(func() { _, _ = c.Call(t.Context(), "x", nil, nil) })
			}
			synctest.Wait()
			write(t, s, ping)
			synctest.Wait()
			answered := false
			for range 2*writeQueueLen + 1 {
				answered = answered || strings.Contains(read(t, s), `"id":"p","result"`)
			}
			if !answered {
				t.Error("no answer")
			}
			c.Close()
			calls.Wait()
		})
	}
}

// spec/calls §5: bounded queue per call, progress is coalesced, a shared reader
// never blocks on one slow agent.
func TestSlowCallerDoesNotBlockOthers(t *testing.T) {
	const burst = 10 * maxCallQueue
	sent := make(chan struct{})
	c, _ := pair(t, HandlerFunc(func(ctx context.Context, r *Request) (json.RawMessage, error) {
		token := rawjson.GetPath(r.Params, "_meta", "progressToken")
		for i := range burst {
			if token == nil {
				break
			}
			if err := r.Peer.Notify(ctx, "notifications/progress", fmt.Appendf(nil, `{"progressToken":%s,"progress":%d}`, token, i)); err != nil {
				return nil, err
			}
		}
		if token != nil {
			close(sent)
		}
		return nil, nil
	}), ConnOptions{})
	stuck, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var seen int
	var last string
	done := make(chan error, 1)
	go func() {
		_, err := c.Call(t.Context(), "initialize", json.RawMessage(`{"_meta":{"progressToken":0}}`),
			HandlerFunc(func(_ context.Context, r *Request) (json.RawMessage, error) {
				once.Do(func() { close(stuck); <-release })
				seen++
				last = string(rawjson.Get(r.Params, "progress"))
				return nil, nil
			}))
		done <- err
	}()
	<-stuck
	<-sent
	for range 100 { // each answer comes after the burst on the same stream
		if _, err := c.Call(t.Context(), "initialize", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if seen > 2*maxCallQueue+2 || last != fmt.Sprint(burst-1) {
		t.Errorf("%d of %d progress messages delivered, the last %s", seen, burst, last)
	}
}

func TestEndOfConnectionFailsCalls(t *testing.T) {
	started := make(chan struct{})
	c, server := pair(t, HandlerFunc(func(ctx context.Context, r *Request) (json.RawMessage, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	}), ConnOptions{Name: `upstream "files"`})
	go func() { <-started; server.Close() }()
	_, err := c.Call(t.Context(), "initialize", nil, nil)
	if k, _ := KindOf(err); k != KindUpstreamUnavailable || !strings.Contains(err.Error(), `upstream "files"`) {
		t.Errorf("got %v", err)
	}
	if _, err := c.Call(t.Context(), "initialize", nil, nil); !errors.Is(err, ErrNotSent) {
		t.Errorf("a call on a dead connection: %v", err)
	}
	if err := c.Notify(t.Context(), "x", nil); err == nil {
		t.Error("a notification on a dead connection succeeded")
	}
}

// mcp-wire: a child's junk lines on stdout are skipped.
func TestJunkIsSkippedByClients(t *testing.T) {
	a, b := Pipe()
	var junk []string // no lock: the reader alone writes, before the answer
	c := NewConn(a, ConnOptions{Client: true, Junk: func(data []byte, err error) { junk = append(junk, fmt.Sprintf("%s: %v", data, err != nil)) }})
	t.Cleanup(func() { c.Close() })
	go func() {
		msg, err := b.Read()
		if err != nil {
			return
		}
		m, _ := jsonrpc.Parse(msg)
		for _, s := range []string{"Starting up…", `{"not":"a message"}`, "[]", `{"jsonrpc":"2.0","id":99,"result":{}}`} {
			_ = b.Write([]byte(s))
		}
		_ = b.Write(jsonrpc.AppendResult(nil, m.ID, []byte(`{"ok":1}`)))
	}()
	if out, err := c.Call(t.Context(), "ping", nil, nil); err != nil || string(out) != `{"ok":1}` {
		t.Errorf("%s, %v", out, err)
	}
	if want := []string{"Starting up…: true", `{"not":"a message"}: true`, "[]: true"}; !slices.Equal(junk, want) {
		t.Errorf("told of %q, want %q", junk, want)
	}
}

func TestServerAnswersJunk(t *testing.T) {
	s, _ := raw(t, ConnOptions{})
	for _, c := range []struct{ in, want string }{
		{`nonsense`, `"id":null,"error":{"code":-32700`},
		{"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"a\",\"params\":{\"x\":\"caf\xe9\"}}", `"id":7,"error":{"code":-32700`},
		{`{"jsonrpc":"2.0","id":7,"method":"a","params":{"x":"\uD83D","id":8}}`, `"id":7,"error":{"code":-32700`},
		{`{"jsonrpc":"2.0","id":"\uD83D","method":"a"}`, `"id":null,"error":{"code":-32700`},
		{`[]`, `"id":null,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":7,"method":5}`, `"id":7,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":8,"method":"a","id":9}`, `"id":null,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":8,"method":"nope","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, `"id":8,"error":{"code":-32602`},
		{`{"jsonrpc":"2.0","id":8,"method":"nope","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2031-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}`, `"id":8,"error":{"code":-32022`},
		{`{"jsonrpc":"2.0","id":8,"method":"nope","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, `"id":8,"error":{"code":-32601`},
	} {
		write(t, s, c.in)
		if got := read(t, s); !strings.Contains(got, c.want) {
			t.Errorf("%s\n got %s\nwant %s", c.in, got, c.want)
		}
	}
}

// 2025-03-26 has batches: one array answers them. Other versions refuse them.
func TestBatch(t *testing.T) {
	s, c := raw(t, ConnOptions{Handler: HandlerFunc(func(_ context.Context, r *Request) (json.RawMessage, error) {
		return json.RawMessage(`{}`), nil
	})})
	c.Session().SetVersion(V20250326)
	write(t, s, `[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","id":2,"method":"b"}]`)
	var answers []json.RawMessage
	if err := json.Unmarshal([]byte(read(t, s)), &answers); err != nil || len(answers) != 2 {
		t.Errorf("%s, %v", answers, err)
	}
	c.Session().SetVersion(V20250618)
	write(t, s, `[{"jsonrpc":"2.0","id":1,"method":"a"}]`)
	if got := read(t, s); !strings.Contains(got, "-32600") {
		t.Errorf("got %s", got)
	}
}

func TestCallDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := pair(t, HandlerFunc(func(ctx context.Context, r *Request) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}), ConnOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := c.Call(ctx, "initialize", nil, nil)
		if k, _ := KindOf(err); k != KindUpstreamTimeout {
			t.Errorf("got %v", err)
		}
	})
}

func TestModernPeerCannotBeAsked(t *testing.T) {
	s, _ := raw(t, ConnOptions{Handler: HandlerFunc(func(ctx context.Context, r *Request) (json.RawMessage, error) {
		return r.Peer.Call(ctx, "roots/list", nil, nil)
	})})
	write(t, s, `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
	if got := read(t, s); !strings.Contains(got, "no_back_channel") {
		t.Errorf("got %s", got)
	}
}

func BenchmarkCallOverPipe(b *testing.B) {
	c, _ := pair(b, HandlerFunc(func(_ context.Context, r *Request) (json.RawMessage, error) {
		return json.RawMessage(`{"content":[]}`), nil
	}), ConnOptions{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.Call(context.Background(), "initialize", nil, nil); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// TestRequestIDsOfServers: two connections do not use the same ids for requests to the client, so that
// an answer for an earlier connection is none for the next.
func TestRequestIDsOfServers(t *testing.T) {
	seen := map[string]bool{}
	for range 3 {
		s, c := raw(t, ConnOptions{})
		go func() { _, _ = c.Call(t.Context(), "roots/list", nil, nil) }()
		m, err := jsonrpc.Parse([]byte(read(t, s)))
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := m.ID.Int(); !ok || n < 1 || n > 1<<53 || seen[string(m.ID)] {
			t.Errorf("id %s after %v", m.ID, seen)
		}
		seen[string(m.ID)] = true
	}
}
