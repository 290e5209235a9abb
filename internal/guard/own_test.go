package guard_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-mcp/weir/internal/guard"
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
