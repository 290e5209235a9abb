package signin

import (
	"crypto/rand"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"sync"

	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/text/visible"
)

//go:embed page.html
var pageSource string

var page = sync.OnceValue(func() *template.Template { return template.Must(template.New("page").Parse(pageSource)) })

// view is the data of page.html.
type view struct {
	Title, Text, Problem, Caller string

	Form    string // the token of the form; "" for a page without one
	Ask, Go bool   // which form
	Texts   []Text // forms for credentials
	Login   string // name of the identity provider; "" if there is none
	Next    string // where the browser goes by itself
	Again   string // the page to start again at
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
	nonce, host := rand.Text(), ""
	if u, err := url.Parse(v.Next); err == nil {
		host = u.Host
	}
	v.Problem = text.Line(visible.Text(v.Problem), 600)
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", fmt.Sprintf("default-src 'none'; style-src 'nonce-%s'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'", nonce))
	if v.Next != "" {
		h.Set("Refresh", "0;url="+v.Next)
	}
	w.WriteHeader(status)
	_ = page().Execute(w, struct { // the browser may be gone
		view
		Nonce, Host string
	}{v, nonce, host})
}
