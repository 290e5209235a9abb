package metatool_test

//lint:file-ignore SA1019 The legacy era has sampling, roots and logging; weir serves them as long as there are legacy peers.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// world is a gateway as weir serve runs it: real upstreams behind it, HTTP before
// it.
type world struct {
	t       *testing.T
	manager *upstream.Manager
	live    *catalog.Live[*metatool.Snapshot]
	state   *metatool.State
	url     string
}

func (w *world) Peer(ctx context.Context, name string) (mcp.Peer, error) {
	return w.manager.Peer(ctx, name)
}
func (w *world) Snapshot() *metatool.Snapshot { return w.live.Snapshot() }

func newWorld(t *testing.T, opts metatool.Options, servers ...*config.Server) *world {
	t.Helper()
	w := &world{t: t, state: metatool.NewState()}
	w.live = catalog.NewLive(metatool.NewSnapshot(catalog.Limits{}), catalog.LiveOptions[*metatool.Snapshot]{
		Prepare: (*metatool.Snapshot).Prepare, Changed: func(s *metatool.Snapshot, _ []string) { w.state.Refresh(s.Catalog) },
	})
	w.manager = upstream.New(upstream.Options{Sink: w.live, StartTimeout: 5 * time.Second, ReadyBudget: 3 * time.Second})
	for _, s := range servers {
		s.Namespace, s.Start = s.Name, mcpserver.StartBoot
		if s.Timeout == 0 {
			s.Timeout = 20 * time.Second
		}
		s.Required = true
	}
	w.manager.Apply(servers)
	store := artifact.NewMemory(artifact.Options{})
	opts.Upstreams, opts.Artifacts, opts.State, opts.Logger = w, store, w.state, slog.New(slog.DiscardHandler)
	g := metatool.New(opts)
	rounds := bridge.NewRounds(bridge.Options{})
	server := streamable.NewServer(streamable.ServerOptions{Handler: &mcp.Lifecycle{
		ServerInfo: json.RawMessage(`{"name":"weir","version":"1"}`), Capabilities: func(*mcp.Request) json.RawMessage { return g.Capabilities(t.Context()) }, Instructions: g.Instructions(context.Background()), Next: mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) { return rounds.Serve(ctx, r, g) })}})
	front := httptest.NewServer(server)
	w.url = front.URL
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("server: %v", err)
		}
		rounds.Close()
		front.CloseClientConnections()
		front.Close()
		if err := w.manager.Close(ctx); err != nil {
			t.Errorf("manager: %v", err)
		}
		w.state.Close(context.Background())
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := w.manager.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return w
}

// id returns the id of a raw name.
func (w *world) id(name string) string {
	w.t.Helper()
	for _, e := range w.Snapshot().Catalog.Entries() {
		if e.RawName == name {
			return e.ID
		}
	}
	w.t.Fatalf("nothing is called %s", name)
	return ""
}

// fakeServer serves a fake MCP server over HTTP.
func fakeServer(t *testing.T, name string, versions ...string) *config.Server {
	t.Helper()
	fake, err := fakemcp.New(fakemcp.Config{Versions: versions})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(fake)
	t.Cleanup(func() {
		fake.Close()
		srv.CloseClientConnections()
		srv.Close()
	})
	return &config.Server{Name: name, URL: srv.URL + "/mcp", Type: mcpserver.TransportHTTP}
}

// agent is a client of the official SDK and what it was told and asked.
type agent struct {
	*sdk.ClientSession
	mu       sync.Mutex // guards below
	progress []float64
	logs     []string
	asked    map[string]int
	changed  chan string // capacity 64
}

