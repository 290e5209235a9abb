package passthrough

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

// BrowserClientPath is the path of the client for web pages.
const BrowserClientPath = "/MCPBrowserClient.js"

// BrowserClient serves the client for web pages, an ES module without dependencies. The code is
// public; the requests that it makes are guarded.
func BrowserClient() http.Handler {
	sum := sha256.Sum256(browserClient)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !getOrHead(w, r) {
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/javascript; charset=utf-8")
		h.Set("Cache-Control", "no-cache") // reload after an update of weir
		h.Set("ETag", tag)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(browserClient))
	})
}
