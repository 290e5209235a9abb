package guard_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-mcp/weir/internal/net/guard"
)

// TestOwnPages: pages of this machine's other servers and permitted origins can neither send a form
// nor read a page; links lead to pages, and the pages' own forms pass.
func TestOwnPages(t *testing.T) {
	pages := guard.New(guard.Options{OwnPages: true, Origins: []string{"https://weir.example.com", "*"}}).
		Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	for _, test := range []struct {
		name, method string
		header       []string
		status       int
	}{
		{"a program", "GET", nil, 200},
		{"an address typed", "GET", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"}, 200},
		{"the way back from a provider", "GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 200},
		{"the own form", "POST", []string{"Origin", "http://127.0.0.1:8088", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate"}, 200},
		{"the own form behind a proxy", "POST", []string{"Origin", "https://weir.example.com", "Sec-Fetch-Site", "same-origin"}, 200},
		{"a fetch of another port", "GET", []string{"Origin", "http://127.0.0.1:3000", "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"}, 403},
		{"a fetch of an old browser", "GET", []string{"Origin", "http://127.0.0.1:3000"}, 403},
		{"a fetch without Origin", "GET", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors"}, 403},
		{"a form of another port", "POST", []string{"Origin", "http://127.0.0.1:3000", "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate"}, 403},
		{"a form of another site", "POST", []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 403},
		{"a form of a sandbox", "POST", []string{"Origin", "null"}, 403},
		{"a preflight", "OPTIONS", []string{"Origin", "http://localhost:3000", "Access-Control-Request-Method", "POST"}, 403},
	} {
		r := httptest.NewRequest(test.method, "http://127.0.0.1:8088/connect/notes", nil)
		for i := 0; i < len(test.header); i += 2 {
			r.Header.Set(test.header[i], test.header[i+1])
		}
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, r)
		if w.Code != test.status {
			t.Errorf("%s: %d, want %d: %s", test.name, w.Code, test.status, w.Body)
		}
		for name := range w.Header() {
			if len(name) > 7 && name[:7] == "Access-" {
				t.Errorf("%s: the header %s", test.name, name)
			}
		}
	}
}

// TestOwnOriginSpelled: public_url may have its default port, capitals or letters beyond ASCII.
// Browsers send none of them, and the pages of that origin are the gateway's own.
func TestOwnOriginSpelled(t *testing.T) {
	for _, test := range []struct {
		public, origin, host string
		own                  bool
	}{
		{"https://weir.example:443", "https://weir.example", "10.0.0.7:8088", true},
		{"https://weir.example", "https://weir.example:443", "10.0.0.7:8088", true},
		{"HTTPS://Weir.Example/base", "https://weir.example", "10.0.0.7:8088", true},
		{"https://Bücher.example", "https://xn--bcher-kva.example", "10.0.0.7:8088", true},
		{"http://weir.example:80", "http://weir.example", "10.0.0.7:8088", true},
		{"", "https://weir.example", "weir.example:443", true},
		{"https://weir.example:443", "http://weir.example", "10.0.0.7:8088", false},
		{"https://weir.example:8443", "https://weir.example", "10.0.0.7:8088", false},
		{"https://weir.example", "null", "10.0.0.7:8088", false},
		{"", "null", "10.0.0.7:8088", false},
	} {
		r := httptest.NewRequest("POST", "http://"+test.host+"/console", nil)
		r.Header.Set("Origin", test.origin)
		if err := guard.OwnOrigin(r, test.public); (err == nil) != test.own {
			t.Errorf("%s at %s for public_url %q: %v", test.origin, test.host, test.public, err)
		}
		pages := guard.New(guard.Options{OwnPages: true, Origins: []string{test.public}, Hosts: []string{test.host}}).
			Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		w := httptest.NewRecorder()
		if pages.ServeHTTP(w, r); (w.Code == 200) != test.own {
			t.Errorf("pages: %s at %s for public_url %q: %d", test.origin, test.host, test.public, w.Code)
		}
	}
}

// TestHostSpelled: browsers send the ASCII form of a permitted host.
func TestHostSpelled(t *testing.T) {
	g := guard.New(guard.Options{Hosts: []string{"Bücher.example", "Öl.example:8088", "2001:db8::1"}})
	for host, want := range map[string]bool{
		"xn--bcher-kva.example": true, "xn--bcher-kva.example:443": true, "xn--l-0ga.example:8088": true, "[2001:db8::1]:8088": true,
		"xn--l-0ga.example:9": false, "bucher.example": false,
	} {
		r := httptest.NewRequest("GET", "http://127.0.0.1/", nil)
		r.Host = host
		if err := g.CheckHost(r); (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
	}
}
