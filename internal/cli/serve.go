package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/config"
)

func (a *app) serveCommand() *cobra.Command {
	var path, listen, mode, snapshot string
	var stdio, strict bool
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
else answers, passwords without showing them.

The first Ctrl-C or SIGTERM lets running calls finish, up to 4.5 seconds; the
second ends weir at once.`,
		Example: `  weir serve --config examples/quickstart/weir.yaml
  weir serve --listen 127.0.0.1:0 --mode proxy
  weir serve --catalog examples/catalog.json
  claude mcp add weir -- weir serve --stdio --config ~/weir.yaml`,
		Args: positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts := a.configOptions(cmd.Context())
			opts.Listen, opts.Mode, opts.Strict = listen, config.Mode(mode), strict
			if mode != "" && opts.Mode != config.ModeGateway && opts.Mode != config.ModeProxy {
				return failf(exitUsage, "--mode %q: it must be gateway or proxy", mode)
			}
			if stdio && cmd.Flags().Changed("listen") {
				return failf(exitUsage, "--stdio and --listen: a gateway on standard input and output has no address")
			}
			return a.serve(cmd.Context(), path, snapshot, opts, stdio)
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration (default: weir.yaml, weir.yml, weir.json or .mcp.json of this folder)")
	cmd.Flags().BoolVar(&strict, "strict", false, "refuse a configuration in which the entry of one server is wrong")
	cmd.Flags().StringVar(&listen, "listen", "", "address to listen on, in place of the configuration's; port 0 takes a free one")
	cmd.Flags().StringVar(&mode, "mode", "", "gateway or proxy, in place of the configuration's")
	oneOf(cmd, "mode", string(config.ModeGateway), string(config.ModeProxy))
	cmd.Flags().BoolVar(&a.redact, "redact", false, "replace secrets in results too, as artifacts.redact does")
	cmd.Flags().StringVar(&snapshot, "catalog", "", "serve the tools, resources and prompts of this JSON file, too; without --config, them alone")
	cmd.Flags().BoolVar(&stdio, "stdio", false, "speak MCP on standard input and output")
	return cmd
}

// How much time there is from the first signal on. Running calls are answered
// before drainTimeout has passed, by an error if need be, and the process has
// ended before endTimeout has.
const (
	drainTimeout = 4500 * time.Millisecond
	endTimeout   = 4750 * time.Millisecond
)

// serve runs until ctx ends, which the first signal does.
func (a *app) serve(ctx context.Context, path, snapshot string, opts config.Options, stdio bool) error {
	opts.Omit = a.omit(!stdio)
	first := opts
	if !stdio { // there, standard input is the client's
		first.Inputs = a.asking(ctx)
	}
	path, c, err := a.load(path, snapshot, first)
	if err != nil {
		return err
	}
	if a.lineage, err = a.descend(path); err != nil {
		return err
	}
	file, err := openSnapshot(snapshot, c)
	if err != nil {
		return err
	}
	if _, err := signerOf(c); err != nil {
		return &failure{exitUsage, err}
	}
	logger := newLogger(a.stderr.Writer, c)
	var listener *gate
	if !stdio {
		// Before upstreams are started: an address in use is known at once.
		if listener, err = openGate(ctx, listenOf(c)); err != nil {
			return err
		}
		defer listener.Close()
	}
	events, err := a.openEvents(c, logger.Logger)
	if err != nil {
		return err
	}
	e, err := newEngine(c, a, logger.Logger, events)
	if err != nil {
		return err
	}
	e.serveFile(file)
	e.meaning.start(e.live)
	var end ending
	defer func() { e.close(end.left()) }()
	if e.offices, err = a.openOffices(ctx, c, e); err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), end.left())
		defer cancel()
		e.offices.close(closing)
	}()
	if err := e.requiredReady(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // ended by a signal before it began
		}
		return &failure{exitUnavailable, err}
	}
	var face face
	if stdio {
		face = newStdioFace(e, c, a, logger)
	} else {
		face = newHTTPFace(e, c, listener, logger)
	}
	if err := face.start(); err != nil {
		return err
	}
	watching, stopWatching := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer func() { stopWatching(); beside.Wait() }()
	beside.Go(func() { a.followConfig(watching, c, path, opts, e, face, logger) })
	beside.Go(func() { a.trimMemory(watching) })
	if !stdio {
		defer a.announce(path, listener.Addr(), e, logger.Logger)()
		a.welcome(c, listener.Addr(), path, snapshot)
	}
	select {
	case <-ctx.Done():
	case <-face.done():
	}
	stopWatching()
	logger.Info("shutting down", "upstreams", len(e.manager.Names()))
	return end.drain(ctx, face)
}

// openGate listens on an address for the HTTP face.
func openGate(ctx context.Context, addr string) (*gate, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, cannotListen(addr, err, "pass another address with --listen (127.0.0.1:0 takes a free port, and shell commands find it), or set listen in the configuration")
	}
	return &gate{TCPListener: l.(*net.TCPListener)}, nil
}

// An ending is the time in which a gateway ends. Until the first signal it is
// open, and what ends for another reason has closeTimeout for each part.
type ending struct{ deadline time.Time }

// left is how long a part may take now.
func (e *ending) left() time.Duration {
	if e.deadline.IsZero() {
		return closeTimeout
	}
	return max(time.Until(e.deadline), 0)
}

// drain begins the end: it lets the calls of a face finish. A second signal cuts
// it short, and leaves no time for anything else.
func (e *ending) drain(ctx context.Context, f face) error {
	began := time.Now()
	e.deadline = began.Add(endTimeout)
	hurry, stop := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt, syscall.SIGTERM)
	defer stop()
	draining, cancel := context.WithDeadline(hurry, began.Add(drainTimeout))
	defer cancel()
	err := f.shutdown(draining)
	if hurry.Err() != nil {
		e.deadline = time.Now()
	}
	return err
}

// A face is how a running gateway is reached.
type face interface {
	start() error
	// done is closed when the face has ended by itself.
	done() <-chan struct{}
	// apply takes over a reloaded configuration, after the engine has.
	apply(old, new *config.Config)
	// shutdown lets running calls finish until ctx ends and answers the rest
	// with an error. Everything of the face has ended when it returns.
	shutdown(ctx context.Context) error
}

// cannotListen says why an address cannot be listened on, and what to do.
func cannotListen(addr string, err error, instead string) error {
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
	return failf(exitUsage, "cannot listen on %s: %s (%w); %s", addr, why, err, instead)
}

// welcome tells a person what to do now. Programs look for the line with the
// URL.
func (a *app) welcome(c *config.Config, addr net.Addr, path, snapshot string) {
	out := a.stdout
	base := "http://" + dialable(addr.String())
	line := func(label, text string) { fmt.Fprintf(out, "  %-10s %s\n", label, text) }
	fmt.Fprintf(out, "\n%s\n\n", out.paint(bold, "weir is running, "+counted(len(c.Enabled()), "server")+" behind it"))
	line("URL", out.paint(cyan, base+"/mcp"))
	if c.PublicURL != "" {
		line("public", c.PublicURL)
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
	fmt.Fprintf(out, "\nPaste the URL into an MCP client, or in another shell: weir ls --url %s/mcp\nCtrl-C ends it.\n\n", base)
}
