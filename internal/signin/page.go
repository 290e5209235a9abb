package signin

import (
	_ "embed"
	"html/template"
	"net/http"
	"net/url"
	"sync"

	"github.com/weir-mcp/weir/internal/net/httpserver"
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

// write answers with a page.
func write(w http.ResponseWriter, status int, v view) {
	host := ""
	if u, err := url.Parse(v.Next); err == nil {
		host = u.Host
	}
	v.Problem = text.Line(visible.Text(v.Problem), 600)
	if v.Next != "" {
		w.Header().Set("Refresh", "0;url="+v.Next)
	}
	httpserver.WritePage(w, status, page(), "", func(nonce string) any {
		return struct {
			view
			Nonce, Host string
		}{v, nonce, host}
	})
}
