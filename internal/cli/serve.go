package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/audit/trail"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/observe"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/policy"
	"github.com/weir-mcp/weir/internal/setup"
	"github.com/weir-mcp/weir/internal/setup/doctor"
	"github.com/weir-mcp/weir/internal/setup/machine"
	"github.com/weir-mcp/weir/internal/setup/service"
	"github.com/weir-mcp/weir/internal/store/nodestore"
	"github.com/weir-mcp/weir/internal/upstream/lineage"
	"github.com/weir-mcp/weir/internal/web"
	"github.com/weir-mcp/weir/internal/web/api"
)

func serveCommand(a *process) *cobra.Command {
	var path, listen, mode, snapshot, logFormat, envFile, logFile string
	var stdio, strict bool
	var profile string
	var idle time.Duration
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway",
		Long: `Run the gateway. Without --config it uses weir.yaml, weir.yml, weir.json or
.mcp.json of this folder. It prints the URL for MCP clients once it can be called;
upstreams start meanwhile. A changed configuration is applied while it runs. A
server whose entry is wrong, such as one that needs a variable that is not set, is
listed as failed, and the others run.

  /mcp              the gateway, streamable HTTP in every protocol version
  /sse, /messages   the gateway, HTTP+SSE of 2024-11-05
  /mcps/NAME/mcp    one upstream, unchanged; /mcps/NAME/task?taskId= for its tasks
  /socket.io/       the hub of A2C-SMCP (/smcp/ too), for weir computer and others, where
                    the configuration has hub:
  /agents           agent servers register themselves here (weir agent --router)
  /status           a page with each agent's health and queue; /status/data as JSON
  /s2sp/data/TOKEN  tables on their way from server to server (docs/s2sp.md)
  /console          a page with servers, catalog, live calls, offices and tables
  /api/v1/          for operators: weir restart, logs and approve
  /healthz          state of everything, JSON
  /stats            calls and tokens, JSON (see weir stats)
  /metrics          the same for Prometheus
  /catalog          the catalog's hash and what has changed, JSON
  /                 a page for people

With --stdio it speaks MCP on standard input and output instead, for clients
that start servers as commands, and prints nothing else there.

With --catalog it serves the entries of a JSON file as well: a list of tools, or
an object with tools, resources and prompts. What the file has texts for can be
read; executing its tools needs an upstream, which the error says.

Started from a terminal, it asks for the inputs of the configuration that nothing
else answers, passwords without showing them. It prints a line for each server as
it comes up, and later what changes; elsewhere it logs lines of key=value. See
--log-format.

The first Ctrl-C or SIGTERM lets running calls finish, up to 4.5 seconds; the
second ends weir at once.`,
		Example: `  weir serve --config examples/quickstart/weir.yaml
  weir serve --listen 127.0.0.1:0 --mode proxy
  weir serve --catalog examples/catalog.json
  claude mcp add weir -- weir serve --stdio --config ~/weir.yaml`,
		Args: positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := useEnvFile(envFile); err != nil {
				return err
			}
			if err := useLogFile(a, logFile); err != nil {
				return err
			}
			opts := configOptions(a, cmd.Context())
			opts.Listen, opts.Mode, opts.Strict = listen, config.Mode(mode), strict
			if mode != "" && !slices.Contains(config.Modes, opts.Mode) {
				return failf(exitUsage, "--mode %q: it must be auto, plain, gateway or proxy", mode)
			}
			if stdio && cmd.Flags().Changed("listen") {
				return failf(exitUsage, "--stdio and --listen: a gateway on standard input and output has no address")
			}
			if profile != "" && !stdio {
				return failf(exitUsage, "--profile is for --stdio; over HTTP, a profile is at /mcp/%s", profile)
			}
			if idle < 0 || idle > 0 && stdio {
				return failf(exitUsage, "--idle-exit needs a positive time, and a gateway that listens")
			}
			switch logFormat {
			case "", config.LogAuto, config.LogText, config.LogJSON:
			default:
				return failf(exitUsage, "--log-format %q: it must be auto, text or json", logFormat)
			}
			return runServe(a, cmd.Context(), serveRequest{path, snapshot, logFormat, opts, stdio, idle, profile})
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration (default: weir.yaml, weir.yml, weir.json or .mcp.json of this folder)")
	cmd.Flags().BoolVar(&strict, "strict", false, "refuse a configuration in which the entry of one server is wrong")
	cmd.Flags().StringVar(&listen, "listen", "", "address to listen on, in place of the configuration's; port 0 takes a free one")
	cmd.Flags().StringVar(&mode, "mode", "", "auto, plain, gateway or proxy, in place of the configuration's")
	oneOf(cmd, "mode", string(config.ModeAuto), string(config.ModePlain), string(config.ModeGateway), string(config.ModeProxy))
	cmd.Flags().StringVar(&logFormat, "log-format", "", "auto, text or json, in place of the configuration's log.format")
	cmd.Flags().StringVar(&logFile, "log-file", "", "append the log to this file; a full one (4 MB) is set aside as FILE.old")
	cmd.Flags().StringVar(&envFile, "env-file", "", "set the variables of this file, lines of NAME=VALUE, before anything is read")
	oneOf(cmd, "log-format", config.LogAuto, config.LogText, config.LogJSON)
	cmd.Flags().BoolVar(&a.redact, "redact", false, "also replace secrets in results, as artifacts.redact does")
	cmd.Flags().StringVar(&snapshot, "catalog", "", "also serve the tools, resources and prompts of this JSON file; without --config, serve only them")
	cmd.Flags().DurationVar(&idle, "idle-exit", 0, "end this long after the last client has left, such as 30m; takes a free port if the default one is taken")
	cmd.Flags().BoolVar(&stdio, "stdio", false, "speak MCP on standard input and output")
	cmd.Flags().StringVar(&profile, "profile", "", "with --stdio: a profile of the configuration, in place of the whole catalog")
	return cmd
}

