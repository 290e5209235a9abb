package computer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
	"github.com/weir-mcp/weir/smcp/agent"
	"github.com/weir-mcp/weir/smcp/computer"
	"github.com/weir-mcp/weir/smcp/hub"
)

const asProgram = "WEIR_TEST_FAKEMCP"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := fakemcp.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	leak.Main(m)
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", strings.TrimRight(string(b), "\n"))
	return len(b), nil
}

func logger(t testing.TB, name string) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelInfo})).With("who", name)
}

// startHub serves a hub and returns its URL.
func startHub(t testing.TB, o hub.Options) (*hub.Hub, string) {
	t.Helper()
	h := hub.New(o)
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := h.Shutdown(ctx); err != nil {
			t.Errorf("the hub did not end: %v", err)
		}
		server.Close()
	})
	return h, server.URL
}

// fake is a server of a configuration that is the program fakemcp.
func fake(name string, more string) string { return fakeTelling(name, "", more) }

// fakeTelling is fake, and the program writes what happens to a file.
func fakeTelling(name, file, more string) string {
	if more != "" {
		more = "," + more
	}
	args := ""
	if file != "" {
		args = fmt.Sprintf(`,"args":["-log",%q]`, file)
	}
	return fmt.Sprintf(`{"name":%q,"type":"stdio","server_parameters":{"command":%q%s,"env":{%q:"1","GORACE":"atexit_sleep_ms=0"}}%s}`, name, os.Args[0], args, asProgram, more)
}

// sleeps waits until a call of the tool sleep runs, as the file of fakeTelling says.
func sleeps(t testing.TB, file string) {
	t.Helper()
	eventually(t, "the call runs", func() bool {
		text, _ := os.ReadFile(file)
		return strings.Contains(string(text), "sleeping ")
	})
}

const autoApply = `"default_tool_meta":{"auto_apply":true}`

// startComputer makes a Computer of a configuration.
func startComputer(t testing.TB, o computer.Options, text string) *computer.Computer {
	t.Helper()
	if o.Logger == nil {
		o.Logger = logger(t, o.Name)
	}
	o.BaseEnv = append(o.BaseEnv, "PATH="+os.Getenv("PATH"))
	o.StopGrace = 300 * time.Millisecond
	c, err := computer.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("the Computer did not end: %v", err)
		}
	})
	f, err := computer.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Load(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	return c
}

func connect(t testing.TB, c *computer.Computer, h computer.Hub) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := c.Connect(ctx, h); err != nil {
		t.Fatal(err)
	}
}

func startAgent(t testing.TB, o agent.Options) *agent.Client {
	t.Helper()
	if o.Logger == nil {
		o.Logger = logger(t, "agent")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	a, err := agent.Connect(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if f() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

func text(result json.RawMessage) string {
	var r struct {
		Content []struct{ Text string } `json:"content"`
	}
	if json.Unmarshal(result, &r) != nil || len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

func isError(result json.RawMessage) bool { return string(rawjson.Get(result, "isError")) == "true" }

// mcpServer serves a handler of everything but the handshake over HTTP.
func mcpServer(t testing.TB, capabilities string, methods map[string]mcp.Handler) string {
	t.Helper()
	s := streamable.NewServer(streamable.ServerOptions{Handler: &mcp.Lifecycle{
		ServerInfo:   json.RawMessage(`{"name":"made","version":"1"}`),
		Capabilities: func(*mcp.Request) json.RawMessage { return json.RawMessage(capabilities) },
		Next:         &mcp.Mux{Methods: methods},
	}})
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		server.Close()
	})
	return server.URL
}

func fixed(result string) mcp.Handler {
	return mcp.HandlerFunc(func(context.Context, *mcp.Request) (json.RawMessage, error) { return json.RawMessage(result), nil })
}
