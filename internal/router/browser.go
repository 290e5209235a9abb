package router

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"
	"time"
)

//go:embed web/MCPBrowserClient.js
var browserClient []byte

// BrowserClientPath is where web pages load the client from.
const BrowserClientPath = "/MCPBrowserClient.js"

// BrowserClient serves the client for web pages, an ES module without
// dependencies. It is code that anybody may read; what it asks for is guarded.
func BrowserClient() http.Handler {
	sum := sha256.Sum256(browserClient)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !getOrHead(w, r) {
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/javascript; charset=utf-8")
		h.Set("Cache-Control", "no-cache") // a new version is there with the new weir
		h.Set("ETag", tag)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(browserClient))
	})
}
