package upstream

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/mcp"
)

// A call to a server whose URL or key is wrong is not one to be tried again, and a
// server that asks for time gets it.
func TestUnavailableSaysWhatHelps(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status int
		header string
		kind   mcp.Kind
		wait   time.Duration
	}{
		{http.StatusFound, "", mcp.KindUpstreamProtocol, 0},
		{http.StatusAccepted, "", mcp.KindUpstreamProtocol, 0},
		{http.StatusNotFound, "", mcp.KindUpstreamProtocol, 0},
		{http.StatusMethodNotAllowed, "", mcp.KindUpstreamProtocol, 0},
		{http.StatusNotImplemented, "", mcp.KindUpstreamProtocol, 0},
		{http.StatusUnauthorized, "", mcp.KindUnauthorized, 0},
		{http.StatusForbidden, "", mcp.KindPermissionDenied, 0},
		{http.StatusServiceUnavailable, "7", mcp.KindUpstreamUnavailable, 7 * time.Second},
		{http.StatusBadGateway, "", mcp.KindUpstreamUnavailable, 0},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if tt.header != "" {
				w.Header().Set("Retry-After", tt.header)
			}
			w.WriteHeader(tt.status)
		}))
		t.Cleanup(srv.Close)
		m, _ := manage(t, Options{}, &mcpserver.Server{Name: "web", Namespace: "web", URL: srv.URL, Type: mcpserver.TransportHTTP, Start: mcpserver.StartBoot})
		u := upstreamOf(t, m, "web")
		eventually(t, "web has failed", func() bool { return u.Status().State == StateFailed })
		_, err := callTool(t.Context(), u, "echo", "{}")
		wantKind(t, err, tt.kind, `upstream "web"`)
		if got := mcp.RetryAfter(err); got != tt.wait {
			t.Errorf("%d: retry after %s, want %s", tt.status, got, tt.wait)
		}
		if errors.Is(err, mcp.ErrFinal) != (tt.kind != mcp.KindUpstreamUnavailable) {
			t.Errorf("%d: %v", tt.status, err)
		}
	}
}
