package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/audit/trail"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/metatool/tools"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/policy"
	"github.com/weir-mcp/weir/internal/upstream/lineage"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

const (
	// defaultURL is the URL of the gateway if nothing else is given.
	defaultURL = "http://127.0.0.1:8088/mcp"
	// probeTimeout bounds the check whether a gateway runs at a URL.
	probeTimeout = 500 * time.Millisecond
	// dialTimeout bounds connecting to a gateway that the user named.
	dialTimeout = 20 * time.Second
	// maxHealth bounds the size of a /healthz response.
	maxHealth = 16 << 20
)

// A target selects the gateway for a shell command, from flags, or from variables if a flag is
// absent.
type target struct {
	url, token, config string
	profile            string    // "" is the whole catalog
	as                 string    // the caller, for a gateway of the command's own; "" is the user of this machine
	node               string    // of a cluster, which answers; "" is the one that is asked
	learn              *learning // a gateway of one server only, to learn what it needs; nil for all servers
	person             *person   // answers questions of calls; nil if the command makes no calls
}

// capabilities are those that the command declares as a client. Without a terminal it can ask no one,
// so that a call that needs approval waits for an operator.
func (t *target) capabilities() json.RawMessage {
	if t.person != nil && t.person.keyboard != nil {
		return elicits
	}
	return json.RawMessage("{}")
}

const targetHelp = `
Which gateway is asked:
  --url URL       the one that runs there (or $WEIR_URL)
  --config FILE   one of its own, made of this file for the time of the command
  neither         the one that "weir serve" runs with this folder's weir.yaml,
                  weir.yml, weir.json or .mcp.json, else with your own weir.yaml
                  (weir help files), whatever its port; if it does not run, one of its
                  own made of that file, which is said; without a file, the one at
                  ` + defaultURL

// flags adds the flags of a target to a command.
func (t *target) flags(cmd *cobra.Command) {
	t.serverFlags(cmd)
	cmd.Flags().StringVar(&t.config, "config", "", "ask a gateway of this command's own, made of this configuration")
	cmd.Long = strings.TrimSpace(cmd.Long) + "\n" + targetHelp
}

// runningFlags adds the flags of a target that must run already.
func (t *target) runningFlags(cmd *cobra.Command) {
	t.serverFlags(cmd)
	cmd.Long = strings.TrimSpace(cmd.Long) + "\n" + runningHelp
}

const runningHelp = `
Which gateway is asked:
  --url URL       the one that runs there (or $WEIR_URL)
  without it      the one that "weir serve" runs with this folder's weir.yaml,
                  weir.yml, weir.json or .mcp.json, else with your own weir.yaml
                  (weir help files), whatever its port; if there is no such file, or
                  for weir table if it does not run, the one at
                  ` + defaultURL + `
`

func (t *target) serverFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.url, "url", "", "MCP URL of a running gateway, such as "+defaultURL+" (or $WEIR_URL)")
	cmd.Flags().StringVar(&t.token, "token", "", "bearer token for the gateway at --url (better $WEIR_TOKEN: other users see command lines)")
}

// nodeFlag adds the flag that names a node of a cluster to a command that reads of a running gateway.
func (t *target) nodeFlag(a *process, cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.node, "node", "", "the node of a cluster to ask, by its name or INC (weir cluster); any other one passes the question on")
	// the flag exists
	_ = cmd.RegisterFlagCompletionFunc("node", func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return completeNodes(a, cmd.Context(), *t, nil), cobra.ShellCompDirectiveNoFileComp
	})
}

// atNode adds the parameter of a node to a path.
func atNode(path, node string) string {
	if node == "" {
		return path
	}
	mark := "?"
	if strings.Contains(path, "?") {
		mark = "&"
	}
	return path + mark + "node=" + url.QueryEscape(node)
}

