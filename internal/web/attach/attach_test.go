package attach_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/internal/web/attach"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/stdio"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A gateway answers calls, and keeps what it was sent.
type gateway struct {
	t        testing.TB
	listener net.Listener
	max      int
	ends     sync.WaitGroup

	mu    sync.Mutex // guards below
	conns []*mcp.Conn
	got   []string
}

func newGateway(t testing.TB) *gateway {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{t: t, listener: l, max: 64 << 20}
	g.ends.Go(g.accept)
	t.Cleanup(func() {
		_ = l.Close()
		g.ends.Wait()
		g.kill()
	})
	return g
}

func (g *gateway) accept() {
	for {
		conn, err := g.listener.Accept()
		if err != nil {
			return
		}
		c := mcp.NewConn(stdio.NewStream(conn, conn, g.max, conn.Close), mcp.ConnOptions{Name: "the client", Handler: mcp.HandlerFunc(g.serve)})
		g.mu.Lock()
		g.conns = append(g.conns, c)
		g.mu.Unlock()
	}
}

// serve notes a message and answers it: the tool of a call says how.
func (g *gateway) serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	g.mu.Lock()
	g.got = append(g.got, r.Method)
	g.mu.Unlock()
	if r.Method == "initialize" {
		r.Session.SetVersion(mcp.LatestLegacy)
	}
	if r.Method != "tools/call" {
		return nil, nil
	}
	var call struct {
		Name string
		Size int
		Text string
	}
	if err := json.Unmarshal(r.Params, &call); err != nil {
		return nil, err
	}
	text := func() json.RawMessage { return json.RawMessage(`{"text":"` + strings.Repeat("x", call.Size) + `"}`) }
	switch call.Name {
	case "hang":
		<-ctx.Done()
		return nil, ctx.Err()
	case "large":
		return text(), nil
	case "ask":
		return r.Peer.Call(ctx, "sampling/createMessage", text(), nil)
	case "tell":
		return nil, errors.Join(r.Peer.Notify(ctx, "notifications/message", text()), r.Peer.Notify(ctx, "notifications/message", json.RawMessage(`{}`)))
	}
	return json.RawMessage(fmt.Sprintf(`{"length":%d}`, len(call.Text))), nil
}

// kill ends all connections.
func (g *gateway) kill() {
	g.mu.Lock()
	conns := g.conns
	g.conns = nil
	g.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// sent returns the methods of the messages that have come so far.
func (g *gateway) sent() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.got, " ")
}

// A program is a client and the attach.Run that it has started.
type program struct {
	in    *io.PipeWriter // to Run
	lines *bufio.Scanner // of Run
	end   context.CancelFunc
	ended chan error

	mu    sync.Mutex // guards below
	notes []string
}

// start runs attach.Run with a way to the gateway that dial returns.
func start(t testing.TB, dial func() *gateway) *program {
	t.Helper()
	in, toRun := io.Pipe()
	fromRun, out := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	p := &program{in: toRun, lines: bufio.NewScanner(fromRun), end: cancel, ended: make(chan error, 1)}
	p.lines.Buffer(nil, 32<<20)
	go func() {
		p.ended <- attach.Run(ctx, attach.Options{In: in, Out: out, Note: p.note, Dial: func(ctx context.Context) (attach.Conn, error) {
			g := dial()
			if g == nil {
				return nil, errors.New("there is no gateway; start one")
			}
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", g.listener.Addr().String())
			if err != nil {
				return nil, err
			}
			return conn.(*net.TCPConn), nil
		}})
		_ = out.Close()
	}()
	t.Cleanup(func() {
		cancel()
		_ = toRun.Close()
		_ = fromRun.Close()
	})
	return p
}

func (p *program) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// say sends lines to Run.
func (p *program) say(t testing.TB, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(p.in, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
}

// hear returns the next line of Run, which must have each of some texts.
func (p *program) hear(t testing.TB, wants ...string) string {
	t.Helper()
	if !p.lines.Scan() {
		t.Fatalf("no line comes, want %q (%v)", wants, p.lines.Err())
	}
	line := p.lines.Text()
	for _, want := range wants {
		if !strings.Contains(line, want) {
			t.Fatalf("%.400s\nwant %s", line, want)
		}
	}
	return line
}

// idOf returns the id of a message.
func idOf(t testing.TB, line string) string {
	t.Helper()
	var m struct{ ID json.RawMessage }
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatal(err)
	}
	return string(m.ID)
}

