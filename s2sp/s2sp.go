// Package s2sp makes MCP servers speak S2SP, server to server: a tool that
// returns a table lets the model choose the few columns it reads, and the rest
// goes to the next tool without passing through the model.
//
//	func(ctx, In) (Rows, error)                       func(ctx, Rows) (string, error)
//	        │ AddResourceTool                                 ▲ AddConsumerTool
//	        ▼                                                 │ merged rows
//	get_alerts(area, abstract_domains, mode)          draw_chart(abstract_data, resource_url, body_data, column_mapping)
//	        │ abstract + resource_url ─▶ agent ─▶ abstract of some rows + resource_url ─▶ │
//	        └────────────── POST /s2sp/data/{token} ◀─────────────────────────────────────┘
//
// A [Server] stands beside a server of the official Go SDK and gives it a data
// plane: its own listener on loopback, which is what a server that speaks stdio
// needs, or a handler to mount where the server listens anyway. Both kinds of
// tool are ordinary MCP tools. A client that knows nothing of S2SP leaves
// abstract_domains out and gets all rows.
//
// The protocol itself is in package s2sp/plane, and what keeps the body of sync
// results away from a model in package s2sp/dispatch; this package knows how to
// make tools of them and nothing of gateways.
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

// Store keeps tables until they are fetched. *artifact.Local is one.
type Store interface {
	artifact.Tokens
	// NewTable begins a table of rows that come one after the other.
	NewTable(principal, label string, opts table.Options) *artifact.TableWriter
}

// Options configure a Server. The zero value is ready to use: a data plane of
// its own on loopback, tables in memory for ten minutes, and nobody to fetch
// from but itself.
type Options struct {
	// BaseURL is under which Handler is reached by other servers, such as
	// "http://weather.example.com:8080". Empty: the server listens itself.
	BaseURL string
	// Listen is where the server listens without a BaseURL, an address that others
	// can be told of; empty is a free port on 127.0.0.1.
	Listen string

	// Store keeps the tables; the caller closes it. Nil is a store of the
	// server's own, bounded by Artifacts: 256 MB unless MaxBytes says otherwise.
	// Beyond that, tables go to Artifacts.Dir, and without one the tool fails: a
	// table behind a resource_url is never dropped for a newer one.
	Store     Store
	Artifacts artifact.Options
	// TTL is how long a resource_url works; 0 is ten minutes.
	TTL time.Duration

	// Fetch says from which servers consumer tools fetch. The server's own data
	// plane is always allowed.
	Fetch plane.FetchOptions

	// Logger takes what happens; nil discards it.
	Logger *slog.Logger
}

// Server adds S2SP to an MCP server. It is safe for concurrent use; tools are
// added before it serves.
type Server struct {
	mcp     *mcp.Server
	opts    Options
	store   Store
	own     *artifact.Local // closed with the server
	base    string
	handler http.Handler
	fetcher *plane.Fetcher
	log     *slog.Logger

	http  *http.Server // of a data plane of its own
	ended chan error   // gives how http ended
	close sync.Once
	err   error
}

// principal owns all tables of a server: it has no principals of its own.
const principal = "s2sp"

// New gives server a data plane. The caller must Close it.
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
			_ = listener.Close() // the first error is the one to report
			return nil, fmt.Errorf("data plane at %q: that is every address of this machine, and a resource_url has to name one; listen there, or mount Handler and set BaseURL", address)
		}
	} else {
		s.base = strings.TrimSuffix(opts.BaseURL, "/")
	}
	if err := s.setUp(); err != nil {
		if listener != nil {
			_ = listener.Close() // the first error is the one to report
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

// fieldOf is where a server sets a bound of its store, for errors.
func fieldOf(key string) string {
	fields := map[string]string{
		"dir": "Dir", "max_bytes": "MaxBytes", "max_count": "MaxCount", "memory_bytes": "MemoryBytes", "disk_bytes": "DiskBytes", "ttl": "TTL", "token_ttl": "TokenTTL",
	}
	return "s2sp.Options.Artifacts." + fields[key]
}

// URL is under which the data plane is reached, without a slash at its end.
func (s *Server) URL() string { return s.base }

// Handler serves the data plane: POST /s2sp/data/{token} and GET /s2sp/health.
// It is for servers with a BaseURL; others are served already.
func (s *Server) Handler() http.Handler { return s.handler }

// Run serves one MCP session, on stdio for instance, until it or ctx ends, and
// closes the data plane. The end of ctx is a clean end.
func (s *Server) Run(ctx context.Context, transport mcp.Transport) error {
	err := s.mcp.Run(ctx, transport)
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, s.Close())
}

// shutdownTimeout is how long fetches that run may go on when a server closes.
const shutdownTimeout = 2 * time.Second

// Close ends the data plane and drops the tables. It may be called more than
// once, and gives the same error each time.
func (s *Server) Close() error {
	s.close.Do(func() {
		if s.http != nil {
			ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
			defer cancel()
			if err := s.http.Shutdown(ctx); err != nil {
				s.log.Warn("fetches were still running and are cut off", "after", shutdownTimeout)
				_ = s.http.Close() // cuts them off; there is nothing else to do
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