// Time limits that start with the first signal. Running calls are answered within drainTimeout,
// with an error if necessary. The process ends within endTimeout.
const (
	drainTimeout = 4500 * time.Millisecond
	endTimeout   = 4750 * time.Millisecond
)

// loadConfig reads the configuration for serve. With a snapshot file and without --config there is
// no configuration: only the snapshot is served. A configuration that was found in this folder is
// refused before the person has agreed to it; opts then also refuses later changes.
func loadConfig(a *process, ctx context.Context, r serveRequest, opts *config.Options) (string, *config.Config, error) {
	path, snapshot := r.path, r.snapshot
	ask := !r.stdio // with --stdio, standard input belongs to the client
	if snapshot != "" && path == "" {
		c, warnings, err := config.Parse("", []byte("mcpServers: {}\n"), *opts)
		if err == nil {
			return "", c, nil
		}
		warn(a.stderr, warnings)
		return "", nil, err
	}
	found, err := findConfig(a.lookupEnv, path)
	if err == nil {
		// First, so that a weir that was started by a weir of this file says that, and not that the
		// file needs an agreement.
		_, err = descend(a.lookupEnv, found.path)
	}
	if err == nil {
		err = found.agree(a, ctx, ask)
	}
	if err != nil {
		return "", nil, err
	}
	found.guard(opts)
	first := *opts
	if ask {
		first.Inputs = askInputs(a, ctx)
	}
	c, warnings, err := config.Load(found.path, first)
	if of := ofAgent(found.path, err); of != nil {
		return found.path, nil, of
	}
	if err == nil && forPeople(a.stderr, c, r.logFormat) {
		warnings = untold(c, warnings)
	}
	warn(a.stderr, warnings)
	return found.path, c, err
}

// serveRequest is a request of weir serve.
type serveRequest struct {
	path      string // of the configuration; empty means the one of this folder
	snapshot  string // a file with entries; may be empty
	logFormat string // in place of log.format; may be empty
	opts      config.Options
	stdio     bool
	idle      time.Duration // 0 never ends
	profile   string        // of a client on standard input; "" is the whole catalog
}

