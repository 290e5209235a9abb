package guard_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/mcp"
)

// resource is a guard of a protected resource. Tokens name what happens to them.
func resource() guard.Options {
	return guard.Options{
		Challenge: func(r *http.Request) (string, []string) {
			return "https://w.example/.well-known/oauth-protected-resource" + r.URL.Path, []string{"mcp", "offline_access"}
		},
		Authenticate: func(_ *http.Request, bearer string) (*identity.Identity, error) {
			switch bearer {
			case "good":
				return &identity.Identity{Principal: "corp:1", Groups: []string{"sre"}}, nil
			case "narrow":
				return nil, guard.InsufficientScope([]string{"b", "a", "offline_access", "a"}, "the token has no scope a")
			case "unasked":
				err := mcp.Errorf(mcp.KindIdentityUnavailable, "the issuer corp cannot be asked")
				err.SetRetryAfter(1500 * time.Millisecond)
				return nil, err
			}
			return nil, mcp.Errorf(mcp.KindUnauthorized, "no")
		},
	}
}

func TestChallenge(t *testing.T) {
	const metadata = `resource_metadata="https://w.example/.well-known/oauth-protected-resource/mcp"`
	for _, c := range []struct {
		bearer    string
		status    int
		challenge string
		retry     string
	}{
		{"", 401, `Bearer ` + metadata + `, scope="mcp"`, ""},
		{"bad", 401, `Bearer ` + metadata + `, scope="mcp", error="invalid_token"`, ""},
		{"narrow", 403, `Bearer ` + metadata + `, scope="a b", error="insufficient_scope"`, ""},
		{"unasked", 503, "", "2"}, // after a 401 clients would drop a good token
		{"good", 200, "", ""},
	} {
		got := serve(resource(), loopback, "POST", "localhost", "Authorization", "Bearer "+c.bearer)
		if got.StatusCode != c.status || got.Header.Get("WWW-Authenticate") != c.challenge || got.Header.Get("Retry-After") != c.retry {
			t.Errorf("%q: %d, WWW-Authenticate %q, Retry-After %q", c.bearer, got.StatusCode, got.Header.Get("WWW-Authenticate"), got.Header.Get("Retry-After"))
		}
	}
}

// TestSetChallenge checks errors of handlers behind a Guard, which know the request's context only.
func TestSetChallenge(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"scopes": {guard.InsufficientScope([]string{"w"}, "x"), `scope="w", error="insufficient_scope"`},
		"other":  {mcp.Errorf(mcp.KindPermissionDenied, "x"), ""},
	} {
		r := httptest.NewRequest("POST", "/mcp", nil)
		r.Host = "localhost"
		r.Header.Set("Authorization", "Bearer good")
		w := httptest.NewRecorder()
		guard.New(resource()).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if id := identity.From(r.Context()); !id.InGroup("sre") {
				t.Errorf("the identity is %+v", id)
			}
			if got := guard.SetChallenge(r.Context(), w.Header(), c.err); got != (c.want != "") {
				t.Errorf("%s: SetChallenge = %t", name, got)
			}
		})).ServeHTTP(w, r)
		if got := w.Header().Get("WWW-Authenticate"); !strings.HasSuffix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q", name, got)
		}
	}
}
