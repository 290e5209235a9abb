package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/lockfile"
	"github.com/weir-mcp/weir/internal/web/api"
)

const key = "operator-key"

// lock accepts what it is asked to accept.
type lock struct{}

func (lock) Status() *lockfile.Status { return &lockfile.Status{} }

func (lock) Accept(_ context.Context, a lockfile.Acceptance) ([]lockfile.Difference, error) {
	return []lockfile.Difference{{Server: a.Server, Name: "add"}}, nil
}

// TestOperators sends requests of operators and of others.
func TestOperators(t *testing.T) {
	a := api.New(api.Options{Key: key, Definitions: lock{}})
	t.Cleanup(a.Close)
	for _, test := range []struct {
		name, method, path, from string
		header                   []string
		status                   int
	}{
		{"the key", "GET", "definitions", "127.0.0.1:9", nil, 200},
		{"the key over IPv6", "GET", "definitions", "[::1]:9", nil, 200},
		{"another key", "GET", "definitions", "127.0.0.1:9", []string{"Authorization", "Bearer guessed"}, 401},
		{"no key", "GET", "definitions", "127.0.0.1:9", []string{"Authorization", ""}, 401},
		{"from elsewhere", "GET", "definitions", "192.0.2.1:9", nil, 403},
		{"through a proxy of this machine", "GET", "definitions", "127.0.0.1:9", []string{"X-Forwarded-For", "192.0.2.1"}, 403},
		{"through a proxy that names itself", "GET", "definitions", "127.0.0.1:9", []string{"Via", "1.1 front"}, 403},
		{"a page of another port", "GET", "definitions", "127.0.0.1:9", []string{"Origin", "http://127.0.0.1:3000"}, 403},
		{"a page of another site", "GET", "definitions", "127.0.0.1:9", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"the own page", "GET", "definitions", "127.0.0.1:9", []string{"Origin", "http://127.0.0.1:8088", "Sec-Fetch-Site", "same-origin"}, 200},
		{"an unknown path", "GET", "nothing", "127.0.0.1:9", nil, 404},
		{"a change by GET", "GET", "definitions/accept", "127.0.0.1:9", nil, 405},
		{"a change by a form", "POST", "definitions/accept", "127.0.0.1:9", []string{"Content-Type", "text/plain"}, 415},
		{"a change", "POST", "definitions/accept", "127.0.0.1:9", []string{"Content-Type", "application/json"}, 200},
	} {
		r := httptest.NewRequest(test.method, "http://127.0.0.1:8088"+api.Path+test.path, strings.NewReader(`{"server":"calc"}`))
		r.RemoteAddr = test.from
		r.Header.Set("Authorization", "Bearer "+key)
		for i := 0; i < len(test.header); i += 2 {
			r.Header.Set(test.header[i], test.header[i+1])
		}
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if w.Code != test.status {
			t.Errorf("%s: %d, want %d: %s", test.name, w.Code, test.status, w.Body)
		}
	}
}

// TestAcceptIsTold accepts a definition: the operation is told.
func TestAcceptIsTold(t *testing.T) {
	var told []string
	a := api.New(api.Options{Key: key, Definitions: lock{}, Operated: func(_ context.Context, kind audit.Kind, _, server, _, detail string) {
		told = append(told, string(kind)+" "+server+": "+detail)
	}})
	t.Cleanup(a.Close)
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8088"+api.Path+"definitions/accept", strings.NewReader(`{"server":"calc"}`))
	r.RemoteAddr = "127.0.0.1:9"
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	if w.Code != http.StatusOK || len(told) != 1 || !slices.ContainsFunc(told, func(s string) bool { return strings.HasPrefix(s, "role calc: accepts ") && strings.Contains(s, "add") }) {
		t.Errorf("%d, told %q: %s", w.Code, told, w.Body)
	}
}
