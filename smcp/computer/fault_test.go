package computer_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"

	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/agent"
	"github.com/weir-mcp/weir/smcp/computer"
	"github.com/weir-mcp/weir/smcp/hub"
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// One server that cannot be started, and one that dies, leave the others alone.
func TestCrashLoop(t *testing.T) {
	c := startComputer(t, computer.Options{Name: "d"}, `[`+
		strings.Replace(fake("broken", autoApply), `"env"`, `"args":["-init","exit"],"env"`, 1)+`,`+fake("good", autoApply)+`,`+
		fake("dying", autoApply+`,"tool_meta":{"echo":{"alias":"echo2"},"crash":{"alias":"die"}}`)+`]`)
	_ = c.Ready(t.Context())
	call := func(tool string) json.RawMessage {
		return c.Call(t.Context(), smcp.ToolCall{Call: smcp.Call{ReqID: agent.NewReqID()}, ToolName: tool, Params: json.RawMessage(`{"text":"alive"}`)})
	}
	if r := call("die"); !isError(r) {
		t.Errorf("a crash was answered by %s", r)
	}
	if r := call("echo"); text(r) != "alive" {
		t.Errorf("the good server: %s", r)
	}
	eventually(t, "the server that died is back", func() bool { return text(call("echo2")) == "alive" })
	for _, h := range c.Health() {
		switch h.Name {
		case "broken":
			if h.State == "ready" || h.Error == "" {
				t.Errorf("broken: %+v", h)
			}
		case "dying":
			if h.State != "ready" || h.Restarts == 0 {
				t.Errorf("dying: %+v", h)
			}
		}
	}
}

// restartable is a hub whose address stays while it is another.
type restartable struct {
	t    testing.TB
	addr string
	hub  *hub.Hub
	http *http.Server
	done chan struct{}
}

func (r *restartable) start() {
	var l net.Listener
	var err error
	for range 1500 {
		if l, err = net.Listen("tcp", r.addr); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.addr = l.Addr().String()
	r.hub = hub.New(hub.Options{})
	r.http = &http.Server{Handler: r.hub}
	r.done = make(chan struct{})
	go func() {
		defer close(r.done)
		_ = r.http.Serve(l)
	}()
}

func (r *restartable) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := r.hub.Shutdown(ctx); err != nil {
		r.t.Errorf("the hub did not end: %v", err)
	}
	_ = r.http.Close()
	<-r.done
}

