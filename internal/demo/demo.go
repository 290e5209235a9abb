package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/weir-mcp/weir/s2sp"
	"github.com/weir-mcp/weir/s2sp/plane"
)

// ErrUnknownServer is returned, wrapped with the names that exist, by [Run] for a name
// that [Names] does not list.
var ErrUnknownServer = errors.New("unknown demo server")

// DefaultListen is where the HTTP server listens when [Options.Listen] is empty.
const DefaultListen = "127.0.0.1:8090"

// version is the version of the servers in serverInfo.
const version = "1.0.0"

// Options say how [Run] serves. The zero value is ready to use.
type Options struct {
	// Listen is the TCP address of a server that speaks HTTP; port 0 takes a free one.
	// Empty means [DefaultListen]. Servers that speak stdio refuse a non-empty value.
	Listen string

	// Ready, if set, is called once with the address the HTTP server listens on, before
	// the first request is accepted. It is not called for stdio.
	Ready func(net.Addr)

	// Allow lists the servers, as host:port, from whose resource_urls the chart server may
	// fetch rows: the gateway, and weather servers. Others refuse a non-empty value.
	Allow []string

	// Now is the clock for the time stamps of new notes and orders. Nil means time.Now.
	// Generated data never depends on it.
	Now func() time.Time
}

// product is one demo server: how it is built and which transport it speaks.
type product struct {
	name  string
	http  bool
	build func(now func() time.Time) *server
	// tables, if set, adds the tools that return or take tables, on a data plane of their own.
	tables func(server *server, s *s2sp.Server)
	fetch  bool // takes tables from other servers
}

func products() []product {
	return []product{
		{name: "chart", build: newChart, tables: addChartTools, fetch: true},
		{name: "inventory", http: true, build: newInventory},
		{name: "notes", build: newNotes},
		{name: "weather", build: newWeather, tables: addAlertTools},
	}
}

// Names lists the demo servers in alphabetical order.
func Names() []string {
	var names []string
	for _, p := range products() {
		names = append(names, p.name)
	}
	return names
}

// Run serves the demo server called name until ctx ends or, for a stdio server, until stdin does.
// Both are a clean end and give nil. Messages are read from stdin and written to stdout by stdio
// servers only; a stdin that is an [io.Closer] is closed, which ends the reading goroutine, and
// stdout is never closed. A nil logger discards.
//
// The error wraps [ErrUnknownServer] for a name that does not exist; other errors come from
// the address or the streams. Several calls may run concurrently and share nothing.
func Run(ctx context.Context, name string, opts Options, stdin io.Reader, stdout io.Writer, logger *slog.Logger) error {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	for _, p := range products() {
		if p.name != name {
			continue
		}
		logger := logger.With("demo", p.name)
		if len(opts.Allow) > 0 && !p.fetch {
			return fmt.Errorf("demo server %q fetches nothing from others: leave out --allow", name)
		}
		if opts.Listen != "" && !p.http {
			return fmt.Errorf("demo server %q speaks stdio and cannot listen on %q: leave out --listen", name, opts.Listen)
		}
		return p.run(ctx, opts, stdin, stdout, logger)
	}
	return fmt.Errorf("%w %q: there are %s", ErrUnknownServer, name, strings.Join(Names(), ", "))
}

// run builds the server and serves it.
func (p product) run(ctx context.Context, opts Options, stdin io.Reader, stdout io.Writer, logger *slog.Logger) error {
	server := p.build(opts.Now)
	defer server.close()
	var tables *s2sp.Server
	if p.tables != nil {
		var err error
		if tables, err = s2sp.New(s2sp.Options{Fetch: plane.FetchOptions{Allow: opts.Allow}, Logger: logger}); err != nil {
			return fmt.Errorf("demo server %q: %w", p.name, err)
		}
		p.tables(server, tables)
	}
	handler, err := server.handler()
	switch {
	case err != nil:
	case p.http:
		err = serveHTTP(ctx, handler, opts, logger)
	default:
		err = serveStdio(ctx, handler, stdin, stdout, logger)
	}
	if tables != nil {
		err = errors.Join(err, tables.Close())
	}
	return err
}
