package guard

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-mcp/weir/internal/identity"
)

// TestCertificateOfPages: a browser sends a client certificate for every page, so it counts for the
// server's own pages and those of configured origins alone. A token counts for all that may call.
func TestCertificateOfPages(t *testing.T) {
	authenticate := func(_ *http.Request, bearer string) (*identity.Identity, error) {
		return &identity.Identity{Principal: "by " + bearer}, nil
	}
	listed := New(Options{Authenticate: authenticate, Origins: []string{"https://App.example.com/"}})
	anyone := New(Options{Authenticate: authenticate, Origins: []string{"*"}})
	public := New(Options{Authenticate: authenticate, Origins: []string{"https://Weir.example.com:443"}})
	own := New(Options{Authenticate: authenticate, OwnPages: true})
	for _, tt := range []struct {
		name                 string
		guard                *Guard
		origin, site, bearer string
		want                 int
	}{
		{"a program", listed, "", "", "", http.StatusOK},
		{"an own page", listed, "https://localhost", "same-origin", "", http.StatusOK},
		{"an own page that is read", listed, "", "same-origin", "", http.StatusOK},
		{"an address that was typed", listed, "", "none", "", http.StatusOK},
		{"a listed page", listed, "https://app.example.com", "cross-site", "", http.StatusOK},
		{"another page of this machine", listed, "http://localhost:3000", "same-site", "", http.StatusUnauthorized},
		{"the same in an old browser", listed, "http://127.0.0.1:3000", "", "", http.StatusUnauthorized},
		{"the same without an Origin", listed, "", "same-site", "", http.StatusUnauthorized},
		{"the same with a token", listed, "http://localhost:3000", "same-site", "t", http.StatusOK},
		{"a page of public_url", public, "https://weir.example.com", "same-origin", "", http.StatusOK},
		{"a page of public_url in an old browser", public, "https://weir.example.com", "", "", http.StatusOK},
		{"a page of another port of public_url", public, "https://weir.example.com:8443", "same-site", "", http.StatusForbidden},
		{"any page", anyone, "https://evil.example", "cross-site", "", http.StatusUnauthorized},
		{"any page with a token", anyone, "https://evil.example", "cross-site", "t", http.StatusOK},
		{"a page of forms", own, "https://localhost", "same-origin", "", http.StatusOK},
		{"a link in another page", own, "", "navigate", "", http.StatusOK},
		{"a link in any page", anyone, "", "navigate", "", http.StatusOK},
	} {
		r := httptest.NewRequest(http.MethodPost, "https://localhost/mcp", nil)
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
		for name, value := range map[string]string{"Origin": tt.origin, "Sec-Fetch-Site": tt.site} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if tt.site == "navigate" {
			r.Method = http.MethodGet
			r.Header.Set("Sec-Fetch-Mode", "navigate")
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		}
		if tt.bearer != "" {
			r.Header.Set("Authorization", "Bearer "+tt.bearer)
		}
		w := httptest.NewRecorder()
		tt.guard.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, w.Code, tt.want)
		}
	}
}