// runServe serves until ctx ends; the first signal ends it.
func runServe(a *process, ctx context.Context, r serveRequest) error {
	snapshot, opts, stdio, idle := r.snapshot, r.opts, r.stdio, r.idle
	opts.Omit = lineage.OmitItself(a.environ(), !stdio)
	key, keyErr := operatorKey(a.lookupEnv, ctx, stdio)
	opts.Secrets = []string{key}
	path, c, err := loadConfig(a, ctx, r, &opts)
	if err != nil {
		return err
	}
	if r.profile != "" && !policy.OpensProfile(c, r.profile, identity.From(ctx)) {
		return failf(exitUsage, "--profile: %w", policy.NoProfile(r.profile))
	}
	lineage, err := descend(a.lookupEnv, path)
	if err != nil {
		return err
	}
	file, err := gateway.OpenSnapshot(snapshot, c)
	if err != nil {
		return err
	}
	logger, lines := newLog(a.stderr, c, r.logFormat)
	if keyErr != nil {
		logger.Warn("weir restart, logs and approve cannot reach this gateway: it has no operator's key", "err", keyErr)
	}
	var listener *web.Listener
	if !stdio {
		// Listen before upstreams start, so that an address in use is reported at once.
		if listener, err = listenFor(ctx, c, opts.Listen, idle > 0); err != nil {
			return err
		}
		defer listener.Close()
		if err := listener.Secure(ctx, c.TLS, logger.Logger); err != nil {
			return err
		}
	}
	records, err := trail.Open(ctx, c, a.version, logger.Logger)
	if err != nil {
		return err
	}
	kept, err := nodestore.Open(ctx, c, logger.Logger)
	if err != nil {
		records.Close()
		return err
	}
	events, err := observe.OpenEvents(c, a.stderr.Writer, logger.Logger)
	if err != nil {
		records.Close()
		kept.Close()
		return err
	}
	g, err := gateway.New(ctx, c, gateway.Options{
		Audit: records, Store: kept, Version: a.version, Logger: logger.Logger, Environ: a.environ(), Lineage: lineage, RedactResults: a.redact, Events: events, File: file,
		OperatorKey: identity.Secret(key),
		Credentials: openCredentials(a, c), Tokens: logger.Tokens(),
	})
	if err != nil {
		return err
	}
	var end shutdownTimer
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), end.left())
		defer cancel()
		g.Close(closing)
	}()
	watching, stopWatching := context.WithCancel(ctx)
	var background sync.WaitGroup
	defer func() { stopWatching(); background.Wait() }()
	var servers *roster
	if lines != nil {
		servers = newRoster(lines, g.Health, logger.Clean, time.Now)
		background.Go(func() { servers.run(watching) })
	}
	if err := g.Ready(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // a signal came during the start
		}
		return &failure{exitUnavailable, err}
	}
	var f face
	var unused <-chan struct{} // closed when the gateway is to end because it has no clients
	var token string
	if stdio {
		if link, _ := kept.Node().Listener(); link != nil {
			_ = link.Close() // a gateway at standard input has no session of other nodes
		}
		f = newStdioFace(g, c, a, logger, r.profile)
	} else {
		var operated api.Machine
		if path != "" {
			operated = machineOf(a, g, listener.Local()+"/mcp", path, opts)
		}
		server := web.New(g, c, listener, operated, logger.Logger)
		if f, token = server, server.Token(); idle > 0 {
			unused = server.Idle(idle)
		}
	}
	f.Start()
	if path != "" {
		background.Go(func() { g.Follow(watching, opts, f, logger) })
	}
	background.Go(func() { keepMemory(a.lookupEnv, watching) })
	if !stdio {
		defer announceGateway(a, path, listener, g.Run.Instance, token, logger.Logger)()
		end.tell = tellManager(a, logger.Logger)
		headline := "weir is running, " + counted(len(c.Enabled()), "server") + " behind it"
		if servers != nil && a.stdout.screen() {
			servers.await(ctx, a)
			headline = "weir is running, " + servers.summary()
		}
		welcome(a.stdout, c, headline, listener, path, snapshot)
	}
	select {
	case <-ctx.Done():
	case <-unused:
		logger.Info(logUnused, "idle", idle)
	case <-f.Done():
	}
	stopWatching()
	// The next signal counts from here on: a person who reads the line of the log may send it at once.
	hurry, stop := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt, syscall.SIGTERM)
	defer stop()
	logger.Info(logStopping, "upstreams", len(g.Upstreams()))
	return end.drain(hurry, f, drainTime(g.Config(), !stdio))
}

// machineOf returns the operations by which operators change the machine of a running gateway.
func machineOf(a *process, g *gateway.Gateway, url, path string, opts config.Options) api.Machine {
	return machine.New(g, machine.Options{
		Open: func() (*setup.Machine, error) { return a.machine(path) },
		Examine: func(ctx context.Context, only string) (doctor.Setup, error) {
			d := &examination{a: a, setup: doctor.Setup{Only: only}}
			err := d.prepare(ctx, path)
			return d.setup, err
		},
		Read: opts, LookupEnv: a.lookupEnv, Version: a.version, URL: url, Connects: true,
	})
}