const (
	hello = `{"jsonrpc":"2.0","id":"h","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	ready = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// greet makes the handshake.
func (p *program) greet(t testing.TB) {
	t.Helper()
	p.say(t, hello)
	p.hear(t, `"id":"h"`, `"result"`)
	p.say(t, ready)
}

// call is a request for a tool of the gateway.
func call(id int, name string, size int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"size":%d}}`, id, name, size)
}

func TestRequestsOfTheGateway(t *testing.T) {
	g := newGateway(t)
	p := start(t, func() *gateway { return g })
	p.greet(t)
	p.say(t, call(1, "ask", 0))
	id := idOf(t, p.hear(t, "sampling/createMessage"))
	p.say(t, `{"jsonrpc":"2.0","id":`+id+`,"result":{"answer":42}}`)
	p.hear(t, `"id":1`, `{"answer":42}`)
	p.say(t, call(2, "ask", 0))
	id = idOf(t, p.hear(t, "sampling/createMessage"))
	p.say(t, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-1,"message":"no"}}`)
	p.hear(t, `"id":2`, `"error"`, "no")
	p.say(t, call(3, "tell", 0))
	p.hear(t, "notifications/message")
	p.hear(t, "notifications/message")
	p.hear(t, `"id":3`, `"result"`)
}

// TestGatewayStartedAgain: a killed gateway ends the calls in flight and the questions that it has
// asked. The next gateway gets the handshake of the client from memory, whose answer is not for the
// client, and no answer to a question of the first.
func TestGatewayStartedAgain(t *testing.T) {
	first, second := newGateway(t), newGateway(t)
	ways := []*gateway{first, nil, second}
	p := start(t, func() *gateway {
		g := ways[0]
		ways = ways[1:]
		return g
	})
	p.greet(t)
	p.say(t, call(1, "ask", 0))
	question := idOf(t, p.hear(t, "sampling/createMessage"))
	first.kill()
	var both []string
	for range 2 {
		both = append(both, p.hear(t))
	}
	slices.Sort(both)
	if !strings.Contains(both[0], `"id":1`) || !strings.Contains(both[0], "the gateway ended before it answered") ||
		!strings.Contains(both[1], "notifications/cancelled") || !strings.Contains(both[1], question) {
		t.Fatalf("%q", both)
	}
	p.say(t, `{"jsonrpc":"2.0","id":`+question+`,"result":{}}`, call(2, "echo", 0))
	p.hear(t, `"id":2`, "there is no gateway; start one")
	p.say(t, call(3, "echo", 0))
	p.hear(t, `"id":3`, `"length":0`)
	p.say(t, `{"jsonrpc":"2.0","id":`+question+`,"result":{}}`, call(4, "echo", 0))
	p.hear(t, `"id":4`, `"length":0`)
	got := strings.Fields(second.sent()) // notifications are served on the side
	if slices.Sort(got[1:]); strings.Join(got, " ") != "initialize notifications/initialized tools/call tools/call" {
		t.Errorf("the second gateway got %q", got)
	}
	if len(ways) != 0 {
		t.Errorf("%d ways are left", len(ways))
	}
}

// TestBound: a message over the bound gets an error that names the bound and what to do, in both
// directions. The connection goes on.
func TestBound(t *testing.T) {
	g := newGateway(t)
	p := start(t, func() *gateway { return g })
	p.greet(t)
	const large = 13 << 20
	long := strings.Repeat("x", large)
	after := 100
	alive := func(t *testing.T) {
		t.Helper()
		after++
		p.say(t, call(after, "echo", 0))
		p.hear(t, fmt.Sprintf(`"id":%d`, after), `"length":0`)
	}
	fix := []string{"more than 12 MB", "weir attach", "http.max_body_bytes"}
	t.Run("a request", func(t *testing.T) {
		p.say(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","text":"`+long+`"}}`)
		p.hear(t, append(fix, `"id":1`, `"error"`)...)
		alive(t)
	})
	t.Run("a request within the bound", func(t *testing.T) {
		p.say(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","text":"`+long[:11<<20]+`"}}`)
		p.hear(t, `"id":2`, fmt.Sprintf(`"length":%d`, 11<<20))
	})
	t.Run("a batch", func(t *testing.T) {
		p.say(t, `[{"jsonrpc":"2.0","id":1,"method":"x","params":["`+long+`"]}]`)
		p.hear(t, append(fix, `"id":null`)...)
		alive(t)
	})
	t.Run("an answer", func(t *testing.T) {
		p.say(t, call(3, "ask", 0))
		id := idOf(t, p.hear(t, "sampling/createMessage"))
		p.say(t, `{"jsonrpc":"2.0","id":`+id+`,"result":{"text":"`+long+`"}}`)
		p.hear(t, append(fix, `"id":3`, `"error"`)...)
		alive(t)
	})
	t.Run("a notification", func(t *testing.T) {
		p.say(t, `{"jsonrpc":"2.0","method":"notifications/x","params":{"text":"`+long+`"}}`)
		alive(t)
	})
	t.Run("a result", func(t *testing.T) {
		p.say(t, call(4, "large", large))
		p.hear(t, "more than 12 MB", "proxy.firewall", `"id":4`, `"error"`)
		alive(t)
	})
	t.Run("a question of the gateway", func(t *testing.T) {
		p.say(t, call(5, "ask", large))
		p.hear(t, "more than 12 MB", `"id":5`, `"error"`)
		alive(t)
	})
	t.Run("a notification of the gateway", func(t *testing.T) {
		p.say(t, call(6, "tell", large))
		p.hear(t, "notifications/message", "{}")
		p.hear(t, `"id":6`, `"result"`)
		alive(t)
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if notes := strings.Join(p.notes, "\n"); strings.Count(notes, "is dropped") != 2 {
		t.Errorf("notes:\n%s", notes)
	}
	if got := g.sent(); strings.Contains(got, "initialize ") && strings.Count(got, "initialize ") > 1 {
		t.Errorf("the gateway was connected to again: %s", got)
	}
}

// TestEnd: with the end of its input, Run waits for the last answer. With the end of its context, it
// returns though a call is in flight.
func TestEnd(t *testing.T) {
	g := newGateway(t)
	p := start(t, func() *gateway { return g })
	p.greet(t)
	p.say(t, call(1, "echo", 0))
	_ = p.in.Close()
	p.hear(t, `"id":1`)
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
	p = start(t, func() *gateway { return g })
	p.greet(t)
	p.say(t, call(1, "hang", 0))
	p.end()
	select {
	case err := <-p.ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("Run goes on")
	}
}

// TestMessagesAsTheGatewayEnds: every request gets one answer, whenever the gateway ends.
func TestMessagesAsTheGatewayEnds(t *testing.T) {
	g := newGateway(t)
	p := start(t, func() *gateway { return g })
	p.greet(t)
	const calls = 300
	go func() {
		for id := range calls {
			if _, err := io.WriteString(p.in, call(id, "echo", 0)+"\n"); err != nil {
				return
			}
			if id%10 == 0 {
				g.kill()
			}
		}
	}()
	answers := map[string]int{}
	for range calls {
		answers[idOf(t, p.hear(t))]++
	}
	if len(answers) != calls {
		t.Errorf("%d requests of %d have an answer", len(answers), calls)
	}
}

// TestDial: an HTTP server that does not upgrade is an error with its status and text.
func TestDial(t *testing.T) {
	var got http.Header
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		http.Error(w, "not here", http.StatusForbidden)
	}))
	defer s.Close()
	_, err := attach.Dial(t.Context(), s.URL, http.Header{"Authorization": {"Bearer x"}, attach.ClientHeader: {"zed"}})
	if err == nil || !strings.Contains(err.Error(), "403 Forbidden") || !strings.Contains(err.Error(), "not here") || strings.Contains(err.Error(), "Bearer") {
		t.Errorf("%v", err)
	}
	if got.Get("Upgrade") != attach.Protocol || got.Get("Authorization") != "Bearer x" || got.Get(attach.ClientHeader) != "zed" {
		t.Errorf("the request had %v", got)
	}
	if _, err := attach.Dial(t.Context(), "http://127.0.0.1:1/mcp", nil); err == nil {
		t.Error("there is a server at port 1")
	}
}

// BenchmarkHop compares a call over Run with the same call over the gateway's connection.
func BenchmarkHop(b *testing.B) {
	g := newGateway(b)
	conn, err := net.Dial("tcp", g.listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	direct := func(line string) bool {
		_, err := io.WriteString(conn, line+"\n")
		return err == nil && lines.Scan()
	}
	p := start(b, func() *gateway { return g })
	over := func(line string) bool {
		_, err := io.WriteString(p.in, line+"\n")
		return err == nil && p.lines.Scan()
	}
	median := func(exchange func(string) bool) time.Duration {
		if !exchange(hello) {
			b.Fatal("no handshake")
		}
		took := make([]time.Duration, max(b.N, 200))
		for i := range took {
			began := time.Now()
			if !exchange(call(i, "echo", 0)) {
				b.Fatal("no answer")
			}
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	alone, hop := median(direct), median(over)
	b.ReportMetric(float64((hop-alone).Nanoseconds())/1000, "µs/hop")
	b.ReportMetric(float64(hop)/float64(alone), "of-direct")
}
