package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/web/api"
)

// doctorsFindings are those of a machine with the server notes and the client cursor.
type doctorsFindings struct{}

func (doctorsFindings) Doctor(_ context.Context, name string) (found []api.Finding, err error) {
	for _, f := range []api.Finding{
		{ID: "server-exit", Level: "fail", Thing: "server notes", Text: "it has ended"},
		{ID: "client-path", Level: "fail", Thing: "client cursor", Text: "/home/ann/.cursor/mcp.json: its entry starts /opt/weir, which is not there"},
		{ID: "client-none", Level: "warn", Thing: "clients", Text: "2 clients are there, and none of them uses weir"},
	} {
		if name == "" || strings.HasSuffix(f.Thing, " "+name) {
			found = append(found, f)
		}
	}
	return found, nil
}

func (doctorsFindings) Mend(_ context.Context, m api.Mending) (api.Mended, error) {
	if m.Thing == "half" {
		return api.Mended{Mends: m.Mends, Operation: 7, Failed: "the disk is full"}, nil
	}
	return api.Mended{Mends: m.Mends, Operation: 7}, nil
}

// TestMend: operators mend what is the gateway's, and the user who runs it mends clients as well.
func TestMend(t *testing.T) {
	var told []string
	a := api.New(api.Options{Key: key, Operates: func(principal string) bool { return principal == "bob" },
		Operated: func(_ context.Context, _ audit.Kind, _, _, _, detail string) { told = append(told, detail) },
		Machine:  api.Machine{Checks: doctorsFindings{}},
		Tokens: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r.WithContext(identity.With(r.Context(), &identity.Identity{Principal: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")})))
			})
		}})
	t.Cleanup(a.Close)
	for _, tt := range []struct {
		bearer, body string
		status       int
	}{
		{key, `{"id":"client-lost","thing":"cursor","mends":"put it back"}`, 200},
		{key, `{"id":"config-readable","thing":"f","mends":"chmod 600 f"}`, 200},
		{"bob", `{"id":"config-readable","thing":"f","mends":"chmod 600 f"}`, 200},
		{"bob", `{"id":"config-readable","thing":"half","mends":"chmod 600 f"}`, 200},
		{"bob", `{"id":"client-lost","thing":"cursor","mends":"put it back"}`, 403},
		{"ann", `{"id":"config-readable","thing":"f","mends":"chmod 600 f"}`, 403},
		{key, `{"id":"config-readable","thing":"f"}`, 400},
		{key, `{"id":"config-readable","thing":"f","mends":"x","do":"rm -rf /"}`, 400},
	} {
		told = nil
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8088"+api.Path+"doctor/fix", strings.NewReader(tt.body))
		r.RemoteAddr = "127.0.0.1:9"
		r.Header.Set("Authorization", "Bearer "+tt.bearer)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if w.Code != tt.status || (len(told) == 1) != (tt.status == 200) {
			t.Errorf("%s by %s: %d, told %q: %s", tt.body, tt.bearer, w.Code, told, w.Body)
		}
		if strings.Contains(tt.body, "half") && !(strings.Contains(told[0], "disk is full") && strings.Contains(w.Body.String(), `"failed":"the disk is full"`)) {
			t.Errorf("what failed later is not told: %q, %s", told, w.Body)
		}
	}
}

// TestClientsInTheDoctorsFindings: the user who runs the gateway sees what the doctor finds of the
// clients, and other operators see nothing of it.
func TestClientsInTheDoctorsFindings(t *testing.T) {
	a := api.New(api.Options{Key: key, Operates: func(principal string) bool { return principal == "bob" },
		Machine: api.Machine{Checks: doctorsFindings{}},
		Tokens: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r.WithContext(identity.With(r.Context(), &identity.Identity{Principal: "bob"})))
			})
		}})
	t.Cleanup(a.Close)
	for _, tt := range []struct {
		bearer, query string
		status        int
		server        bool
		clients       bool
	}{
		{key, "", 200, true, true},
		{key, "?name=cursor", 200, false, true},
		{"bobs", "", 200, true, false},
		{"bobs", "?name=notes", 200, true, false},
		{"bobs", "?name=cursor", 404, false, false},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8088"+api.Path+"doctor"+tt.query, nil)
		r.RemoteAddr = "127.0.0.1:9"
		r.Header.Set("Authorization", "Bearer "+tt.bearer)
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		answer := w.Body.String()
		if w.Code != tt.status || strings.Contains(answer, "it has ended") != tt.server || strings.Contains(answer, `"client-`) != tt.clients || strings.Contains(answer, "/home/ann") != tt.clients {
			t.Errorf("doctor%s with %s: %d %s", tt.query, tt.bearer, w.Code, answer)
		}
	}
}
