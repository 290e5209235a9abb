package cli

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/agentserver"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/protocol/invocation"
)

// agentFlags are the flags of weir agent.
type agentFlags struct {
	config, name, listen, router, advertise, store, key string

	port, concurrency int
	noAuth, quiet     bool
}

// defaultAgentPort is the port of an agent if nothing else is configured; noPort marks an unset
// port flag.
const (
	defaultAgentPort = 7000
	noPort           = -1
)

// agentFiles are the configuration files that weir agent looks for in the current folder.
var agentFiles = []string{"mcp-config.json", "agent.yaml", "agent.yml"}

func agentCommand(a *process) *cobra.Command {
	var f agentFlags
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run an agent server: tools made of commands",
		Long: `Run an agent server: an MCP server whose tools, resources and prompts are
commands of a configuration file, one after the other from a queue. Without
--config it uses mcp-config.json, agent.yaml or agent.yml of this folder. A
changed configuration is applied while it runs.

  /mcp                    MCP, every protocol version
  /getTaskStatus?taskId=  a task of an async tool
  /healthz                state and queue, JSON

With --router it makes itself known to a weir serve, which then offers it at
/mcps/NAME/mcp.

Variables, where a flag is absent:
  AGENT_PORT                port to listen on (the file's, or 7000)
  AGENT_CONCURRENCY         how many tools run at once (the file's, or 1)
  AGENT_TOKEN               bearer token for the router
  AGENT_INVOCATION_SECRET   the router's agents.invocation.secret: requests that
                            did not come through the router are refused
  ROUTER_HOST, ROUTER_PORT  what --router without a URL means (localhost, 8088)`,
		Example: `  weir agent --config examples/agents/stock.yaml
  weir agent --config stock.yaml --port 7001 --router http://127.0.0.1:8088`,
		Args: positional(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			// A value after --router without "=" arrives as a positional argument.
			if !cmd.Flags().Changed("port") {
				f.port = noPort
			} else if f.port < 0 || f.port > 65535 {
				return failf(exitUsage, "--port %d: it must be from 0 to 65535", f.port)
			}
			switch {
			case len(args) == 1 && f.router == noValue:
				f.router = args[0]
			case len(args) == 1:
				return failf(exitUsage, "weir agent takes flags only, and %q is none. Usage: %s", args[0], cmd.UseLine())
			}
			return runAgent(a, cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "configuration (default: mcp-config.json, agent.yaml or agent.yml of this folder)")
	flags.StringVar(&f.name, "name", "", "the agent's name, in place of the configuration's")
	flags.IntVar(&f.port, "port", defaultAgentPort, "port to listen on, 0 for a free one (or $AGENT_PORT, or the configuration's)")
	flags.StringVar(&f.listen, "listen", "", "address and port to listen on, in place of 127.0.0.1 and --port")
	flags.IntVar(&f.concurrency, "concurrency", 0, "how many tools run at once (or $AGENT_CONCURRENCY; default: the configuration's, or 1)")
	optional(cmd, &f.router, "router", "register with the router at `URL`; without one: the router at $ROUTER_HOST and $ROUTER_PORT")
	flags.StringVar(&f.advertise, "advertise", "", "URL at which the router reaches this agent, such as http://10.0.0.7:7000/mcp (default: where the router sees it come from)")
	flags.StringVar(&f.store, "store", "", "where tasks are kept: memory, or file:FOLDER")
	flags.StringVar(&f.key, "invocation-key", "", "PEM file with the router's Ed25519 public key: requests that did not come through it are refused")
	flags.BoolVar(&f.noAuth, "no-auth", false, "listen for other machines although anyone who reaches the agent can call every tool")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "log warnings and errors only")
	return cmd
}

// runAgent runs an agent server until ctx ends.
func runAgent(a *process, ctx context.Context, f agentFlags) error {
	o, err := agentOptions(a, f)
	if err != nil {
		return err
	}
	level := "info"
	if f.quiet {
		level = "warn"
	}
	o.Logger = newEventLog(a.stderr, &config.Config{Log: config.Log{Level: level, Format: config.LogAuto}}).Logger
	o.Connect = func(q agentserver.QueueConfig) (any, func(), error) { return sharedTasks(q, o.Logger) }
	ready := false
	o.Ready = func(at net.Addr) {
		ready = true
		server := "http://" + httpserver.Dialable(at.String())
		line := func(label, text string) { fmt.Fprintf(a.stdout, "  %-10s %s\n", label, text) }
		fmt.Fprintf(a.stdout, "\n%s\n\n", a.stdout.paint(bold, "the agent is running"))
		line("URL", a.stdout.paint(cyan, server+"/mcp"))
		line("health", server+"/healthz")
		if o.Router != "" {
			line("router", withoutPassword(o.Router))
		}
		fmt.Fprint(a.stdout, "\nCtrl-C ends it.\n\n")
	}
	err = agentserver.Run(ctx, o)
	var broken *config.Error
	var taken *net.OpError
	switch {
	case errors.As(err, &broken):
		return broken
	case errors.As(err, &taken) && taken.Op == "listen":
		return part.CannotListen(o.Addr, taken, "pass another port with --port or $AGENT_PORT, or 0 for a free one")
	case err != nil && !ready: // the agent could not start its work
		return failf(exitUsage, "%w", err)
	}
	return err
}