func (w *world) connect(version string) *agent {
	w.t.Helper()
	a := &agent{asked: map[string]int{}, changed: make(chan string, 64)}
	ask := func(what string) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked[what]++
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, &sdk.ClientOptions{
		CreateMessageHandler: func(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			ask("sample")
			return &sdk.CreateMessageResult{Model: "m", Role: "assistant", Content: &sdk.TextContent{Text: "weir"}}, nil
		},
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			ask("elicit")
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"name": "ann"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.progress = append(a.progress, r.Params.Progress)
		},
		LoggingMessageHandler: func(_ context.Context, r *sdk.LoggingMessageRequest) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.logs = append(a.logs, fmt.Sprint(r.Params.Level))
		},
		ToolListChangedHandler:     func(context.Context, *sdk.ToolListChangedRequest) { a.changed <- "tools" },
		ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) { a.changed <- "resources" },
		ResourceUpdatedHandler:     func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) { a.changed <- r.Params.URI },
	})
	client.AddRoots(&sdk.Root{URI: "file:///home/ann", Name: "home"})
	cs, err := client.Connect(w.t.Context(), &sdk.StreamableClientTransport{Endpoint: w.url}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		w.t.Fatal(err)
	}
	a.ClientSession = cs
	w.t.Cleanup(func() { _ = cs.Close() })
	return a
}

// call calls a meta-tool and returns the text of its answer.
func (a *agent) call(t *testing.T, tool string, args map[string]any) string {
	t.Helper()
	res, err := a.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s %v: %v", tool, args, err)
	}
	var text []string
	for _, c := range res.Content {
		if c, ok := c.(*sdk.TextContent); ok {
			text = append(text, c.Text)
		}
	}
	return strings.Join(text, "\n")
}

func (a *agent) waitFor(t *testing.T, want ...string) {
	t.Helper()
	want = slices.Clone(want)
	timeout := time.After(30 * time.Second)
	for len(want) > 0 {
		select {
		case got := <-a.changed:
			want = slices.DeleteFunc(want, func(w string) bool { return w == got })
		case <-timeout:
			t.Fatalf("never told of %q", want)
		}
	}
}

var (
	legacyVersions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}
	agentVersions  = []string{mcp.V20251125, mcp.V20250618, mcp.V20260728}
)

// TestBackChannel: what a server asks and tells during an execution reaches the
// agent, whichever era either is of, and as often as it asks.
func TestBackChannel(t *testing.T) {
	for _, server := range []struct {
		name     string
		versions []string
	}{{"legacy", legacyVersions}, {"modern", []string{fakemcp.Modern}}} {
		for _, version := range agentVersions {
			t.Run(server.name+" server, agent of "+version, func(t *testing.T) {
				w := newWorld(t, metatool.Options{}, fakeServer(t, "fake", server.versions...))
				a := w.connect(version)
				for tool, want := range map[string]string{"sample": `"weir"`, "elicit": `"ann"`, "roots": "file:///home/ann"} {
					got := a.call(t, metatool.ToolExecute, map[string]any{"tool_id": w.id(tool), "args": map[string]any{"rounds": 3}})
					if !strings.Contains(got, want) {
						t.Errorf("%s: %s", tool, got)
					}
					a.mu.Lock()
					if n := a.asked[tool]; n != 3 && tool != "roots" {
						t.Errorf("%s: asked %d times", tool, n)
					}
					a.mu.Unlock()
				}
				params := &sdk.CallToolParams{Name: metatool.ToolExecute, Arguments: map[string]any{"tool_id": w.id("progress"), "args": map[string]any{"n": 5}}}
				params.SetProgressToken("tok")
				if _, err := a.CallTool(t.Context(), params); err != nil {
					t.Fatal(err)
				}
				for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) { // the SDK's client delivers them in a goroutine of its own
					a.mu.Lock()
					got := fmt.Sprint(a.progress)
					a.mu.Unlock()
					if got == "[1 2 3 4 5]" {
						break
					}
					if time.Now().After(deadline) {
						t.Fatalf("progress %s", got)
					}
				}
			})
		}
	}
}