// openTarget connects to the gateway. The caller closes the client.
func openTarget(a *process, ctx context.Context, t target) (*client, error) {
	if t.url != "" && t.config != "" {
		return nil, failf(exitUsage, "--url asks a gateway that runs, --config one of this command's own: keep one of them")
	}
	if t.as != "" { // a gateway that runs believes a token, and no name
		if t.url != "" {
			return nil, failf(exitUsage, "--as %s is for a gateway of this command's own; at --url the token says who calls: set WEIR_TOKEN to the token of %[1]s", oneLine(t.as))
		}
		found, err := findConfig(a.lookupEnv, t.config)
		if err != nil {
			return nil, err
		}
		return openOwn(a, ctx, t, found)
	}
	if t.token == "" {
		t.token, _ = a.lookupEnv("WEIR_TOKEN")
	}
	if t.url == "" && t.config == "" {
		t.url, _ = a.lookupEnv("WEIR_URL")
	}
	switch {
	case t.config != "":
		return openOwn(a, ctx, t, &foundConfig{path: t.config, ours: true})
	case t.url != "":
		return dialGateway(a, ctx, t, t.url)
	}
	c, err := findConfig(a.lookupEnv, "")
	if err != nil && !errors.Is(err, config.ErrNotFound) {
		return nil, err
	}
	if err != nil {
		if probeGateway(ctx, defaultURL, t.token) == nil {
			return nil, failf(exitUsage, "which gateway? None runs at %s, and there is no weir.yaml, weir.yml, weir.json or .mcp.json here: pass --url or --config, or start one with weir serve", defaultURL)
		}
		return dialGateway(a, ctx, t, defaultURL)
	}
	at, err := locateByRecord(a, ctx, c.path, t.token)
	if at == "" && err == nil {
		if err = c.agree(a, ctx, true); err == nil {
			at, err = locateByAddress(a, ctx, c.path, t.token)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case at != "":
		return dialGateway(a, ctx, t, at)
	}
	return openOwn(a, ctx, t, c)
}

// identityAs returns the caller of a configuration that --as names: the name of a token.
func identityAs(c *config.Config, as string) (*identity.Identity, error) {
	if as == "" {
		return nil, nil
	}
	principal, err := callerOf(c, as)
	if err != nil {
		return nil, err
	}
	id := policy.Holder(c, principal)
	switch {
	case !c.Auth.Required():
		return nil, nil
	case id != nil && c.Auth.Scoped(principal):
		return nil, failf(exitUsage, "--as %s: the token opens single agents, and not the gateway", oneLine(as))
	case id != nil && !id.Expires.IsZero() && !time.Now().Before(id.Expires):
		return nil, failf(exitUsage, "--as %s: the token has expired", oneLine(as))
	case id != nil:
		return id, nil
	}
	names := make([]string, 0, len(c.Auth.Tokens))
	for _, known := range c.Auth.Tokens {
		names = append(names, known.Name)
	}
	return nil, failf(exitUsage, "--as %s: auth.tokens has no token of this name; it has: %s", oneLine(as), strings.Join(names, ", "))
}

// probeGateway returns the health of the weir at an MCP URL. It returns nil if none answers or if
// it refuses the token.
func probeGateway(ctx context.Context, mcpURL, token string) *gateway.Health {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	h, err := fetchHealth(ctx, mcpURL, token)
	if err != nil || h.Name != part.ServerName {
		return nil
	}
	return h
}

// fetchHealth reads /healthz of the gateway with an MCP URL.
func fetchHealth(ctx context.Context, mcpURL, token string) (*gateway.Health, error) {
	return fetchHealthOf(ctx, mcpURL, token, "")
}

// fetchHealthOf reads /healthz of a node of the cluster of the gateway with an MCP URL.
func fetchHealthOf(ctx context.Context, mcpURL, token, node string) (*gateway.Health, error) {
	h := &gateway.Health{}
	if err := fetchBeside(ctx, mcpURL, token, atNode("healthz", node), h); err != nil {
		return nil, err
	}
	if token == "" && h.Name == "" && h.Status != "" {
		return nil, errToken(withoutPassword(mcpURL), token) // strangers get no details
	}
	return h, nil
}

// fetchBeside reads a JSON document of the gateway with an MCP URL. name is its path, with a query or
// without.
func fetchBeside(ctx context.Context, mcpURL, token, name string, into any) error {
	name, query, _ := strings.Cut(name, "?")
	at, err := siblingURL(mcpURL, name)
	if err != nil {
		return err
	}
	if query != "" {
		at += "?" + query
	}
	u, shown := withoutPassword(at), withoutPassword(mcpURL) // messages may be logged
	resp, err := request{method: http.MethodGet, url: at, token: token, peer: "the gateway at " + shown, moves: true}.send(ctx)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxHealth))
	if err != nil {
		return failf(exitUnavailable, "reading %s: %w", u, err)
	}
	switch resp.StatusCode {
	case http.StatusOK, http.StatusServiceUnavailable:
	case http.StatusUnauthorized:
		return errToken(shown, token)
	default:
		if strings.Contains(query, "node=") {
			if message := messageOf(data); message != "" {
				return failf(exitCodeOf(resp.StatusCode), "%s", message)
			}
		}
		return failf(exitUnavailable, "%s answered %s: is %s a weir gateway?", u, resp.Status, shown)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return failf(exitUnavailable, "%s answered something else than a weir gateway does: %w", u, err)
	}
	return nil
}

