package web

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-mcp/weir/internal/authz"
	"github.com/weir-mcp/weir/internal/config"
)

func TestLocated(t *testing.T) {
	for _, tt := range []struct {
		when, header, want string
	}{{`source == "x"`, "", "192.0.2.1"}, {`source == "x"`, "X-Forwarded-For", ""}, {`principal == "x"`, "", ""}} {
		got := "none"
		h := located(&config.Policy{Rules: []config.PolicyRule{{When: tt.when}}}, false, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = authz.RouteOf(r.Context()).Source }))
		r := httptest.NewRequest("POST", "/mcp", nil)
		if tt.header != "" {
			r.Header.Set(tt.header, "10.0.0.1")
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
		if got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}
