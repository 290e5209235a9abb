package streamable_test

//lint:file-ignore SA1019 The legacy era has sampling; weir serves it as long as there are legacy peers.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// serverHandler is a small MCP server: the lifecycle and four tools.
//
//	echo      returns its params
//	progress  sends params.arguments.n progress notifications, then returns
//	ask       asks the client with sampling/createMessage, returns its answer
//	sleep     returns when its context ends, with the context's error
func serverHandler() mcp.Handler {
	tools := mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		text := func(s string) (json.RawMessage, error) {
			return json.RawMessage(`{"content":[{"type":"text","text":` + string(rawjson.Quote(s)) + `}]}`), nil
		}
		switch rawjson.Text(rawjson.Get(r.Params, "name")) {
		case "echo":
			return text(string(rawjson.Get(r.Params, "arguments")))
		case "progress":
			meta, err := r.Fields().Meta()
			if err != nil {
				return nil, err
			}
			var n int
			if err := json.Unmarshal(rawjson.GetPath(r.Params, "arguments", "n"), &n); err != nil {
				return nil, mcp.Errorf(mcp.KindInvalidParams, "n: %v", err)
			}
			for i := range n {
				params := fmt.Appendf(nil, `{"progressToken":%s,"progress":%d}`, meta.ProgressToken, i+1)
				if err := r.Peer.Notify(ctx, "notifications/progress", params); err != nil {
					return nil, err
				}
			}
			return text("done")
		case "ask":
			answer, err := r.Peer.Call(ctx, "sampling/createMessage", json.RawMessage(`{"messages":[],"maxTokens":1}`), nil)
			if err != nil {
				return nil, err
			}
			return text(rawjson.Text(rawjson.Get(answer, "model")))
		case "sleep":
			<-ctx.Done()
			return nil, ctx.Err()
		case "panic":
			panic("a tool gone wrong")
		}
		return nil, mcp.Errorf(mcp.KindInvalidParams, "unknown tool")
	})
	return &mcp.Lifecycle{
		ServerInfo:   json.RawMessage(`{"name":"test","version":"1"}`),
		Capabilities: func(*mcp.Request) json.RawMessage { return json.RawMessage(`{"tools":{"listChanged":true}}`) },
		Next: &mcp.Mux{Methods: map[string]mcp.Handler{
			"tools/call": tools,
			"tools/list": mcp.HandlerFunc(func(context.Context, *mcp.Request) (json.RawMessage, error) {
				return json.RawMessage(`{"ttlMs":0,"cacheScope":"private","tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"progress","inputSchema":{"type":"object"}},{"name":"ask","inputSchema":{"type":"object"}},{"name":"sleep","inputSchema":{"type":"object"}}]}`), nil
			}),
			"subscriptions/listen": mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
				meta := `{"_meta":{"` + mcp.MetaSubscriptionID + `":` + string(r.ID) + `}}`
				_ = r.Peer.Notify(ctx, "notifications/subscriptions/acknowledged", json.RawMessage(meta))
				_ = r.Peer.Notify(ctx, "notifications/tools/list_changed", json.RawMessage(meta))
				<-ctx.Done()
				return nil, ctx.Err()
			}),
		}},
	}
}

// startServer serves a Server on loopback and ends both with the test.
func startServer(t testing.TB, o streamable.ServerOptions) (*httptest.Server, *streamable.Server) {
	t.Helper()
	if o.Handler == nil {
		o.Handler = serverHandler()
	}
	s := streamable.NewServer(o)
	hs := httptest.NewServer(guard.New(guard.Options{}).Wrap(s))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		hs.Close()
	})
	return hs, s
}

func TestServerWithSDKClient(t *testing.T) {
	for _, version := range []string{mcp.V20250326, mcp.V20250618, mcp.V20251125, mcp.V20260728} {
		t.Run(version, func(t *testing.T) {
			hs, _ := startServer(t, streamable.ServerOptions{})
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			var mu sync.Mutex
			var progress []float64
			changed := make(chan struct{}, 8)
			client := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, &sdk.ClientOptions{
				CreateMessageHandler: func(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
					return &sdk.CreateMessageResult{Model: "m-1", Role: "assistant", Content: &sdk.TextContent{}}, nil
				},
				ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
					mu.Lock()
					defer mu.Unlock()
					progress = append(progress, r.Params.Progress)
				},
				ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
					select {
					case changed <- struct{}{}:
					default:
					}
				},
			})
			cs, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: hs.URL}, &sdk.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer cs.Close()
			if got := cs.InitializeResult().ProtocolVersion; got != version {
				t.Errorf("negotiated %s, want %s", got, version)
			}
			tools, err := cs.ListTools(ctx, nil)
			if err != nil || len(tools.Tools) != 4 {
				t.Fatalf("ListTools: %v, %v", tools, err)
			}
			call := func(name string, args any, meta sdk.Meta) (string, error) {
				res, err := cs.CallTool(ctx, &sdk.CallToolParams{Name: name, Arguments: args, Meta: meta})
				if err != nil {
					return "", err
				}
				return res.Content[0].(*sdk.TextContent).Text, nil
			}
			if got, err := call("echo", json.RawMessage(`{"n":12345678901234567890}`), nil); err != nil || got != `{"n":12345678901234567890}` {
				t.Errorf("echo: %q, %v", got, err)
			}
			params := &sdk.CallToolParams{Name: "progress", Arguments: map[string]any{"n": 20}}
			params.SetProgressToken("tok")
			if _, err := cs.CallTool(ctx, params); err != nil {
				t.Errorf("progress: %v", err)
			}
			for range 3000 { // the SDK delivers notifications on a goroutine of its own
				mu.Lock()
				n := len(progress)
				mu.Unlock()
				if n == 20 {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			mu.Lock()
			if len(progress) != 20 {
				t.Errorf("%d progress notifications, want 20", len(progress))
			}
			mu.Unlock()
			got, err := call("ask", nil, nil)
			if mcp.IsModern(version) {
				if err == nil || !strings.Contains(err.Error(), "cannot reach the client") {
					t.Errorf("ask in the modern era: %q, %v", got, err)
				}
			} else if err != nil || got != "m-1" {
				t.Errorf("ask: %q, %v", got, err)
			}
			if mcp.IsModern(version) { // the SDK subscribes by itself
				select {
				case <-changed:
				case <-ctx.Done():
					t.Error("no list_changed by subscriptions/listen")
				}
			}
			short, cancelShort := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancelShort()
			if _, err := cs.CallTool(short, &sdk.CallToolParams{Name: "sleep"}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("sleep: %v", err)
			}
			if _, err := cs.CallTool(ctx, &sdk.CallToolParams{Name: "nothing"}); err == nil || !strings.Contains(err.Error(), "unknown tool") {
				t.Errorf("unknown tool: %v", err)
			}
		})
	}
}

var _ http.Handler = (*streamable.Server)(nil)
