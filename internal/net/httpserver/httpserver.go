package httpserver

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/text/visible"
)

// Limits of the HTTP server. Writing a response has no time limit, because streams stay open; the
// writer detects clients that do not read.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 60 * time.Second // for a request with its body; streams disable it
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// Limits of HTTP/2, which TLS listeners speak. A connection has many requests, perhaps of many clients
// behind one proxy, so each of it has a bound, and a dead peer is noticed while streams are open.
const (
	maxStreams  = 250 // of one connection at a time
	pingAfter   = 30 * time.Second
	pingTime    = 15 * time.Second
	writeStalls = 60 * time.Second // for which a connection takes no byte
)

// New returns an HTTP server with these limits. It logs the server's own messages at
// level debug.
func New(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: pingAfter, PingTimeout: pingTime, WriteByteTimeout: writeStalls},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// WriteJSON writes a value as the response. Control and invisible characters are escaped, because
// people read these responses in terminals.
func WriteJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	raw, err := json.Marshal(v)
	if err != nil { // cannot happen: weir's own types
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(code)
	_, _ = w.Write(append(visible.JSON(raw), '\n')) // the client may have disconnected
}

// Dialable turns a listen address into an address that clients can connect to.
func Dialable(listen string) string {
	for _, any := range []string{"0.0.0.0:", "[::]:", ":"} {
		if port, ok := strings.CutPrefix(listen, any); ok {
			return "127.0.0.1:" + port
		}
	}
	return listen
}