// listenFor listens for a gateway. One in the background takes a free port if another program has the
// default one; its clients find it by its run file.
func listenFor(ctx context.Context, c *config.Config, flag string, background bool) (*web.Listener, error) {
	listener, err := web.Listen(ctx, web.ListenAddress(c))
	if err != nil && background && flag == "" && "http://"+c.Listen+"/mcp" == defaultURL {
		return web.Listen(ctx, "127.0.0.1:0")
	}
	return listener, err
}

// keepMemory limits the memory of this process until ctx ends.
func keepMemory(lookupEnv func(string) (string, bool), ctx context.Context) {
	if _, set := lookupEnv("GOMEMLIMIT"); !set {
		memory.BoundHeap()
	}
	memory.ReturnMemory(ctx)
}

// A shutdownTimer is the remaining time of a shutdown. It starts with the first signal; without a
// signal the limit is part.CloseTimeout.
type shutdownTimer struct {
	deadline time.Time
	tell     func(state string) // tells the manager of services; may be nil
}

// left returns the time that the next step may take.
func (e *shutdownTimer) left() time.Duration {
	if e.deadline.IsZero() {
		return part.CloseTimeout
	}
	return max(time.Until(e.deadline), 0)
}

// drainTime returns how long a gateway waits for its running calls. Those of a node of a cluster may take
// longer, because other nodes take new ones meanwhile.
func drainTime(c *config.Config, listens bool) time.Duration {
	if listens && c.Store.Shared() {
		return max(drainTimeout, c.Cluster.Drain)
	}
	return drainTimeout
}

// drain starts the shutdown: it waits for the running calls of a face, at most patience. The end of hurry,
// which is a second signal, ends the wait and all later ones.
func (e *shutdownTimer) drain(hurry context.Context, f face, patience time.Duration) error {
	if e.tell != nil {
		e.tell(service.Ending)
	}
	began := time.Now()
	e.deadline = began.Add(patience + endTimeout - drainTimeout)
	draining, cancel := context.WithDeadline(hurry, began.Add(patience))
	defer cancel()
	err := f.Shutdown(draining)
	if hurry.Err() != nil {
		e.deadline = time.Now()
	}
	return err
}

// A face serves a gateway to clients, over HTTP or standard input and output.
type face interface {
	gateway.Face
	Start()
	// Done is closed when the face has stopped by itself.
	Done() <-chan struct{}
	// Shutdown waits for running calls until ctx ends and answers the rest with an error. When it
	// returns, the face has stopped.
	Shutdown(ctx context.Context) error
}

// welcome tells a person how to use the gateway. Programs search its output for the line with the
// URL, which comes first.
func welcome(stdout terminal, c *config.Config, headline string, listener *web.Listener, path, snapshot string) {
	out := stdout
	base := listener.URL()
	line := func(label, text string) { fmt.Fprintf(out, "  %-10s %s\n", label, text) }
	fmt.Fprintf(out, "\n%s\n\n", out.paint(bold, headline))
	line("URL", out.paint(cyan, base+"/mcp"))
	if c.PublicURL != "" {
		line("public", c.PublicURL)
	}
	if local := listener.Local(); local != base {
		line("local", local+"/mcp, for programs of this machine")
	}
	line("page", base+"/")
	line("mode", string(c.Mode))
	if absolute, err := filepath.Abs(path); err == nil && path != "" {
		path = absolute
	}
	if path != "" {
		line("config", path)
	}
	if snapshot != "" {
		line("catalog", snapshot)
	}
	if len(c.Auth.Tokens) > 0 {
		line("access", fmt.Sprintf("with a bearer token (%d known)", len(c.Auth.Tokens)))
	}
	if n := len(c.Auth.Issuers); n > 0 {
		line("issuers", fmt.Sprintf("tokens of %s", counted(n, "issuer")))
	}
	if c.TLS.ClientCA != "" {
		line("access", "with a client certificate")
	}
	fmt.Fprintf(out, "\nPaste the URL into an MCP client, or in another shell: weir ls --url %s/mcp\nCtrl-C ends it.\n\n", listener.Local())
}
