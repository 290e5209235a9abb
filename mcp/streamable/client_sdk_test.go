package streamable

//lint:file-ignore SA1019 The legacy era has sampling; weir serves it as long as there are legacy peers.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// sdkServer is a server built on the official Go SDK.
func sdkServer(ended chan<- string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "sdk", Version: "1"}, &sdk.ServerOptions{Instructions: "read me"})
	type args struct {
		N int `json:"n"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "count"}, func(ctx context.Context, req *sdk.CallToolRequest, in args) (*sdk.CallToolResult, any, error) {
		for i := range in.N {
			_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(i)})
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint("counted ", in.N)}}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "sample"}, func(ctx context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		res, err := req.Session.CreateMessage(ctx, &sdk.CreateMessageParams{MaxTokens: 5})
		if err != nil {
			return nil, nil, err
		}
		return &sdk.CallToolResult{Content: []sdk.Content{res.Content}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "wait"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		ended <- "begun"
		<-ctx.Done()
		ended <- "cancelled"
		return nil, nil, ctx.Err()
	})
	return s
}

func TestClientAgainstTheGoSDK(t *testing.T) {
	peers := []struct {
		name    string
		version string
		opts    *sdk.StreamableHTTPOptions
		want    string
	}{
		{"legacy", "", nil, mcp.V20251125},
		{"2025-03-26", mcp.V20250326, nil, mcp.V20250326},
		{"legacy, JSON", "", &sdk.StreamableHTTPOptions{JSONResponse: true}, mcp.V20251125},
		{"legacy, resumable", "", &sdk.StreamableHTTPOptions{EventStore: sdk.NewMemoryEventStore(nil)}, mcp.V20251125},
		{"legacy, stateless", "", &sdk.StreamableHTTPOptions{Stateless: true}, mcp.V20251125},
		{"modern", mcp.V20260728, &sdk.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}, mcp.V20260728},
		{"modern, JSON", mcp.V20260728, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true, PropagateRequestCancellation: true}, mcp.V20260728},
	}
	for _, peer := range peers {
		t.Run(peer.name, func(t *testing.T) {
			ended := make(chan string, 1)
			s := sdkServer(ended)
			handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, peer.opts)
			h := &recorder{}
			c := dial(t, handler, func(o *ClientOptions) {
				o.ProtocolVersion, o.Handler = peer.version, h
				o.Capabilities = json.RawMessage(`{"sampling":{}}`)
			})
			hello := c.Hello()
			if hello.Version != peer.want || hello.Modern != mcp.IsModern(peer.want) || hello.Instructions != "read me" || !strings.Contains(string(hello.ServerInfo), `"sdk"`) {
				t.Errorf("hello %+v", hello)
			}
			got, err := c.Call(t.Context(), "tools/list", nil, nil)
			if err != nil || !strings.Contains(string(got), `"count"`) {
				t.Errorf("tools/list: %s, %v", got, err)
			}
			t.Run("progress", func(t *testing.T) {
				back := &recorder{}
				got, err := c.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"count","arguments":{"n":3},"_meta":{"progressToken":"mine"}}`), back)
				if err != nil || !strings.Contains(string(got), "counted 3") {
					t.Errorf("got %s, %v", got, err)
				}
				json := peer.opts != nil && peer.opts.JSONResponse
				if s := back.all(); !json && (len(s) != 3 || !strings.Contains(s[2], `"progressToken":"mine"`)) {
					t.Errorf("progress %q", s)
				}
			})
			t.Run("error", func(t *testing.T) {
				var wire *jsonrpc.Error
				if _, err := c.Call(t.Context(), "prompts/get", json.RawMessage(`{"name":"none"}`), nil); !errors.As(err, &wire) || wire.Code != jsonrpc.CodeInvalidParams {
					t.Errorf("err = %v", err)
				}
				// A method that it does not know is refused with a status and plain text.
				_, err := c.Call(t.Context(), "no/such", nil, nil)
				if !errors.As(err, &wire) && kindOf(err) != mcp.KindInvalidRequest {
					t.Errorf("err = %v", err)
				}
			})
			if peer.opts == nil || peer.opts.EventStore != nil {
				t.Run("sampling", func(t *testing.T) {
					back := &recorder{answer: func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
						if r.Method != "sampling/createMessage" {
							return nil, mcp.MethodNotFound(r.Method)
						}
						return json.RawMessage(`{"role":"assistant","model":"m","content":{"type":"text","text":"sampled"}}`), nil
					}}
					got, err := c.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"sample","arguments":{}}`), back)
					if err != nil || !strings.Contains(string(got), "sampled") {
						t.Errorf("got %s, %v", got, err)
					}
				})
				t.Run("list_changed", func(t *testing.T) {
					h.waitWhile(t, "tools/list_changed", func() { // the GET stream opens in the background, maybe after the first change
						sdk.AddTool(s, &sdk.Tool{Name: "new"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
							return &sdk.CallToolResult{}, nil, nil
						})
					})
				})
			}
			if peer.opts == nil || mcp.IsModern(peer.want) {
				t.Run("cancellation", func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					go func() {
						<-ended // the tool runs
						cancel()
					}()
					if _, err := c.Call(ctx, "tools/call", json.RawMessage(`{"name":"wait","arguments":{}}`), nil); err != context.Canceled {
						t.Errorf("err = %v", err)
					}
					select {
					case <-ended:
					case <-time.After(30 * time.Second):
						t.Error("the server was not told")
					}
				})
			}
		})
	}
}

// TestClientSeesARestart has a server come back on the same address without
// its sessions.
func TestClientSeesARestart(t *testing.T) {
	var current atomic.Pointer[sdk.StreamableHTTPHandler] // the GET stream of the first session may come as late as it likes
	start := func() {
		s := sdkServer(nil)
		t.Cleanup(func() {
			for session := range s.Sessions() { // those that nobody deletes
				session.Close()
			}
		})
		current.Store(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	}
	start()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { current.Load().ServeHTTP(w, r) }))
	defer server.Close()
	defer server.CloseClientConnections()
	c, err := Dial(t.Context(), ClientOptions{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Call(t.Context(), "tools/list", nil, nil); err != nil {
		t.Fatal(err)
	}
	server.CloseClientConnections()
	start()
	_, err = c.Call(t.Context(), "tools/list", nil, nil)
	if !errors.Is(err, ErrSessionLost) {
		t.Fatalf("err = %v", err)
	}
	again, err := Dial(t.Context(), ClientOptions{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := again.Call(t.Context(), "tools/list", nil, nil); err != nil {
		t.Error(err)
	}
}