func errToken(mcpURL, token string) error {
	if token == "" {
		return failf(exitRefused, "the gateway at %s wants a bearer token: set WEIR_TOKEN to one whose hash is in its auth.tokens", mcpURL)
	}
	return failf(exitRefused, "the gateway at %s does not know this token: it must be one whose hash is in its auth.tokens", mcpURL)
}

// urlCause returns the cause of a net/http error, without method and URL.
func urlCause(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// dialGateway connects to a running gateway.
func dialGateway(a *process, ctx context.Context, t target, mcpURL string) (*client, error) {
	token := t.token
	u, err := url.Parse(mcpURL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, failf(exitUsage, "--url %q is no http or https URL; it looks like %s", mcpURL, defaultURL)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/mcp"
	}
	mcpURL = u.String()
	if t.profile != "" {
		u = u.JoinPath(url.PathEscape(t.profile))
	}
	endpoint, shown := u.String(), u.Redacted() // messages may be logged
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	if !u.Query().Has("mode") {
		header.Set("Weir-Mode", string(config.ModeGateway)) // the commands speak to the meta-tools
	}
	stop := a.spin("connecting to " + u.Host)
	defer stop()
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := streamable.Dial(dialing, streamable.ClientOptions{
		URL: endpoint, Name: "the gateway at " + shown, Header: header,
		ClientInfo: part.Identity(a.version), Capabilities: t.capabilities(), ProtocolVersion: mcp.V20260728,
	})
	if err != nil {
		var status *streamable.StatusError
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &status) && status.Status == http.StatusUnauthorized:
			return nil, errToken(shown, token)
		case t.profile != "":
			return nil, failf(exitUnavailable, "%w (--profile %s needs a profile of this name that is open to the caller)", err, t.profile)
		case errors.As(err, &status) && status.Status == http.StatusNotFound:
			return nil, failf(exitUnavailable, "there is no MCP server at %s (404): a weir gateway is at /mcp", shown)
		}
		return nil, failf(exitUnavailable, "%w (weir serve runs a gateway, and prints its URL)", err)
	}
	return &client{
		peer:   conn,
		where:  shown,
		health: func(ctx context.Context) (*gateway.Health, error) { return fetchHealthOf(ctx, mcpURL, token, t.node) },
		catalog: func(ctx context.Context, since time.Time) (*gateway.CatalogInfo, error) {
			info, path := &gateway.CatalogInfo{}, "catalog"
			if !since.IsZero() {
				path += "?since=" + url.QueryEscape(since.UTC().Format(time.RFC3339Nano))
			}
			return info, fetchBeside(ctx, mcpURL, token, atNode(path, t.node), info)
		},
		tools:  toolsAt(mcpURL, token),
		person: t.person,
		close:  func() { _ = conn.Close() },
	}, nil
}