// A hub is restarted under many Computers: all are back and listed within ten
// seconds, each once, and not all at the same moment.
func TestHubRestart(t *testing.T) {
	const n = 200
	r := &restartable{t: t, addr: "127.0.0.1:0"}
	r.start()
	url := "http://" + r.addr
	ws := engineio.ClientConfig{Transports: []engineio.Transport{engineio.WebSocket}}
	a := startAgent(t, agent.Options{URL: url, Office: "o", Engine: ws, Backoff: socketio.Backoff{Min: 100 * time.Millisecond, Max: time.Second}})
	var wg sync.WaitGroup
	for i := range n {
		c, err := computer.New(computer.Options{Name: fmt.Sprintf("c%d", i)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		wg.Go(func() {
			if err := c.Connect(t.Context(), computer.Hub{URL: url, Office: "o", Engine: ws}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	members := func() int {
		room, err := a.ListRoom(t.Context())
		if err != nil {
			return 0
		}
		seen := map[string]bool{}
		for _, s := range room {
			if seen[s.Name] {
				t.Errorf("%s is listed twice", s.Name)
			}
			seen[s.Name] = true
		}
		return len(room)
	}
	eventually(t, "all are listed", func() bool { return members() == n+1 })
	r.stop()
	r.start()
	t.Cleanup(r.stop)
	begun := time.Now()
	eventually(t, "all are back", func() bool { return members() == n+1 })
	if d := time.Since(begun); d > 25*time.Second {
		t.Errorf("it took %s", d)
	}
}

// proxy forwards connections until it is told to swallow everything in silence.
type proxy struct {
	l     net.Listener
	cut   atomic.Bool
	wg    sync.WaitGroup
	mu    sync.Mutex
	conns []net.Conn
}

func newProxy(t testing.TB, target string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l}
	p.wg.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target)
			if err != nil {
				_ = near.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, near, far)
			p.mu.Unlock()
			for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
				p.wg.Go(func() {
					buf := make([]byte, 4096)
					for {
						n, err := pair[0].Read(buf)
						if err != nil {
							_ = pair[1].Close()
							return
						}
						if !p.cut.Load() {
							_, _ = pair[1].Write(buf[:n])
						}
					}
				})
			}
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

// The network is cut and nothing is closed: the hub notices by its heartbeat and
// answers the call that waits.
func TestCut(t *testing.T) {
	_, url := startHub(t, hub.Options{PingInterval: 200 * time.Millisecond, PingTimeout: 300 * time.Millisecond})
	p := newProxy(t, strings.TrimPrefix(url, "http://"))
	c := startComputer(t, computer.Options{Name: "desk"}, fake("fake", autoApply))
	connect(t, c, computer.Hub{URL: "http://" + p.l.Addr().String(), Office: "o", Engine: engineio.ClientConfig{Transports: []engineio.Transport{engineio.WebSocket}}, Backoff: socketio.Backoff{Min: 50 * time.Millisecond, Max: 200 * time.Millisecond}})
	a := startAgent(t, agent.Options{URL: url, Office: "o"})
	there := func() bool { // where the machine is slow the Computer may have missed a heartbeat before
		tools, err := a.GetTools(t.Context(), "desk")
		return err == nil && len(tools) > 0
	}
	eventually(t, "the Computer is there", there)
	done := make(chan error, 1)
	go func() {
		_, err := a.CallTool(t.Context(), agent.ToolCall{Computer: "desk", Tool: "sleep", Arguments: json.RawMessage(`{"sleep_ms":60000}`)})
		done <- err
	}()
	time.Sleep(100 * time.Millisecond) // a call that is not on its way yet has the same answer
	p.cut.Store(true)
	select {
	case err := <-done:
		var refused *smcp.Error
		if !errors.As(err, &refused) || refused.Code != smcp.CodeNotFound {
			t.Errorf("got %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the call was not answered")
	}
	p.cut.Store(false)
	eventually(t, "the Computer is back", there)
}

// A machine dies without a word. It is back in its office long before its old
// connection is missed.
func TestRestartedMachine(t *testing.T) {
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	devices := []hub.Device{{Name: "bound", Key: pub}}
	_, url := startHub(t, hub.Options{Devices: devices, Auth: hub.Static{Devices: devices}})
	a := startAgent(t, agent.Options{URL: url, Office: "o"})
	for _, test := range []struct {
		name string
		key  ed25519.PrivateKey
	}{{"bound", key}, {"plain", nil}} {
		t.Run(test.name, func(t *testing.T) {
			p := newProxy(t, strings.TrimPrefix(url, "http://"))
			before := startComputer(t, computer.Options{Name: test.name, Key: test.key}, fake("fake", autoApply))
			connect(t, before, computer.Hub{URL: "http://" + p.l.Addr().String(), Office: "o", Backoff: socketio.Backoff{Min: time.Hour}})
			if _, err := a.GetTools(t.Context(), test.name); err != nil {
				t.Fatal(err)
			}
			p.cut.Store(true)
			after := startComputer(t, computer.Options{Name: test.name, Key: test.key}, fake("fake", autoApply))
			_ = after.Ready(t.Context())
			begun := time.Now()
			connect(t, after, computer.Hub{URL: url, Office: "o"})
			result, err := a.CallTool(t.Context(), agent.ToolCall{Computer: test.name, Tool: "echo", Arguments: json.RawMessage(`{"text":"back"}`)})
			if took := time.Since(begun); err != nil || text(result) != "back" || took > 20*time.Second { // the hub's heartbeat takes 45 s
				t.Errorf("after %s: %s, %v", took, result, err)
			}
		})
	}
}

// A Computer whose name is bound proves its key, and its results are checked.
func TestBoundComputer(t *testing.T) {
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	other, wrong, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	devices := []hub.Device{{Name: "desk", Key: pub}}
	_, url := startHub(t, hub.Options{Devices: devices, Auth: hub.Static{Devices: devices}})
	thief := startComputer(t, computer.Options{Name: "desk", Key: wrong}, `{}`)
	if err := thief.Connect(t.Context(), computer.Hub{URL: url, Office: "o"}); err == nil || !strings.Contains(err.Error(), "bound to a key") {
		t.Errorf("a wrong key: %v", err)
	}
	c := startComputer(t, computer.Options{Name: "desk", Key: key}, fake("fake", autoApply))
	connect(t, c, computer.Hub{URL: url, Office: "o"})
	call := func(keys ed25519.PublicKey) error {
		a := startAgent(t, agent.Options{URL: url, Office: "o", Keys: map[string]ed25519.PublicKey{"desk": keys}})
		defer a.Close()
		defer func() { // so that the office is free for the next one, which a Close alone does not wait for
			if err := a.Leave(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		if _, err := a.GetTools(t.Context(), "desk"); err != nil {
			return err
		}
		_, err := a.CallTool(t.Context(), agent.ToolCall{Computer: "desk", Tool: "echo"})
		return err
	}
	if err := call(pub); err != nil {
		t.Errorf("a good signature: %v", err)
	}
	if err := call(other); !errors.Is(err, smcp.ErrBadSignature) {
		t.Errorf("another key: %v", err)
	}
}

// Windows of MCP servers make the desktop.
func TestDesktop(t *testing.T) {
	server := mcpServer(t, `{"resources":{}}`, map[string]mcp.Handler{
		"resources/list": fixed(`{"resources":[{"uri":"window://w/low","name":"l","annotations":{"priority":0.1}},{"uri":"window://w/high","name":"h","annotations":{"priority":0.9}},{"uri":"file:///x","name":"x","mimeType":"text/plain"}],"nextCursor":"more"}`),
		"resources/read": mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
			uri := rawjson.Text(rawjson.Get(r.Params, "uri"))
			return json.RawMessage(`{"contents":[{"uri":"` + uri + `","text":"I am ` + uri[len("window://w/"):] + `"}]}`), nil
		}),
		"resources/templates/list": fixed(`{"resourceTemplates":[]}`),
	})
	_, url := startHub(t, hub.Options{})
	c := startComputer(t, computer.Options{Name: "desk"}, `{"servers":{"w":{"type":"streamable","server_parameters":{"url":"`+server+`"}}}}`)
	connect(t, c, computer.Hub{URL: url, Office: "o"})
	a := startAgent(t, agent.Options{URL: url, Office: "o"})
	for _, test := range []struct {
		size   int
		window string
		want   string
	}{
		{-1, "", "window://w/high\n\nI am high|window://w/low\n\nI am low"},
		{1, "", "window://w/high\n\nI am high"},
		{0, "", ""},
		{-1, "window://w/low", "window://w/low\n\nI am low"},
	} {
		got, err := a.GetDesktop(t.Context(), "desk", test.size, test.window)
		if err != nil || strings.Join(got, "|") != test.want {
			t.Errorf("%d %q: %q, %v", test.size, test.window, got, err)
		}
	}
	resources, next, err := a.GetResources(t.Context(), "desk", "w", "")
	if err != nil || next != "more" || len(resources) != 3 || !strings.Contains(string(resources[2]), `"mime_type":"text/plain"`) {
		t.Errorf("resources: %s %q %v", resources, next, err)
	}
	var refused *smcp.Error
	if _, _, err = a.GetResources(t.Context(), "desk", "none", ""); !errors.As(err, &refused) || refused.Code != smcp.CodeNoServer {
		t.Errorf("an unknown server: %v", err)
	}
}

// A polling peer behind a proxy that buffers still gets everything.
func TestPolling(t *testing.T) {
	_, url := startHub(t, hub.Options{PingInterval: 300 * time.Millisecond})
	c := startComputer(t, computer.Options{Name: "desk"}, fake("fake", autoApply))
	connect(t, c, computer.Hub{URL: url, Office: "o", Engine: engineio.ClientConfig{Transports: []engineio.Transport{engineio.Polling}}})
	a := startAgent(t, agent.Options{URL: url, Office: "o", Engine: engineio.ClientConfig{Transports: []engineio.Transport{engineio.Polling}}})
	if _, err := a.GetTools(t.Context(), "desk"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			want := fmt.Sprint("n", i)
			r, err := a.CallTool(t.Context(), agent.ToolCall{Computer: "desk", Tool: "echo", Arguments: json.RawMessage(`{"text":"` + want + `"}`)})
			if err != nil || text(r) != want {
				t.Errorf("%d: %s, %v", i, r, err)
			}
		})
	}
	wg.Wait()
}
