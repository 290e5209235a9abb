package trail

import (
	"net/http"
	"strings"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/audit/calls"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/s2sp/plane"
)

// Fetches returns a handler that tells the audit log of requests for tables. next answers them, and tokens
// knows the principals that their URLs were made for.
func (a *Auditor) Fetches(tokens *artifact.Local, next http.Handler) http.Handler {
	if !a.Enabled() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.URL.Path, plane.Path)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		owner := tokens.TokenOwner(token) // before the token is spent
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		outcome := "interrupted"
		defer func() { // next ends an answer that it cannot finish by a panic
			if seen.status < 300 {
				a.fetched(r, token, owner, outcome)
			}
		}()
		next.ServeHTTP(seen, r)
		if outcome = "http " + http.StatusText(seen.status); seen.status < 300 {
			return
		}
		// The path has a token, which may be valid again: it is a secret.
		hidden := *r.URL
		hidden.Path = plane.Path
		shown := *r
		shown.URL = &hidden
		a.Refused(&shown, seen.status, mcp.Errorf(mcp.KindNotFound, "the table was not served"))
	})
}

// fetched records a request to the data plane. The token in its URL is known by its hash, and the
// principal is the one that the URL was made for.
func (a *Auditor) fetched(r *http.Request, token, owner, outcome string) {
	out := calls.Caller(r.Context(), audit.View)
	out.Principal, out.Method, out.Outcome = owner, "s2sp/data", outcome
	out.Handle = "token " + telemetry.SessionTag(token)
	a.calls.Log().Add(out)
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
