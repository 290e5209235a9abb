package connect

import (
	"crypto/rand"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"

	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/visible"
)

//go:embed page.html
var pageSource string

var page = template.Must(template.New("connect").Parse(pageSource))

// view is the data of page.html.
type view struct {
	Nonce, Title, Text, Problem, Caller string

	Form    string // the token of the form; "" for a page without one
	Ask, Go bool   // which form
	Texts   []Text // forms for credentials
	Login   string // name of the identity provider; "" if there is none
	Next    string // where the browser goes by itself
	Host    string // of Next
	Again   string // the page to begin again at
}

// protect sets the headers that every answer has.
func protect(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer browsers send Origin: null with forms
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; frame-ancestors 'none'")
}

// write answers with a page.
func write(w http.ResponseWriter, status int, v view) {
	v.Nonce, v.Problem = rand.Text(), text.Line(visible.Text(v.Problem), 600)
	if u, err := url.Parse(v.Next); err == nil {
		v.Host = u.Host
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", fmt.Sprintf("default-src 'none'; style-src 'nonce-%s'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'", v.Nonce))
	if v.Next != "" {
		h.Set("Refresh", "0;url="+v.Next)
	}
	w.WriteHeader(status)
	_ = page.Execute(w, v) // the browser may be gone
}
