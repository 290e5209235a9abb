package web

import (
	"net/http"
	"strings"

	"github.com/weir-mcp/weir/internal/guard"
	"github.com/weir-mcp/weir/internal/oauth"
)

// mountClientDocument serves the document by which authorization servers know weir (spec/signin §2).
// It is for everyone, and exists where weir has a public https URL.
func mountClientDocument(mux *http.ServeMux, open *guard.Guard, publicURL string) {
	if !strings.HasPrefix(publicURL, "https://") {
		return
	}
	document := oauth.Document(publicURL)
	mux.Handle("GET "+oauth.DocumentPath, open.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "max-age=3600")
		_, _ = w.Write(document)
	})))
}
