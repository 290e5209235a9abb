package app

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/guard"
	"github.com/weir-mcp/weir/internal/visible"
)

// Bounds of the HTTP server. Responses have no bound in time, because streams
// last; what writes them notices a client that does not read.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 60 * time.Second // a request with its body; streams lift it
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// NewHTTPServer returns an HTTP server with these bounds. Its own messages are logged at debug.
func NewHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// WriteJSON answers with a value. People read such answers in terminals: what they
// would obey, or not show, is written as escapes.
func WriteJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	raw, err := json.Marshal(v)
	if err != nil { // weir's own types: cannot be
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(code)
	_, _ = w.Write(append(visible.JSON(raw), '\n')) // the client may be gone
}

// GuardOptions returns the checks of a configuration, with the tokens of auth.
func GuardOptions(c *config.Config, auth config.Auth, log *slog.Logger) guard.Options {
	o := guard.Options{Hosts: c.HTTP.AllowedHosts, Origins: c.HTTP.AllowedOrigins, HostsKey: "http.allowed_hosts", OriginsKey: "http.allowed_origins", Logger: log}
	if u, err := url.Parse(c.PublicURL); err == nil && u.Host != "" {
		o.Hosts = append(append([]string(nil), o.Hosts...), u.Hostname())
		o.Origins = append(append([]string(nil), o.Origins...), u.Scheme+"://"+u.Host)
	}
	if len(auth.Tokens) > 0 {
		o.Authenticate = auth.Lookup
	}
	return o
}

// CannotListen says why an address cannot be listened on, and what to do instead. It is a *SetupError.
func CannotListen(addr string, err error, instead string) error {
	why := "the system refuses it"
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		why = "a program listens there already, perhaps another weir"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		why = "it is no address of this machine"
	case errors.Is(err, syscall.EACCES):
		why = "ports below 1024 need the right to them"
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return setupf("cannot listen on %s: %s (%w); %s", addr, why, err, instead)
}

// Dialable turns an address that is listened on into one that can be connected to.
func Dialable(listen string) string {
	for _, any := range []string{"0.0.0.0:", "[::]:", ":"} {
		if port, ok := strings.CutPrefix(listen, any); ok {
			return "127.0.0.1:" + port
		}
	}
	return listen
}
