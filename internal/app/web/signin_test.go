package web_test

import (
	"net/http"
	"testing"
)

// TestSignInPagesAreOwn asks for a page of a sign-in as a page of another port of this machine.
func TestSignInPagesAreOwn(t *testing.T) {
	p := startProtected(t)
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions} {
		r, err := http.NewRequestWithContext(t.Context(), method, p.base+"/connect/up", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", "http://127.0.0.1:3000")
		r.Header.Set("Access-Control-Request-Method", http.MethodPost)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden || resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d, headers %v", method, resp.StatusCode, resp.Header)
		}
	}
}
