package web

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/mcp"
)

// ArtifactPath is the path of kept results; a handle follows it.
const ArtifactPath = "/artifacts/"

// serveArtifact answers a kept result, whole, to the principal whose call made it.
//
//	GET /artifacts/{handle}     the bytes, with their media type; ranges are served
//
// Browsers must not show foreign bytes as a page of this gateway: they save them instead.
func (f *Server) serveArtifact(w http.ResponseWriter, r *http.Request) {
	if !getOrHead(w, r) {
		return
	}
	handle := strings.TrimPrefix(r.URL.Path, ArtifactPath)
	content, err := f.gateway.Data.Kept.Open(r.Context(), guard.Principal(r.Context()), handle)
	var unknown *artifact.Error
	switch {
	case errors.As(err, &unknown):
		httpserver.WriteJSON(w, http.StatusNotFound, map[string]string{"error": unknown.Error()})
		return
	case overloaded(err):
		w.Header().Set("Retry-After", "1")
		httpserver.WriteJSON(w, http.StatusServiceUnavailable, map[string]string{"error": err.Error()})
		return
	case err != nil:
		f.log.Warn("a kept result cannot be read", "err", err)
		httpserver.WriteJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "the artifact store cannot be read now"})
		return
	}
	defer content.Close()
	head := w.Header()
	head.Set("Content-Type", "application/octet-stream")
	if _, _, err := mime.ParseMediaType(content.MediaType); err == nil {
		head.Set("Content-Type", content.MediaType)
	}
	head.Set("Content-Disposition", "attachment")
	head.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cache-Control", "private, no-store")
	head.Set("ETag", `"`+content.ContentHash+`"`)
	if content.Redacted { // the hash is of the original
		head.Del("ETag")
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content.Data))
}

// overloaded reports whether an error says that the caller does too much at once.
func overloaded(err error) bool {
	kind, _ := mcp.KindOf(err)
	return kind == mcp.KindOverloaded
}