// TestSessionsLogLevel: log messages of an execution are those that the session
// wants.
func TestSessionsLogLevel(t *testing.T) {
	w := newWorld(t, metatool.Options{}, fakeServer(t, "fake", legacyVersions...))
	loud, quiet := w.connect(mcp.V20251125), w.connect(mcp.V20251125)
	for a, level := range map[*agent]sdk.LoggingLevel{loud: "debug", quiet: "error"} {
		if err := a.SetLoggingLevel(t.Context(), &sdk.SetLoggingLevelParams{Level: level}); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range []*agent{quiet, loud} {
		a.call(t, metatool.ToolExecute, map[string]any{"tool_id": w.id("log"), "args": map[string]any{"n": 3}})
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		loud.mu.Lock()
		n := len(loud.logs)
		loud.mu.Unlock()
		if n == 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d messages", n)
		}
	}
	quiet.mu.Lock()
	defer quiet.mu.Unlock()
	if len(quiet.logs) > 0 {
		t.Errorf("a session that wants errors got %v", quiet.logs)
	}
}

// TestCancellationReachesTheServer: an agent that gives up an execution ends it at
// the server.
func TestCancellationReachesTheServer(t *testing.T) {
	for _, version := range []string{mcp.V20251125, mcp.V20260728} {
		started, ended := make(chan struct{}), make(chan struct{})
		s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
		sdk.AddTool(s, &sdk.Tool{Name: "wait"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
			close(started)
			<-ctx.Done()
			close(ended)
			return nil, nil, ctx.Err()
		})
		w := newWorld(t, metatool.Options{}, sdkUpstream(t, "s", s))
		a := w.connect(version)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := a.CallTool(ctx, &sdk.CallToolParams{Name: metatool.ToolExecute, Arguments: map[string]any{"tool_id": w.id("wait"), "args": map[string]any{}}})
			done <- err
		}()
		<-started
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", version, err)
		}
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Errorf("%s: the server was not told", version)
		}
	}
}

// sdkUpstream serves a server of the official SDK.
func sdkUpstream(t *testing.T, name string, s *sdk.Server) *config.Server {
	t.Helper()
	srv := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return &config.Server{Name: name, URL: srv.URL, Type: mcpserver.TransportHTTP}
}

// TestPrimitivesOverTheWire drives browse, read, get, subscribe and complete with
// the SDK on both sides.
func TestPrimitivesOverTheWire(t *testing.T) {
	s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, &sdk.ServerOptions{
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
		CompletionHandler: func(_ context.Context, r *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{r.Params.Ref.Name + r.Params.Ref.URI + "/" + r.Params.Argument.Value}}}, nil
		},
	})
	read := func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, Text: "content of " + r.Params.URI}}}, nil
	}
	s.AddResource(&sdk.Resource{URI: "test://manual", Name: "manual", Description: "How everything works"}, read)
	s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "test://row/{id}", Name: "row", Description: "A row by its number"}, read)
	s.AddPrompt(&sdk.Prompt{Name: "greet", Description: "Greets somebody", Arguments: []*sdk.PromptArgument{{Name: "who", Required: true}}}, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Description: "A greeting", Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "Greet " + r.Params.Arguments["who"] + "."}}}}, nil
	})
	var extra atomic.Int64
	sdk.AddTool(s, &sdk.Tool{Name: "touch"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{}, nil, s.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: "test://manual"})
	})
	sdk.AddTool(s, &sdk.Tool{Name: "grow"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		n := extra.Add(1)
		sdk.AddTool(s, &sdk.Tool{Name: fmt.Sprint("grown", n)}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{}, nil, nil
		})
		s.AddResource(&sdk.Resource{URI: fmt.Sprint("test://grown", n), Name: fmt.Sprint("grown", n)}, read)
		return &sdk.CallToolResult{}, nil, nil
	})
	up := sdkUpstream(t, "s", s)
	for _, mode := range []metatool.Mode{metatool.ModeGateway, metatool.ModeProxy} {
		w := newWorld(t, metatool.Options{Mode: mode}, up)
		for _, version := range agentVersions {
			t.Run(fmt.Sprintf("mode %d, %s", mode, version), func(t *testing.T) {
				a := w.connect(version)
				if mode == metatool.ModeProxy {
					prompt, err := a.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "greet", Arguments: map[string]string{"who": "Ann"}})
					if err != nil || prompt.Description != "A greeting" {
						t.Errorf("prompts/get: %+v %v", prompt, err)
					}
				} else {
					useVerbs(t, w, a)
				}
				done, err := a.Complete(t.Context(), &sdk.CompleteParams{Ref: &sdk.CompleteReference{Type: "ref/prompt", Name: w.id("greet")}, Argument: sdk.CompleteParamsArgument{Name: "who", Value: "A"}})
				if err != nil || len(done.Completion.Values) != 1 || done.Completion.Values[0] != "greet/A" {
					t.Errorf("completion: %+v %v", done, err)
				}
				native, err := a.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "test://row/8"})
				if err != nil || native.Contents[0].Text != "content of test://row/8" {
					t.Errorf("resources/read: %+v %v", native, err)
				}
				if list, err := a.ListResources(t.Context(), nil); err != nil || len(list.Resources) < 1 {
					t.Errorf("resources/list: %+v %v", list, err)
				}
				if _, err := a.ListTools(t.Context(), nil); err != nil {
					t.Error(err)
				}
				if err := a.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "test://manual"}); err != nil {
					t.Fatalf("subscribe: %v", err)
				}
				a.call(t, metatool.ToolExecute, map[string]any{"tool_id": w.id("touch"), "args": map[string]any{}})
				a.waitFor(t, "test://manual")
				a.call(t, metatool.ToolExecute, map[string]any{"tool_id": w.id("grow"), "args": map[string]any{}})
				if mode == metatool.ModeProxy {
					a.waitFor(t, "tools", "resources")
				} else {
					a.waitFor(t, "resources")
				}
			})
		}
	}
}

