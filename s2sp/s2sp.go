package s2sp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/s2sp/plane"
)

// Options configure a Server. The zero value is ready to use: its own data plane on loopback,
// tables in memory for ten minutes, and no fetches from other servers.
type Options struct {
	// BaseURL is the URL at which other servers reach Handler, such as
	// "http://weather.example.com:8080". If it is empty, the Server opens its own listener.
	BaseURL string
	// Listen is the address to listen on without a BaseURL. Other servers must be able to reach it.
	// Empty means a free port on 127.0.0.1.
	Listen string

	// MaxBytes bounds the tables that wait to be fetched. The default is 256 MB. A table that has no
	// room makes its tool fail: a table behind a resource_url is never dropped for a newer one.
	MaxBytes int64
	// Dir is the folder for tables beyond MaxBytes or MemoryBytes. Without it tables are in memory
	// only.
	Dir string
	// MemoryBytes bounds the tables in memory if Dir is set. DiskBytes bounds those in files. The
	// defaults are 256 MB and 8 GB.
	MemoryBytes, DiskBytes int64
	// TTL is the lifetime of a resource_url. Zero means ten minutes.
	TTL time.Duration

	// Fetch says which servers consumer tools may fetch from. The server's own data plane is always
	// allowed.
	Fetch plane.FetchOptions

	// Logger receives log records; nil discards them.
	Logger *slog.Logger
}

// Server is the data plane of an MCP server and the owner of its tables. [ResourceTool] and
// [ConsumerTool] make tools that use it. It is safe for concurrent use.
type Server struct {
	opts    Options
	store   *artifact.Local
	base    string
	handler http.Handler
	fetcher *plane.Fetcher
	log     *slog.Logger

	http  *http.Server // of the Server's own data plane
	ended chan error   // receives the error with which http ended
	close sync.Once
	err   error
}

// principal owns all tables, because an S2SP server does not distinguish principals.
const principal = "s2sp"

// New starts a data plane. The caller must Close it.
func New(opts Options) (*Server, error) {
	s := &Server{opts: opts, log: opts.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var listener net.Listener
	if opts.BaseURL == "" {
		address := opts.Listen
		if address == "" {
			address = "127.0.0.1:0"
		}
		var err error
		if listener, err = net.Listen("tcp", address); err != nil {
			return nil, fmt.Errorf("opening the data plane: %w", err)
		}
		s.base = "http://" + listener.Addr().String()
		if a, ok := listener.Addr().(*net.TCPAddr); ok && a.IP.IsUnspecified() {
			_ = listener.Close() // report the first error only
			return nil, fmt.Errorf("data plane at %q: that is every address of this machine, and a resource_url has to name one; listen there, or mount Handler and set BaseURL", address)
		}
	} else {
		s.base = strings.TrimSuffix(opts.BaseURL, "/")
	}
	if err := s.setUp(); err != nil {
		if listener != nil {
			_ = listener.Close() // report the first error only
		}
		return nil, err
	}
	if listener != nil {
		s.http = &http.Server{
			Handler:           s.handler,
			ReadHeaderTimeout: 30 * time.Second,
			IdleTimeout:       2 * time.Minute,
			ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		}
		s.ended = make(chan error, 1)
		go func() { s.ended <- s.http.Serve(listener) }()
		s.log.Info("data plane", "url", s.base)
	}
	return s, nil
}

func (s *Server) setUp() error {
	u, err := url.Parse(s.base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil {
		return fmt.Errorf("base URL %q must be http or https with a host and nothing behind it", s.base)
	}
	fetch := s.opts.Fetch
	fetch.Allow = append([]string{address.Server(u)}, fetch.Allow...)
	if s.fetcher, err = plane.NewFetcher(fetch); err != nil {
		return err
	}
	bounds := artifact.Options{
		MaxBytes: s.opts.MaxBytes, Dir: s.opts.Dir, MemoryBytes: s.opts.MemoryBytes, DiskBytes: s.opts.DiskBytes, Setting: fieldOf,
	}
	if bounds.MaxBytes == 0 {
		bounds.MaxBytes = 256 << 20
	}
	if s.store, err = artifact.Open(bounds); err != nil {
		return err
	}
	s.handler = plane.Handler(s.store, plane.HandlerOptions{Logger: s.log})
	return nil
}

// fieldOf returns the option that sets a bound of the store, for error messages.
func fieldOf(key string) string {
	fields := map[string]string{"dir": "Dir", "max_bytes": "MaxBytes", "memory_bytes": "MemoryBytes", "disk_bytes": "DiskBytes", "token_ttl": "TTL"}
	return "s2sp.Options." + fields[key]
}

// URL returns the URL of the data plane, without a trailing slash.
func (s *Server) URL() string { return s.base }

// Handler serves the data plane: POST /s2sp/data/{token} and GET /s2sp/health. Mount it if BaseURL
// is set; otherwise the Server serves it already.
func (s *Server) Handler() http.Handler { return s.handler }

// shutdownTimeout is the time that running fetches have when a server closes.
const shutdownTimeout = 2 * time.Second

// Close stops the data plane and discards the tables. It may be called more than once and returns
// the same error each time.
func (s *Server) Close() error {
	s.close.Do(func() {
		if s.http != nil {
			ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
			defer cancel()
			if err := s.http.Shutdown(ctx); err != nil {
				s.log.Warn("fetches were still running and are cut off", "after", shutdownTimeout)
				_ = s.http.Close() // cuts off the remaining fetches
			}
			if err := <-s.ended; !errors.Is(err, http.ErrServerClosed) {
				s.err = fmt.Errorf("serving the data plane: %w", err)
			}
		}
		s.err = errors.Join(s.err, s.store.Close())
	})
	return s.err
}
