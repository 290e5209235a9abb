package streamable_test

//lint:file-ignore SA1019 The legacy era has log messages; weir serves it as long as there are legacy peers.

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// TestClientOutlivesItsServer: the server ends while a client of the SDK reads the events of a call. The call has an
// error at the next server at once, and the session goes on there.
func TestClientOutlivesItsServer(t *testing.T) {
	running, over := make(chan struct{}), make(chan struct{})
	tools := serverOf(map[string]toolFunc{
		"stays": func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
			_ = r.Peer.Notify(ctx, "notifications/message", json.RawMessage(`{"level":"info","data":"it runs"}`))
			select {
			case <-ctx.Done():
			case <-over:
			}
			return nil, errors.New("it has ended")
		},
		"quick": func(context.Context, *mcp.Request) (json.RawMessage, error) {
			return json.RawMessage(`{"content":[]}`), nil
		},
	})
	docs := store.NewMemory(store.MemoryOptions{})
	var now atomic.Pointer[streamable.Server]
	front := httptest.NewServer(guard.New(guard.Options{}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { now.Load().ServeHTTP(w, r) })))
	start := func() {
		s := streamable.NewServer(lasting(t, docs, tools))
		now.Store(s)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if err := s.Shutdown(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(front.Close)
	start()
	t.Cleanup(func() { close(over) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	client := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, &sdk.ClientOptions{
		LoggingMessageHandler: func(context.Context, *sdk.LoggingMessageRequest) { close(running) },
	})
	cs, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: front.URL}, &sdk.ClientSessionOptions{ProtocolVersion: mcp.V20251125})
	if err != nil {
		t.Fatal(err)
	}
	defer cs.Close()
	lost := make(chan error, 1)
	go func() {
		_, err := cs.CallTool(ctx, &sdk.CallToolParams{Name: "stays"})
		lost <- err
	}()
	<-running
	start()
	front.CloseClientConnections()
	if err := <-lost; err == nil || !strings.Contains(err.Error(), "make the call again if that does no harm") {
		t.Errorf("the call of the server that has ended: %v", err)
	}
	if _, err := cs.CallTool(ctx, &sdk.CallToolParams{Name: "quick"}); err != nil {
		t.Errorf("the session does not go on: %v", err)
	}
}
