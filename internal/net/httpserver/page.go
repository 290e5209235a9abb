package httpserver

import (
	"crypto/rand"
	"fmt"
	"html/template"
	"net/http"
)

// Protect sets the headers of pages on which people sign in. Nothing loads, and no other page may frame them.
func Protect(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer browsers send Origin: null with forms
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; frame-ancestors 'none'")
}

// WritePage writes a page of a template, for which data returns the data with the nonce of its styles. The page
// has no script. Its forms go to this server; targets are further sources of the Content-Security-Policy, each
// with a space before it, to which an answer of a form may redirect.
func WritePage(w http.ResponseWriter, status int, page *template.Template, targets string, data func(nonce string) any) {
	nonce := rand.Text()
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", fmt.Sprintf(
		"default-src 'none'; style-src 'nonce-%s'; base-uri 'none'; form-action 'self'%s; frame-ancestors 'none'", nonce, targets))
	w.WriteHeader(status)
	_ = page.Execute(w, data(nonce)) // the browser may be gone
}