// withoutPassword returns a URL that is safe to show or log.
func withoutPassword(text string) string {
	if u, err := url.Parse(text); err == nil {
		return u.Redacted()
	}
	return text
}

// agentOptions returns the options from flags, or from variables if a flag is absent.
func agentOptions(a *process, f agentFlags) (agentserver.Options, error) {
	o := agentserver.Options{
		Name: f.name, Version: a.version, Config: f.config, Store: f.store, Advertise: f.advertise, Concurrency: f.concurrency,
		ConfigOptions: agentserver.ConfigOptions{LookupEnv: a.lookupEnv},
	}
	if o.Config == "" {
		found, err := findAgentConfig(".")
		if err != nil {
			return o, err
		}
		o.Config = found
	}
	if _, err := os.Stat(o.Config); errors.Is(err, fs.ErrNotExist) {
		return o, failf(exitUsage, "%s: there is no such file", o.Config)
	}
	if f.concurrency < 0 {
		return o, failf(exitUsage, "--concurrency %d: it must be 1 or more", f.concurrency)
	}
	var err error
	if o.Concurrency == 0 {
		if o.Concurrency, err = numberVariable(a.lookupEnv, "AGENT_CONCURRENCY", 1, 10_000, 0); err != nil {
			return o, err
		}
	}
	if o.Addr, err = agentAddr(a.lookupEnv, f, &o); err != nil {
		return o, err
	}
	o.RouterToken, _ = a.lookupEnv("AGENT_TOKEN")
	switch {
	case f.router == noValue:
		o.Router = routerURL(a.lookupEnv)
	case f.router != "":
		u, err := url.Parse(f.router)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return o, failf(exitUsage, "--router %q: it must be an http or https URL such as http://localhost:8088", f.router)
		}
		o.Router = strings.TrimSuffix(strings.TrimSuffix(f.router, "/"), "/mcp")
	}
	if o.InvocationKey, err = invocationKey(a.lookupEnv, f); err != nil {
		return o, err
	}
	host, _, err := net.SplitHostPort(o.Addr)
	if err != nil {
		return o, failf(exitUsage, "--listen %q: it must be an address and a port such as 0.0.0.0:7000", f.listen)
	}
	if !address.Loopback(host) && o.InvocationKey == nil && !f.noAuth {
		return o, failf(exitUsage, "%s can be reached from other machines, and anybody there could call every tool: give the router's key (AGENT_INVOCATION_SECRET or --invocation-key), or --no-auth where the network keeps strangers out", o.Addr)
	}
	return o, nil
}

// agentAddr returns the address that the agent listens on.
func agentAddr(lookupEnv func(string) (string, bool), f agentFlags, o *agentserver.Options) (string, error) {
	if f.listen != "" {
		if f.port != noPort {
			return "", failf(exitUsage, "--listen and --port: keep one of them")
		}
		return f.listen, nil
	}
	port := f.port
	if port == noPort {
		var err error
		if port, err = numberVariable(lookupEnv, "AGENT_PORT", 0, 65535, portOf(o)); err != nil {
			return "", err
		}
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), nil
}

// portOf returns the port in a configuration. Errors in it are reported when the agent starts.
func portOf(o *agentserver.Options) int {
	c, err := agentserver.LoadConfig(o.Config, o.ConfigOptions)
	if err != nil || c.Port == 0 {
		return defaultAgentPort
	}
	return c.Port
}

// numberVariable reads an environment variable that holds a number.
func numberVariable(lookupEnv func(string) (string, bool), name string, least, most, absent int) (int, error) {
	text, ok := lookupEnv(name)
	if !ok || strings.TrimSpace(text) == "" {
		return absent, nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < least || n > most {
		return 0, failf(exitUsage, "%s is %q; it must be a number from %d to %d", name, text, least, most)
	}
	return n, nil
}

// routerURL returns the router that ROUTER_HOST and ROUTER_PORT name.
func routerURL(lookupEnv func(string) (string, bool)) string {
	host, _ := lookupEnv("ROUTER_HOST")
	port, _ := lookupEnv("ROUTER_PORT")
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = "8088"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// invocationKey reads the router's public key or secret; it returns nil if none is given.
func invocationKey(lookupEnv func(string) (string, bool), f agentFlags) (any, error) {
	secret, _ := lookupEnv("AGENT_INVOCATION_SECRET")
	switch {
	case f.key != "":
		public, err := place.ReadPEM(f.key, x509.ParsePKIXPublicKey)
		if err != nil {
			return nil, failf(exitUsage, "--invocation-key: %w", err)
		}
		if _, ok := public.(ed25519.PublicKey); !ok {
			return nil, failf(exitUsage, "--invocation-key: %s holds no Ed25519 public key; make one of the router's with: openssl pkey -pubout", f.key)
		}
		return public, nil
	case secret == "":
		return nil, nil
	}
	if _, err := invocation.NewVerifier("agent", []byte(secret)); err != nil {
		return nil, failf(exitUsage, "AGENT_INVOCATION_SECRET: %w", err)
	}
	return []byte(secret), nil
}

// findAgentConfig finds the configuration of an agent in a folder.
func findAgentConfig(folder string) (string, error) {
	for _, name := range agentFiles {
		path := filepath.Join(folder, name)
		switch _, err := os.Stat(path); {
		case err == nil:
			return path, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	}
	return "", failf(exitUsage, "which tools? There is no %s here: pass --config", strings.Join(agentFiles, ", "))
}
