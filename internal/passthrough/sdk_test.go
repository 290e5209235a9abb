package passthrough_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/mcp"
)

// sdkServer is a server of the official SDK with a bit of everything.
func sdkServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "sdk", Version: "1"}, &sdk.ServerOptions{
		Instructions:       "be nice",
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
		KeepAlive:          0,
	})
	sdk.AddTool(s, &sdk.Tool{Name: "steps"}, func(ctx context.Context, r *sdk.CallToolRequest, in struct {
		N int `json:"n"`
	}) (*sdk.CallToolResult, any, error) {
		for i := range in.N {
			if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1)}); err != nil {
				return nil, nil, err
			}
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint(in.N)}}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "touch"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		err := s.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: "test://r"})
		return &sdk.CallToolResult{}, nil, err
	})
	s.AddResource(&sdk.Resource{URI: "test://r", Name: "r"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "test://r", Text: "content"}}}, nil
	})
	s.AddPrompt(&sdk.Prompt{Name: "p"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "prompt"}}}}, nil
	})
	return s
}

// TestSDK has the official SDK's client use its server through the Router, in
// each version and by each way.
func TestSDK(t *testing.T) {
	servers := map[string]func(*sdk.Server) (http.Handler, mcpserver.Transport){
		"stateful": func(s *sdk.Server) (http.Handler, mcpserver.Transport) {
			return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil), mcpserver.TransportHTTP
		},
		"stateless": func(s *sdk.Server) (http.Handler, mcpserver.Transport) {
			return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true}), mcpserver.TransportHTTP
		},
		"SSE": func(s *sdk.Server) (http.Handler, mcpserver.Transport) {
			return sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return s }, nil), mcpserver.TransportSSE
		},
	}
	for kind, serve := range servers {
		for _, version := range []string{mcp.V20250326, mcp.V20250618, mcp.V20251125, mcp.V20260728} {
			t.Run(kind+"/"+version, func(t *testing.T) {
				handler, transport := serve(sdkServer())
				hs := httptest.NewServer(handler)
				t.Cleanup(func() {
					hs.CloseClientConnections()
					hs.Close()
				})
				e := start(t, nil, &config.Server{Name: "fake", URL: hs.URL, Type: transport}).ready()
				useSDK(t, e, version, kind != "stateless")
				// Who posts without session reads JSON, whatever the server does.
				for _, accept := range []string{"", "*/*"} {
					res := e.post(mcpPath, `{"jsonrpc":"2.0","id":"u-1","method":"tools/list","params":{}}`, "Accept", accept)
					if got := res.header.Get("Content-Type"); res.status != http.StatusOK || got != "application/json" || !strings.HasPrefix(res.body, `{"jsonrpc":"2.0","id":"u-1","result":{`) {
						t.Errorf("Accept %q: %d %s %s", accept, res.status, got, res.body)
					}
				}
			})
		}
	}
}

func useSDK(t *testing.T, e *env, version string, sessions bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var mu sync.Mutex
	var progress []float64
	updated := make(chan string, 8)
	client := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			mu.Lock()
			defer mu.Unlock()
			progress = append(progress, r.Params.Progress)
		},
		ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) { updated <- r.Params.URI },
	})
	as := &http.Client{Transport: bearer{e.client.Transport}}
	cs, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: e.url + mcpPath, HTTPClient: as}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	defer cs.Close()
	if got := cs.InitializeResult(); got.ProtocolVersion != version || got.ServerInfo.Name != "sdk" || got.Instructions != "be nice" {
		t.Errorf("initialize: %+v", got)
	}
	tools, err := cs.ListTools(ctx, nil)
	if err != nil || len(tools.Tools) != 2 {
		t.Fatalf("tools: %v, %v", tools, err)
	}
	params := &sdk.CallToolParams{Name: "steps", Arguments: map[string]any{"n": 3}}
	params.SetProgressToken("tok")
	res, err := cs.CallTool(ctx, params)
	if err != nil || len(res.Content) != 1 || res.Content[0].(*sdk.TextContent).Text != "3" {
		t.Fatalf("call: %v, %v", res, err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for { // the SDK's client delivers notifications in a goroutine of its own
		mu.Lock()
		got := slices.Clone(progress)
		mu.Unlock()
		if slices.Equal(got, []float64{1, 2, 3}) {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("progress: %v", got)
			break
		}
		time.Sleep(time.Millisecond)
	}
	if _, err := cs.CallTool(ctx, &sdk.CallToolParams{Name: "nothing"}); err == nil {
		t.Error("an unknown tool was called")
	}
	read, err := cs.ReadResource(ctx, &sdk.ReadResourceParams{URI: "test://r"})
	if err != nil || len(read.Contents) != 1 || read.Contents[0].Text != "content" {
		t.Errorf("resource: %v, %v", read, err)
	}
	prompt, err := cs.GetPrompt(ctx, &sdk.GetPromptParams{Name: "p"})
	if err != nil || len(prompt.Messages) != 1 {
		t.Errorf("prompt: %v, %v", prompt, err)
	}
	if !sessions {
		return
	}
	if err := cs.Subscribe(ctx, &sdk.SubscribeParams{URI: "test://r"}); err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	// A subscription of the modern era is a stream that has to be open first.
	deadline = time.Now().Add(30 * time.Second)
	for heard := false; !heard; {
		if _, err := cs.CallTool(ctx, &sdk.CallToolParams{Name: "touch"}); err != nil {
			t.Fatal(err)
		}
		select {
		case uri := <-updated:
			heard = true
			if uri != "test://r" {
				t.Errorf("updated: %q", uri)
			}
		case <-time.After(50 * time.Millisecond):
			if time.Now().After(deadline) {
				t.Fatal("no update was told")
			}
		}
	}
}

// bearer says who an SDK client is.
type bearer struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer alice")
	return b.next.RoundTrip(r)
}
