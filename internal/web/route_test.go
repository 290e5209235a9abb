package web

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/identity"
)

func TestLocated(t *testing.T) {
	for _, tt := range []struct {
		when, header, want string
	}{{`source == "x"`, "", "192.0.2.1"}, {`source == "x"`, "X-Forwarded-For", ""}, {`principal == "x"`, "", ""}} {
		got := "none"
		h := &paths{located: asksSource(&config.Policy{Rules: []config.PolicyRule{{When: tt.when}}}), agents: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = identity.RouteOf(r.Context()).Source })}
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

// Paths that a ServeMux would change go to it.
func TestCalls(t *testing.T) {
	says := func(name string, got *string) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { *got = name })
	}
	for path, want := range map[string]string{
		"/mcp": "all", "/mcps/files/mcp": "each", "/mcps/a%2Fb/mcp": "each",
		"/mcp/": "mux", "/mcp/team": "mux", "/mcps": "mux", "/mcps//mcp": "mux", "/mcps/../mcp": "mux", "/mcps/%2e%2e/mcp": "mux", "/mcps/a/./mcp": "mux", "/": "mux",
	} {
		var got string
		(&paths{agents: says("all", &got), routed: says("each", &got), mux: says("mux", &got)}).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", path, nil))
		if got != want {
			t.Errorf("%s: %q instead of %q", path, got, want)
		}
	}
}
