package office

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// A collector that does not answer does not hold up the end of a hub.
func TestHubEndsWithoutItsCollector(t *testing.T) {
	asked, over := make(chan struct{}, 1), make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-over
	}))
	defer collector.Close()
	defer close(over)
	c, _, err := config.Parse("weir.yaml", []byte("hub: {listen: '127.0.0.1:0'}\notlp: {url: "+collector.URL+"}\n"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h, err := OpenHub(t.Context(), c, "1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	payload := rawjson.Object("traceparent", rawjson.Quote("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	_, end := hubSpans(h.trace)("desk", "echo", payload)
	end(nil, "")
	start := time.Now()
	if err := h.Shutdown(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 5*time.Second { // otlp.timeout is 10 s
		t.Errorf("the hub ended after %s", took)
	}
	select {
	case <-asked:
	default:
		t.Error("the collector was not asked")
	}
}
