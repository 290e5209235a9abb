package gateway_test

//lint:file-ignore SA1019 The legacy era has subscriptions by request; weir serves it as long as there are legacy peers.

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
	"github.com/weir-mcp/weir/mcp"
)

// TestScopeClusterListens: agents at a node that does not have a server with scope: cluster hear of its resources, also
// after another node has taken the server over, without a second subscription.
func TestScopeClusterListens(t *testing.T) {
	t.Parallel()
	const uri = "file:///ledger"
	c := gatewaytest.ScopedNodes(t, 0, "")
	server := sdk.NewServer(&sdk.Implementation{Name: "up", Version: "1"}, &sdk.ServerOptions{
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
	})
	server.AddResource(&sdk.Resource{Name: "ledger", URI: uri}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: uri, Text: "1"}}}, nil
	})
	c.Up.Close()
	c.Up = httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(func() { c.Up.CloseClientConnections(); c.Up.Close() })
	for i := range 3 {
		c.Start(fmt.Sprint("n", i)) // the first one has the server
	}
	updated := map[string]chan string{}
	for _, path := range []string{"/mcp", "/mcps/up/mcp"} {
		heard := make(chan string, 64)
		updated[path] = heard
		client := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, &sdk.ClientOptions{
			ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) {
				select {
				case heard <- r.Params.URI:
				default:
				}
			},
		})
		cs, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{
			Endpoint: c.All[1].Front.URL + path, HTTPClient: &http.Client{Transport: gatewaytest.Bearer{Token: gatewaytest.AnnToken}},
		}, &sdk.ClientSessionOptions{ProtocolVersion: mcp.V20251125})
		if err != nil {
			t.Fatal(err)
		}
		defer cs.Close()
		if err := cs.Subscribe(t.Context(), &sdk.SubscribeParams{URI: uri}); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	hears := func(when string) {
		t.Helper()
		for path, heard := range updated {
			for len(heard) > 0 {
				<-heard // of before
			}
			gatewaytest.Eventually(t, path+": the agent hears of the resource "+when, func() bool { // its stream may begin after the first update
				_ = server.ResourceUpdated(context.Background(), &sdk.ResourceUpdatedNotificationParams{URI: uri})
				select {
				case got := <-heard:
					return got == uri
				case <-time.After(200 * time.Millisecond):
					return false
				}
			})
		}
	}
	hears("at first")
	c.Stop(c.All[0])
	hears("from the next holder")
}
