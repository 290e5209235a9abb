package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/internal/observe"
	"github.com/weir-mcp/weir/internal/office"
)

// defaultHubListen is the listen address of a hub without a gateway.
const defaultHubListen = "127.0.0.1:8089"

// hubFlags are the flags of weir hub.
type hubFlags struct {
	config, listen, cert, key string
	tokens                    []string
	strict                    bool
}

func hubCommand(a *process) *cobra.Command {
	var f hubFlags
	cmd := &cobra.Command{
		Use:   "hub",
		Short: "Run an A2C-SMCP hub without a gateway",
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
		RunE: func(cmd *cobra.Command, _ []string) error { return runHub(a, cmd.Context(), f) },
	}
	cmd.Flags().StringVar(&f.config, "config", "", "configuration with a hub section (default: none)")
	cmd.Flags().StringVar(&f.listen, "listen", "", "address to listen on (default: hub.listen, or "+defaultHubListen+")")
	cmd.Flags().StringVar(&f.cert, "tls-cert", "", "PEM file with the certificate")
	cmd.Flags().StringVar(&f.key, "tls-key", "", "PEM file with its private key")
	cmd.Flags().StringArrayVar(&f.tokens, "token", nil, "a token that lets in, in any role and office; may be repeated")
	cmd.Flags().BoolVar(&f.strict, "strict-version", false, "refuse peers that say no a2c_version")
	return cmd
}

// hubConfig returns the configuration of a hub without a gateway.
func hubConfig(a *process, ctx context.Context, f hubFlags) (*config.Config, error) {
	opts := configOptions(a, ctx)
	var c *config.Config
	var warnings []config.Warning
	var err error
	if f.config != "" {
		c, warnings, err = config.Load(f.config, opts)
	} else {
		c, _, err = config.Parse("weir.yaml", []byte("hub: {}\n"), opts)
	}
	warn(a.stderr, warnings)
	if err != nil {
		return nil, err
	}
	if err := f.override(c); err != nil {
		return nil, err
	}
	return c, nil
}

// override replaces settings of a configuration with the values of flags.
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

// followHub applies changed hub tokens and keys until ctx ends.
func followHub(a *process, ctx context.Context, f hubFlags, c *config.Config, h *office.Hub, logger *observe.Log) {
	err := config.Watch(ctx, c, configOptions(a, ctx), func(next *config.Config, warnings []config.Warning, err error) {
		for _, w := range warnings {
			logger.Warn("configuration", "at", w.String())
		}
		if err == nil {
			err = f.override(next)
		}
		if err == nil {
			err = h.Apply(next)
		}
		if err != nil {
			logger.Error("the new configuration is not used; the old one stays", "err", err)
		}
	})
	if err != nil {
		logger.Warn("changes of the configuration are not seen any more; restart weir to apply them", "err", err)
	}
}

func runHub(a *process, ctx context.Context, f hubFlags) error {
	c, err := hubConfig(a, ctx, f)
	if err != nil {
		return err
	}
	logger := newEventLog(a.stderr, c)
	h, err := office.OpenHub(ctx, c, a.version, logger.Logger)
	if err != nil {
		return err
	}
	scheme := "http"
	if c.Hub.TLS.Cert != "" {
		scheme = "https"
	}
	base := scheme + "://" + httpserver.Dialable(h.Addr().String())
	known := strconv.Itoa(len(c.Hub.Tokens)) + " known"
	if len(c.Hub.Tokens) == 0 {
		known = "none: only peers on this machine, and Computers with a known key, are let in"
	}
	fmt.Fprintf(a.stdout, "\n%s\n\n  %-10s %s\n  %-10s %s\n\nOn the machine with the tools: weir computer --hub %s --config FILE\nCtrl-C ends it.\n\n",
		a.stdout.paint(bold, "the hub is running"), "URL", a.stdout.paint(cyan, base), "tokens", known, base)
	watching, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer func() { stop(); beside.Wait() }()
	beside.Go(func() { keepMemory(a.lookupEnv, watching) })
	if f.config != "" {
		beside.Go(func() { followHub(a, watching, f, c, h, logger) })
	}
	select {
	case <-ctx.Done():
	case <-h.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	return h.Shutdown(closing)
}