// openOwn starts a gateway in this process and connects to it through a pipe. It waits until every
// upstream has been listed or has failed.
func openOwn(a *process, ctx context.Context, t target, from *foundConfig) (*client, error) {
	if t.node != "" {
		return nil, failf(exitUsage, "--node %s is for a node of a cluster, and no gateway runs with %s: name one that runs with --url", oneLine(t.node), from.path)
	}
	opts, path := configOptions(a, ctx), from.path
	from.guard(&opts)
	opts.Omit = lineage.OmitItself(a.environ(), false)
	opts.Mode = config.ModeGateway
	c, warnings, err := config.Load(path, opts)
	warn(a.stderr, warnings)
	var by *identity.Identity
	if err == nil && t.learn != nil {
		err = t.learn.only(c)
	}
	if err == nil {
		by, err = identityAs(c, t.as)
	}
	var lineage lineage.Lineage
	if err == nil {
		lineage, err = descend(a.lookupEnv, path)
	}
	if err != nil {
		return nil, err
	}
	logger, _ := newLog(a.stderr, c, "")
	logger.SetLevel(ownLog(c.Log))
	a.note("starting %s of %s only for this command; weir serve keeps a gateway running", counted(len(c.Enabled()), "server"), path)
	// events.file belongs to the running gateway.
	records, err := trail.Open(ctx, c, a.version, logger.Logger)
	if err != nil {
		return nil, err
	}
	g, err := gateway.New(ctx, c, gateway.Options{
		Audit: records, Version: a.version, Logger: logger.Logger, Environ: a.environ(), Lineage: lineage, RedactResults: a.redact, Shell: true, Credentials: openCredentials(a, c), Tokens: logger.Tokens(), Lesson: t.learn.into(),
	})
	if err != nil {
		return nil, err
	}
	stop := a.spin(fmt.Sprintf("starting %d servers of %s", len(c.Enabled()), path))
	defer stop()
	if err := g.Settled(ctx); err != nil {
		closeGateway(g)
		return nil, err
	}
	front, shell := gateway.NewFront(g), *c
	shell.Mode = config.ModeGateway // the commands call its tools
	front.Apply(&shell)
	here, there := mcp.Pipe()
	within, principal := policy.WithinProfile(g.Config, front), guard.Principal(ctx)
	if by != nil {
		principal = by.Principal
	}
	handler := mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		if by != nil {
			ctx = identity.With(ctx, by)
		}
		return within.Serve(policy.AtProfile(ctx, t.profile), r)
	})
	server := mcp.NewConn(there, mcp.ConnOptions{Name: "the shell", Handler: handler, Logger: logger.Logger, Session: mcp.NewSession("", principal)})
	conn := mcp.NewConn(here, mcp.ConnOptions{Name: "the gateway of " + path, Client: true, Logger: logger.Logger})
	closeAll := func() {
		_ = conn.Close()
		_ = server.Close()
		closeGateway(g)
	}
	if _, err := mcp.Handshake(ctx, conn, part.Identity(a.version), t.capabilities(), ""); err != nil {
		closeAll()
		return nil, err
	}
	return &client{
		peer:   conn,
		where:  path,
		own:    true,
		health: func(ctx context.Context) (*gateway.Health, error) { return g.Views.Health(ctx), nil },
		catalog: func(ctx context.Context, since time.Time) (*gateway.CatalogInfo, error) {
			return g.Views.Catalog(ctx, since), nil
		},
		tools: func(ctx context.Context, q tools.Query) (tools.List, error) { return g.Views.Tools(ctx, q), nil },

		definitions: ownDefinitions{g.Definitions},
		person:      t.person,
		close:       closeAll,
	}, nil
}

// ownLog returns the log settings of a gateway in this process. The command itself reports errors,
// so only warnings are logged.
func ownLog(l config.Log) config.Log {
	if l.Level == "info" {
		l.Level = "warn"
	}
	return l
}

// closeGateway stops the gateway of a command.
func closeGateway(g *gateway.Gateway) {
	ctx, cancel := context.WithTimeout(context.Background(), part.CloseTimeout)
	defer cancel()
	g.Close(ctx)
}
