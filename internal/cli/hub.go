package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/guard"
	"github.com/weir-mcp/weir/internal/memory"
	"github.com/weir-mcp/weir/smcp/hub"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// defaultHubListen is where a hub listens that runs alone.
const defaultHubListen = "127.0.0.1:8089"

// hubFlags are the flags of weir hub.
type hubFlags struct {
	config, listen, cert, key string
	tokens                    []string
	strict                    bool
}

func (a *app) hubCommand() *cobra.Command {
	var f hubFlags
	cmd := &cobra.Command{
		Use:   "hub",
		Short: "Run an A2C-SMCP hub alone",
		Long: `Run the hub without a gateway: Computers and agents meet at it in offices. weir
serve has one built in; this is for a machine that both sides can reach.

Without tokens only peers on this machine are let in, and Computers whose key
the configuration names under hub.computers. Put TLS before anything that other
machines reach: --tls-cert and --tls-key, or a proxy.

  /socket.io/, /smcp/   Socket.IO, namespace /smcp
  /healthz              who is there, JSON, for those whom the hub lets in
                        everywhere; {"status":"ok"} for others`,
		Example: `  weir hub --listen 127.0.0.1:8089
  weir hub --listen 0.0.0.0:8443 --tls-cert hub.pem --tls-key hub.key --token "$TOKEN"`,
		Args: positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runHub(cmd.Context(), f) },
	}
	cmd.Flags().StringVar(&f.config, "config", "", "configuration with a hub section (default: none)")
	cmd.Flags().StringVar(&f.listen, "listen", "", "address to listen on (default: hub.listen, or "+defaultHubListen+")")
	cmd.Flags().StringVar(&f.cert, "tls-cert", "", "PEM file with the certificate")
	cmd.Flags().StringVar(&f.key, "tls-key", "", "PEM file with its private key")
	cmd.Flags().StringArrayVar(&f.tokens, "token", nil, "a token that lets in, in any role and office; may be repeated")
	cmd.Flags().BoolVar(&f.strict, "strict-version", false, "refuse peers that say no a2c_version")
	return cmd
}

// hubConfig is the configuration of a hub that runs alone.
func (a *app) hubConfig(ctx context.Context, f hubFlags) (*config.Config, error) {
	opts := a.configOptions(ctx)
	var c *config.Config
	var warnings []config.Warning
	var err error
	if f.config != "" {
		c, warnings, err = config.Load(f.config, opts)
	} else {
		c, _, err = config.Parse("weir.yaml", []byte("hub: {}\n"), opts)
	}
	a.warn(warnings)
	if err != nil {
		return nil, err
	}
	if err := f.override(c); err != nil {
		return nil, err
	}
	return c, nil
}

// override puts what the flags say into a configuration.
func (f *hubFlags) override(c *config.Config) error {
	if f.cert != "" || f.key != "" {
		c.Hub.TLS = config.HubTLS{Cert: f.cert, Key: f.key}
	}
	if (c.Hub.TLS.Cert == "") != (c.Hub.TLS.Key == "") {
		return failf(exitUsage, "--tls-cert and --tls-key go together")
	}
	for i, token := range f.tokens {
		sum := sha256.Sum256([]byte(token))
		c.Hub.Tokens = append(c.Hub.Tokens, config.HubToken{Name: fmt.Sprintf("--token %d", i+1), SHA256: hex.EncodeToString(sum[:])})
	}
	c.Hub.StrictVersion = c.Hub.StrictVersion || f.strict
	switch {
	case f.listen != "":
		c.Hub.Listen = f.listen
	case c.Hub.Listen == "":
		c.Hub.Listen = defaultHubListen
	}
	return nil
}

