package weir

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"sync"

	"github.com/weir-mcp/weir/internal/app"
	"github.com/weir-mcp/weir/internal/app/web"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/mcp"
)

// A Config is a configuration that has been read and checked. It never changes.
type Config struct {
	config   *config.Config
	warnings []string
}

// Load reads the configuration of a file: weir.yaml, or the .mcp.json of an MCP client. The error
// lists every problem, each with its file, line and column. A server whose own entry is wrong is no
// error: it is listed as failed, Warnings names it, and the others run.
func Load(path string) (*Config, error) {
	c, warnings, err := config.Load(path, configOptions())
	return read(c, warnings, err)
}

// Parse reads a configuration as Load does. Messages call it by its name.
func Parse(name string, data []byte) (*Config, error) {
	c, warnings, err := config.Parse(name, data, configOptions())
	return read(c, warnings, err)
}

func configOptions() config.Options {
	o := config.System()
	o.Omit = app.OmitItself(config.Environ(), true)
	return o
}

func read(c *config.Config, warnings []config.Warning, err error) (*Config, error) {
	if err != nil {
		return nil, err
	}
	out := &Config{config: c}
	for _, w := range warnings {
		out.warnings = append(out.warnings, w.String())
	}
	return out, nil
}

// Warnings returns what is questionable in the configuration, a line for each.
func (c *Config) Warnings() []string { return append([]string(nil), c.warnings...) }

// Listen returns the address that the configuration has a gateway listen on, 127.0.0.1:8088 where it
// names none. A Gateway does not listen by itself.
func (c *Config) Listen() string { return app.ListenAddress(c.config) }

// Options are what a Gateway is given in addition to its Config. The zero value serves.
type Options struct {
	// URL is where clients and other servers reach the Gateway, without a path. The default is http:// and
	// the address of Config.Listen; public_url of the configuration comes before both.
	URL string
	// Logger receives what operators need to know, without secrets. The default writes nothing.
	Logger *slog.Logger
	// Version is what the Gateway tells servers and clients of its version. The default is "devel".
	Version string
}

// A Gateway is a running gateway: an [http.Handler] of all paths that docs/gateway.md names, with MCP
// at /mcp. All methods may be called at the same time.
type Gateway struct {
	engine *app.Engine
	server *web.Server
	log    *app.Log

	mu     sync.Mutex // held during Reload and Shutdown; guards below
	closed bool
}

var _ http.Handler = (*Gateway)(nil)

// New starts the servers of a configuration and returns at once; Ready waits for the required ones.
// ctx bounds the start alone. The caller must call Shutdown, or the programs of servers go on running.
func New(ctx context.Context, c *Config, o Options) (*Gateway, error) {
	parent, _ := config.System().LookupEnv(app.ParentVariable)
	lineage, err := app.Descend(parent, c.config.Path())
	if err != nil {
		return nil, err
	}
	handler := slog.Handler(slog.DiscardHandler)
	if o.Logger != nil {
		handler = o.Logger.Handler()
	}
	log := app.WrapLog(handler, c.config)
	events, err := app.OpenEvents(c.config, os.Stderr, log.Logger)
	if err != nil {
		return nil, err
	}
	if o.Version == "" {
		o.Version = "devel"
	}
	engine, err := app.New(ctx, c.config, app.Options{Version: o.Version, Logger: log.Logger, Environ: config.Environ(), Lineage: lineage, Events: events})
	if err != nil {
		return nil, err
	}
	if o.URL == "" {
		o.URL = "http://" + app.Dialable(c.Listen())
	}
	return &Gateway{engine: engine, server: web.NewHandler(engine, c.config, o.URL, log.Logger), log: log}, nil
}

// ServeHTTP implements http.Handler. Requests from web pages and for other host names than those of
// this machine are refused unless http.allowed_origins and http.allowed_hosts of the configuration
// name them. A Gateway that other machines reach needs auth.tokens.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.server.ServeHTTP(w, r) }

// MCP returns the Handler of /mcp, for transports of the caller's own. It asks for no token.
func (g *Gateway) MCP() mcp.Handler { return g.server.MCP() }

// Ready waits until the servers that are marked required can be called. If one of them cannot, the
// error names it and says why.
func (g *Gateway) Ready(ctx context.Context) error { return g.engine.Ready(ctx) }

// ErrClosed is returned by Reload after Shutdown.
var ErrClosed = errors.New("the gateway has been shut down")

// Reload applies a changed configuration. Servers whose entries changed are started again; calls of
// the others do not notice. Settings that wait for a restart, such as limits, are logged.
func (g *Gateway) Reload(c *Config) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ErrClosed
	}
	g.engine.Reload(c.config, g.server, g.log)
	return nil
}

// Shutdown lets running calls finish until ctx ends and answers the rest with an error. Then it ends
// the servers and forgets all results. Call [http.Server.Shutdown] after it, not before: open streams
// of clients end only with the Gateway, and the http.Server waits for them.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	err := g.server.Shutdown(ctx)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), app.CloseTimeout)
	defer cancel()
	g.engine.Close(closing)
	return err
}
