package web

import (
	"net/http"
	"strings"

	"github.com/weir-mcp/weir/internal/app"
	"github.com/weir-mcp/weir/mcp"
)

// dataPath is the path of the data plane's tables; a token follows it.
const dataPath = "/s2sp/data/"

// auditFetches tells the audit log of requests for tables. next answers them.
func auditFetches(a *app.Auditor, next http.Handler) http.Handler {
	if !a.Enabled() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.URL.Path, dataPath)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(seen, r)
		if seen.status < 300 {
			a.Fetched(r, token, seen.status)
			return
		}
		// The path has a token, which may be valid again: it is a secret.
		hidden := *r.URL
		hidden.Path = dataPath
		shown := *r
		shown.URL = &hidden
		a.Refused(&shown, seen.status, mcp.Errorf(mcp.KindNotFound, "the table was not served"))
	})
}

// statusWriter remembers the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
