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

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/address"
	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/s2sp/table"
)

// Store stores tables until they are fetched. *artifact.Local implements it.
type Store interface {
	artifact.Tokens
	// NewTable starts a table whose rows are added one by one.
	NewTable(principal, label string, opts table.Options) *artifact.TableWriter
}

// Options configure a Server. The zero value is ready to use: its own data plane on loopback,
// tables in memory for ten minutes, and no fetches from other servers.
type Options struct {
	// BaseURL is the URL at which other servers reach Handler, such as
	// "http://weather.example.com:8080". If it is empty, the Server opens its own listener.
	BaseURL string
	// Listen is the address to listen on without a BaseURL. Other servers must be able to reach it.
	// Empty means a free port on 127.0.0.1.
	Listen string

	// Store stores the tables; the caller closes it. If it is nil, the Server makes a store that
	// Artifacts bounds, by default at 256 MB. Tables beyond that go to Artifacts.Dir. Without Dir
	// the tool fails, because a table behind a resource_url is never dropped for a newer one.
	Store     Store
	Artifacts artifact.Options
	// TTL is the lifetime of a resource_url. Zero means ten minutes.
	TTL time.Duration

	// Fetch says which servers consumer tools may fetch from. The server's own data plane is always
	// allowed.
	Fetch plane.FetchOptions

	// Logger receives log records; nil discards them.
	Logger *slog.Logger
}

// Server adds S2SP to an MCP server. It is safe for concurrent use. Add tools before serving.
type Server struct {
	mcp     *mcp.Server
	opts    Options
	store   Store
	own     *artifact.Local // closed with the server
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

// New adds a data plane to a server. The caller must Close it.
func New(server *mcp.Server, opts Options) (*Server, error) {
	s := &Server{mcp: server, opts: opts, store: opts.Store, log: opts.Logger}
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
	if s.store == nil {
		own := s.opts.Artifacts
		if own.MaxBytes == 0 {
			own.MaxBytes = 256 << 20
		}
		if own.Setting == nil {
			own.Setting = fieldOf
		}
		if s.own, err = artifact.Open(own); err != nil {
			return err
		}
		s.store = s.own
	}
	s.handler = plane.Handler(s.store, plane.HandlerOptions{Logger: s.log})
	return nil
}

// fieldOf returns the option that sets a bound of the store, for error messages.
func fieldOf(key string) string {
	fields := map[string]string{
		"dir": "Dir", "max_bytes": "MaxBytes", "max_count": "MaxCount", "memory_bytes": "MemoryBytes", "disk_bytes": "DiskBytes", "ttl": "TTL", "token_ttl": "TokenTTL",
	}
	return "s2sp.Options.Artifacts." + fields[key]
}

// URL returns the URL of the data plane, without a trailing slash.
func (s *Server) URL() string { return s.base }

// Handler serves the data plane: POST /s2sp/data/{token} and GET /s2sp/health. Mount it if BaseURL
// is set; otherwise the Server serves it already.
func (s *Server) Handler() http.Handler { return s.handler }

// Run serves one MCP session, for example on stdio, until it or ctx ends, and then closes the data
// plane. It returns nil when ctx ends.
func (s *Server) Run(ctx context.Context, transport mcp.Transport) error {
	err := s.mcp.Run(ctx, transport)
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, s.Close())
}

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
		if s.own != nil {
			s.err = errors.Join(s.err, s.own.Close())
		}
	})
	return s.err
}
