package httpserver

import (
	"html/template"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestWritePage: a page may use the styles that have its nonce, and a form may lead to the targets only.
func TestWritePage(t *testing.T) {
	page := template.Must(template.New("").Parse(`<style nonce="{{.}}"></style>`))
	nonces := map[string]bool{}
	for range 2 {
		w := httptest.NewRecorder()
		Protect(w.Header())
		WritePage(w, 403, page, " https://client.example", func(nonce string) any { return nonce })
		nonce := strings.TrimSuffix(strings.TrimPrefix(w.Body.String(), `<style nonce="`), `"></style>`)
		nonces[nonce] = true
		want := "default-src 'none'; style-src 'nonce-" + nonce + "'; base-uri 'none'; form-action 'self' https://client.example; frame-ancestors 'none'"
		if got := w.Header().Get("Content-Security-Policy"); w.Code != 403 || len(nonce) < 20 || got != want {
			t.Errorf("%d %q, want %q", w.Code, got, want)
		}
		if w.Header().Get("X-Frame-Options") != "DENY" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("headers %v", w.Header())
		}
	}
	if len(nonces) != 2 {
		t.Error("two pages have one nonce")
	}
}
