package weir

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/weir-mcp/weir/internal/audit/trail"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/host/secret"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/internal/observe"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/setup/machine"
	"github.com/weir-mcp/weir/internal/store/nodestore"
	"github.com/weir-mcp/weir/internal/upstream/lineage"
	"github.com/weir-mcp/weir/internal/web"
	"github.com/weir-mcp/weir/mcp"
)

// A Config is a checked, immutable configuration.
type Config struct {
	config   *config.Config
	file     string // absolute path of its file; "" for one of Parse
	warnings []string
}

// Load reads a configuration file: weir.yaml, or the .mcp.json of an MCP client. The error lists
// every problem with its file, line and column. A mistake in one server's entry is not an error:
// Warnings names that server, the Gateway lists it as failed, and the other servers run.
func Load(path string) (*Config, error) {
	file, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	c, warnings, err := config.Load(path, configOptions())
	return read(c, file, warnings, err)
}

// Parse reads a configuration from data, as Load does from a file. Errors and warnings use name as
// the file name.
func Parse(name string, data []byte) (*Config, error) {
	c, warnings, err := config.Parse(name, data, configOptions())
	return read(c, "", warnings, err)
}

func configOptions() config.Options {
	o := config.System()
	if dir, err := config.Folder(o.LookupEnv); err == nil {
		secrets := secret.System(dir, o.LookupEnv)
		o.LookupSecret, o.SecretsFile = secrets.Lookup, secrets.Path()
	}
	o.Omit = lineage.OmitItself(config.Environ(), true)
	o.CheckProgram = gateway.CheckProgram
	return o
}

func read(c *config.Config, file string, warnings []config.Warning, err error) (*Config, error) {
	if err != nil {
		return nil, err
	}
	out := &Config{config: c, file: file}
	for _, w := range warnings {
		out.warnings = append(out.warnings, w.String())
	}
	return out, nil
}

// Warnings returns the doubtful parts of the configuration, one line each.
func (c *Config) Warnings() []string { return append([]string(nil), c.warnings...) }

// Listen returns the configured listen address, by default 127.0.0.1:8088. A Gateway does not
// listen by itself.
func (c *Config) Listen() string { return web.ListenAddress(c.config) }

// Options are the settings of a Gateway that are not in its Config. The zero value is ready to use.
type Options struct {
	// URL is the address at which clients and other servers reach the Gateway, without a path. The
	// default is http:// and the address of Config.Listen. The configuration key public_url
	// overrides both.
	URL string
	// Logger receives messages for operators, without secrets. The default discards them.
	Logger *slog.Logger
	// Version is the version that the Gateway reports to servers and clients. The default is
	// "devel".
	Version string
}

// A Gateway is a running gateway: an [http.Handler] for all paths of docs/gateway.md, with MCP at
// /mcp. Operators may change the servers of a configuration that Load has read, in the console and by
// the API: the Gateway writes the file and applies it. Its methods are safe for concurrent use.
type Gateway struct {
	gateway *gateway.Gateway
	server  *web.Server
	log     *observe.Log

	mu     sync.Mutex // held during Reload and Shutdown; guards the fields below
	closed bool
	file   string // of the configuration, "" without one
}

var _ http.Handler = (*Gateway)(nil)

// New starts the servers of a configuration and returns without waiting for them; use Ready to wait
// for the required ones. ctx bounds the start only. The caller must call Shutdown, or the server
// programs keep running.
func New(ctx context.Context, c *Config, o Options) (*Gateway, error) {
	parent, _ := config.System().LookupEnv(lineage.ParentVariable)
	lineage, err := lineage.Descend(parent, c.config.Path())
	if err != nil {
		return nil, err
	}
	handler := slog.Handler(slog.DiscardHandler)
	if o.Logger != nil {
		handler = o.Logger.Handler()
	}
	log := observe.WrapLog(handler, c.config)
	if o.Version == "" {
		o.Version = "devel"
	}
	records, err := trail.Open(ctx, c.config, o.Version, log.Logger)
	if err != nil {
		return nil, err
	}
	kept, err := nodestore.Open(ctx, c.config, log.Logger)
	if err != nil {
		records.Close()
		return nil, err
	}
	events, err := observe.OpenEvents(c.config, os.Stderr, log.Logger)
	if err != nil {
		records.Close()
		kept.Close()
		return nil, err
	}
	inner, err := gateway.New(ctx, c.config, gateway.Options{Audit: records, Store: kept, Version: o.Version, Logger: log.Logger, Environ: config.Environ(), Lineage: lineage, Events: events, Tokens: log.Tokens()})
	if err != nil {
		return nil, err
	}
	if o.URL == "" {
		o.URL = "http://" + httpserver.Dialable(c.Listen())
	}
	g := &Gateway{gateway: inner, log: log, file: c.file}
	operated := machine.Within(inner, machine.Program{File: g.configFile, Read: configOptions(), Changed: g.reread, Version: o.Version, URL: o.URL})
	g.server = web.NewHandler(inner, c.config, o.URL, operated, log.Logger)
	return g, nil
}

// ServeHTTP implements http.Handler. It refuses requests from web pages, and requests for host
// names that are not this machine's, unless http.allowed_origins and http.allowed_hosts permit
// them. Set auth.tokens if other machines can reach the Gateway.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.server.ServeHTTP(w, r) }

// MCP returns the Handler of /mcp for a transport of the caller's own. It does not check tokens.
func (g *Gateway) MCP() mcp.Handler { return g.server.MCP() }

// Ready waits until all servers marked required can be called. If one of them fails, the error
// names it and gives the reason.
func (g *Gateway) Ready(ctx context.Context) error { return g.gateway.Ready(ctx) }

// ErrClosed is returned by Reload after Shutdown.
var ErrClosed = errors.New("the gateway has been shut down")

// Reload applies a changed configuration. It restarts the servers whose entries changed; calls of
// other servers continue. Settings that need a restart of the program, such as limits, are logged. If
// the Gateway cannot use c, the error says why, and nothing has changed.
func (g *Gateway) Reload(c *Config) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ErrClosed
	}
	err := g.gateway.Reload(c.config, g.server, g.log)
	if err == nil {
		g.file = c.file
	}
	return err
}

// configFile returns the file of the current configuration, "" without one.
func (g *Gateway) configFile() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.file
}

// reread applies the configuration file that an operator has changed.
func (g *Gateway) reread() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed && g.file != "" {
		c, warnings, err := config.Load(g.file, configOptions())
		g.gateway.Reread(c, warnings, err, g.server, g.log)
	}
}

// Shutdown waits for running calls until ctx ends, then answers the rest with an error, stops the
// servers and discards all results. Call [http.Server.Shutdown] after it, not before: the
// http.Server waits for open client streams, and only the Gateway ends these.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	err := g.server.Shutdown(ctx)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), part.CloseTimeout)
	defer cancel()
	g.gateway.Close(closing)
	return err
}