// useVerbs browses, reads and renders through the meta-tools.
func useVerbs(t *testing.T, w *world, a *agent) {
	t.Helper()
	if got := a.call(t, metatool.ResourceBrowse, map[string]any{"query": "how everything works"}); !strings.HasPrefix(got, w.id("manual")) {
		t.Errorf("browse: %s", got)
	}
	if got := a.call(t, metatool.ResourceRead, map[string]any{"resource_id": w.id("manual")}); got != "content of test://manual" {
		t.Errorf("read: %s", got)
	}
	if got := a.call(t, metatool.ResourceRead, map[string]any{"resource_id": w.id("row"), "args": map[string]any{"id": 7}}); got != "content of test://row/7" {
		t.Errorf("template: %s", got)
	}
	if got := a.call(t, metatool.PromptBrowse, map[string]any{"path": "/s"}); !strings.Contains(got, w.id("greet")) {
		t.Errorf("prompts: %s", got)
	}
	if got := a.call(t, metatool.PromptGet, map[string]any{"prompt_id": w.id("greet"), "args": map[string]any{"who": "Ann"}}); got != "A greeting\n[user] Greet Ann." {
		t.Errorf("prompt: %s", got)
	}
}

// TestApprovalInRounds: a policy that wants a person's approval asks a modern
// agent, too, and what the server asks then goes the same way.
func TestApprovalInRounds(t *testing.T) {
	for _, server := range [][]string{legacyVersions, {fakemcp.Modern}} {
		w := newWorld(t, metatool.Options{Policy: &dispatch.Policy{Default: dispatch.RequireApproval}, RateLimits: dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{metatool.ToolExecute: {PerSession: 1}}}},
			fakeServer(t, "fake", server...))
		a := w.connect(mcp.V20260728)
		if got := a.call(t, metatool.ToolExecute, map[string]any{"tool_id": w.id("sample"), "args": map[string]any{"rounds": 2}}); !strings.Contains(got, "weir") {
			t.Errorf("%s", got)
		}
		a.mu.Lock()
		if a.asked["elicit"] != 1 || a.asked["sample"] != 2 {
			t.Errorf("asked %v: the approval once, the server's questions twice", a.asked)
		}
		a.mu.Unlock()
	}
}