// followHub applies who may connect from changes of the configuration until ctx
// ends.
func (a *app) followHub(ctx context.Context, f hubFlags, c *config.Config, current *atomic.Pointer[config.Config], h *hub.Hub, logger *logging) {
	err := config.Watch(ctx, c, a.configOptions(ctx), func(next *config.Config, warnings []config.Warning, err error) {
		for _, w := range warnings {
			logger.Warn("configuration", "at", w.String())
		}
		var auth hub.Static
		if err == nil {
			err = f.override(next)
		}
		if err == nil {
			auth, err = hubAccess(next, func() *config.Auth { return &current.Load().Auth })
		}
		if err != nil {
			logger.Error("the new configuration is not used; the old one stays", "err", err)
			return
		}
		if _, waits := divided([]string{"hub"}, current.Load(), next); len(waits) > 0 {
			logger.Warn("of hub, only tokens and computers are applied; the rest keeps its old values until weir is restarted")
		}
		current.Store(next)
		h.SetAccess(auth, auth.Devices)
		logger.Info("the configuration has changed and is applied", "tokens", len(auth.Tokens), "computers", len(auth.Devices))
	})
	if err != nil {
		logger.Warn("changes of the configuration are not seen any more; restart weir to apply them", "err", err)
	}
}

func (a *app) runHub(ctx context.Context, f hubFlags) error {
	c, err := a.hubConfig(ctx, f)
	if err != nil {
		return err
	}
	logger := newLogger(a.stderr.Writer, c)
	var current atomic.Pointer[config.Config]
	current.Store(c)
	// What a hub passes on it holds for moments, so that nothing of it goes to files.
	pool := memory.NewPool(memory.Options{Limit: memoryLimit(int64(c.Limits.Memory), groupLimit()), Logger: logger.Logger})
	opts, err := hubOptions(c, func() *config.Auth { return &current.Load().Auth }, pool, logger.Logger)
	if err != nil {
		return err
	}
	l, err := hubListener(ctx, c.Hub.Listen, c.Hub.TLS)
	if err != nil {
		return err
	}
	h := hub.New(opts)
	server := hubServer(hubMux(h, c, logger.Logger), logger.Logger)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	scheme := "http"
	if c.Hub.TLS.Cert != "" {
		scheme = "https"
	}
	base := scheme + "://" + dialable(l.Addr().String())
	known := strconv.Itoa(len(c.Hub.Tokens)) + " known"
	if len(c.Hub.Tokens) == 0 {
		known = "none: only peers on this machine, and Computers with a known key, are let in"
	}
	fmt.Fprintf(a.stdout, "\n%s\n\n  %-10s %s\n  %-10s %s\n\nOn the machine with the tools: weir computer --hub %s --config FILE\nCtrl-C ends it.\n\n",
		a.stdout.paint(bold, "the hub is running"), "URL", a.stdout.paint(cyan, base), "tokens", known, base)
	watching, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer func() { stop(); beside.Wait() }()
	beside.Go(func() { a.trimMemory(watching) })
	if f.config != "" {
		beside.Go(func() { a.followHub(watching, f, c, &current, h, logger) })
	}
	select {
	case <-ctx.Done():
		err = nil
	case err = <-ended:
		ended <- err
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := h.Shutdown(closing); err != nil && !errors.Is(err, engineio.ErrServerClosed) {
		logger.Warn("some peers did not end", "err", err)
	}
	_ = server.Close() // everybody has been told
	<-ended
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("the hub's listener failed: %w", err)
	}
	return nil
}

// hubMux are the paths of a hub on an address of its own.
func hubMux(h *hub.Hub, c *config.Config, log *slog.Logger) http.Handler {
	open := guard.New(guardOptions(c, config.Auth{}, log))
	mux := http.NewServeMux()
	mux.Handle("/socket.io/", open.Wrap(h))
	mux.Handle("/smcp/", open.Wrap(h))
	mux.Handle("/healthz", open.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		health := map[string]any{"status": statusOK}
		if h.Trusts(r) {
			health["connections"], health["members"] = h.Connections(), append([]hub.Member{}, h.Members()...)
		}
		writeJSON(w, http.StatusOK, health)
	})))
	return mux
}
