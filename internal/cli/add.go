package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/json/splice"
	"github.com/weir-mcp/weir/internal/observe"
	"github.com/weir-mcp/weir/internal/setup"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/upstream/lineage"
)

// trialTime bounds how long servers may take to answer when they are tried.
const trialTime = 15 * time.Second

// addRequest is a server as the command line describes it.
type addRequest struct {
	env, headers []string
	cwd, kind    string
	sandbox      string
	set          []string // answers to the questions of a bundle or a document
	noStart      bool
	registry     string                                                             // URL
	name         string                                                             // for a server of the registry or of a bundle
	answer       func(client, server string, question splice.Object) (string, bool) // see clients.Select
}

func addCommand(a *process) *cobra.Command {
	var c changing
	var where secretFlag
	var r addRequest
	cmd := &cobra.Command{
		Use:   "add NAME -- COMMAND [ARG...] | add NAME URL | add FILE | add ID|WORDS",
		Short: "Add a server to weir.yaml",
		Long: `Add a server to weir.yaml: a command to start, a URL, or the servers of a file in
the form of a client, such as .mcp.json. A file may also be a bundle (.mcpb or .dxt),
or a server.json of the MCP Registry. An ID, such as io.github.owner/server, is a
server of the registry, and words search it. The server is started and listed once,
and written only if that works. With --no-start it is written as it is.

A bundle is unpacked into weir's data folder. Bundles and servers of the registry may
ask for settings. Without a terminal they are given with --set.

Values of --env, --header and --set that are secrets go into the store.`,
		Example: `  weir add time -- uvx mcp-server-time
  weir add memory --sandbox auto -- npx -y @modelcontextprotocol/server-memory
  weir add github https://api.githubcopilot.com/mcp/ --header "Authorization: Bearer $TOKEN"
  weir add io.github.owner/server
  weir add ./files.mcpb --set allowed_directories=/home/me/notes
  weir add db --env DATABASE_URL=postgres://… -- npx -y my-db-mcp`,
		Args: positional(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := a.nearMachine(c.config)
			if err != nil {
				return err
			}
			r.answer, m.Sandbox = c.answers(a, cmd.Context()), r.sandbox
			p, err := planAny(a, cmd.Context(), m, args, cmd.ArgsLenAtDash(), r)
			if failed := (*failure)(nil); errors.As(err, &failed) {
				return err
			}
			if err != nil {
				return &failure{exitUsage, err}
			}
			if !r.noStart {
				c.first = func(ctx context.Context) error { return tryUnpacked(a, ctx, &c, m, p) }
			}
			return c.carryOut(a, cmd.Context(), m, p, where)
		},
	}
	c.flags(cmd)
	where.flag(cmd)
	cmd.Flags().StringArrayVarP(&r.env, "env", "e", nil, "a variable for the command, NAME=VALUE; may be repeated")
	cmd.Flags().StringArrayVar(&r.headers, "header", nil, "a header for the URL, \"Name: value\"; may be repeated")
	cmd.Flags().StringArrayVar(&r.set, "set", nil, "a setting of a bundle or of a server of the registry, KEY=VALUE; may be repeated")
	cmd.Flags().StringVar(&r.cwd, "cwd", "", "the folder in which the command starts")
	cmd.Flags().StringVar(&r.sandbox, "sandbox", "", "auto starts the command with what it needs of this machine, and nothing else; off as you")
	oneOf(cmd, "sandbox", "auto", "off")
	cmd.Flags().StringVar(&r.kind, "type", "", "how to speak to the URL: http or sse (default: http, or sse for a path that ends in /sse)")
	oneOf(cmd, "type", string(clients.HTTP), string(clients.SSE))
	cmd.Flags().StringVar(&r.registry, "registry", "", "URL of the registry (default: registry.url of weir.yaml, else the registry of the MCP project)")
	cmd.Flags().StringVar(&r.name, "name", "", "name in weir.yaml (default: NAME; for a bundle or a server of the registry, the last part of its own name)")
	cmd.Flags().BoolVar(&r.noStart, "no-start", false, "write it without starting it")
	return cmd
}

// planAny plans the addition that a command line asks for: a bundle, a server of the registry, or another one.
func planAny(a *process, ctx context.Context, m *setup.Machine, args []string, dash int, r addRequest) (*setup.Plan, error) {
	if line := commandLine(args, dash, r.name); line != "" {
		return nil, fmt.Errorf("a command stands behind --, after the name that its server gets: %s", line)
	}
	args, dash = r.named(args, dash)
	if asksRegistry(args, dash) {
		return addFromRegistry(a, ctx, m, strings.Join(args, " "), r)
	}
	if dash < 0 && len(args) == 1 {
		if isBundle(args[0]) {
			return addBundle(a, ctx, m, args[0], r)
		}
		server, ok, err := readDocument(args[0])
		if err != nil {
			return nil, err
		}
		if ok {
			return addDocument(a, ctx, m, server, r)
		}
	}
	if len(args) == 1 && dash < 0 && r.name != "" {
		return nil, errors.New("a file names its servers itself: leave --name out")
	}
	if len(r.set) > 0 {
		return nil, errors.New("--set is for bundles and servers of the registry")
	}
	return planAdd(m, args, dash, r)
}

// starters are programs that start servers from packages and scripts. No server of the registry has such a name.
var starters = []string{"npx", "bunx", "pnpx", "uvx", "pipx", "node", "deno", "bun", "python", "python3", "docker", "podman", "go", "java", "npm", "pnpm", "uv"}

// commandLine returns how the arguments of weir add are written that are a command without a name and without --. It is
// "" for all others.
func commandLine(args []string, dash int, name string) string {
	if dash >= 0 || len(args) < 2 || !slices.Contains(starters, args[0]) {
		return ""
	}
	words := slices.Clone(args)
	if words[0] == "npx" && !slices.Contains(words, "-y") {
		words = slices.Insert(words, 1, "-y") // weir has taken it for its own --yes
	}
	if name == "" {
		last := args[len(args)-1]
		for _, word := range args[1:] { // the package, not its arguments
			if !strings.HasPrefix(word, "-") && word != "run" && word != "dlx" && word != "exec" {
				last = word
				break
			}
		}
		last = last[strings.LastIndex(last, "/")+1:]
		last, _, _ = strings.Cut(last, "@")
		last, _, _ = strings.Cut(last, ":")
		last = strings.TrimSuffix(last, ".js")
		last = strings.TrimSuffix(last, ".py")
		for _, part := range []string{"mcp-server-", "server-", "mcp-"} {
			last = strings.TrimPrefix(last, part)
		}
		name = cmp.Or(strings.TrimSuffix(strings.TrimSuffix(last, "-server"), "-mcp"), "NAME")
	}
	return "weir add " + name + " -- " + strings.Join(words, " ")
}

// named returns the arguments with the name of --name in its place, for a command or a URL.
func (r addRequest) named(args []string, dash int) ([]string, int) {
	switch {
	case r.name == "":
	case dash == 0:
		return append([]string{r.name}, args...), 1
	case dash == 1, dash < 0 && len(args) == 2 && strings.Contains(args[1], "://"):
		return append([]string{r.name}, args[1:]...), dash
	case dash < 0 && len(args) == 1 && strings.Contains(args[0], "://"):
		return []string{r.name, args[0]}, dash
	}
	return args, dash
}

// planAdd plans the addition of a server by a command or URL. dash is the number of arguments before --, or -1.
func planAdd(m *setup.Machine, args []string, dash int, r addRequest) (*setup.Plan, error) {
	if dash < 0 && len(args) == 1 {
		if len(r.env)+len(r.headers) > 0 || r.cwd != "" || r.kind != "" {
			return nil, errors.New("a file says everything of its servers: leave --env, --header, --cwd and --type out")
		}
		return planFile(m, args[0], r.answer)
	}
	s := clients.Server{Client: "add", Name: args[0], Cwd: r.cwd, Transport: clients.Stdio}
	switch {
	case dash == 1 && len(args) > 1:
		if len(r.headers) > 0 || r.kind != "" {
			return nil, errors.New("--header and --type are for a URL")
		}
		s.Command, s.Args = args[1], args[2:]
	case dash < 0 && len(args) == 2 && strings.Contains(args[1], "://"):
		u, err := url.Parse(args[1])
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("%q is no http or https URL", args[1])
		}
		if len(r.env) > 0 || r.cwd != "" {
			return nil, errors.New("--env and --cwd are for a command")
		}
		s.URL, s.Transport = args[1], clients.HTTP
		switch {
		case r.kind == string(clients.SSE), r.kind == "" && strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/sse"):
			s.Transport = clients.SSE
		case r.kind != "" && r.kind != string(clients.HTTP):
			return nil, fmt.Errorf("--type %q: it must be http or sse", r.kind)
		}
	default:
		return nil, fmt.Errorf("name the server and what it is: weir add %s -- COMMAND, or weir add %s https://…", args[0], args[0])
	}
	var err error
	if s.Env, err = pairs(r.env, "=", "--env", "NAME=VALUE"); err != nil {
		return nil, err
	}
	if s.Headers, err = pairs(r.headers, ":", "--header", `"Name: value"`); err != nil {
		return nil, err
	}
	return m.Add(s)
}

// planFile plans to add the servers of a file.
func planFile(m *setup.Machine, name string, answer func(client, server string, question splice.Object) (string, bool)) (*setup.Plan, error) {
	if filepath.Ext(name) == "" {
		return nil, fmt.Errorf("what is %q? weir add NAME -- COMMAND, weir add NAME URL, or weir add FILE", name)
	}
	if _, ok := clients.ByID(name); ok {
		return nil, fmt.Errorf("%q is a client: weir import %s", name, name)
	}
	sources, err := m.Look(name)
	if err != nil {
		return nil, err
	}
	return m.Import("add", sources, clients.Select{Answer: answer})
}

// pairs reads flags of names and values.
func pairs(texts []string, separator, flag, form string) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, separator)
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fmt.Errorf("%s must be %s", flag, form)
		}
		out[name] = strings.TrimLeft(value, " ")
	}
	return out, nil
}

// tryUnpacked starts the servers of a plan from their folder, which goes if one does not work.
func tryUnpacked(a *process, ctx context.Context, c *changing, m *setup.Machine, p *setup.Plan) error {
	if err := p.Unpack(); err != nil {
		return err
	}
	if err := tryAdded(a, ctx, c, m, p); err != nil {
		return errors.Join(err, p.Discard())
	}
	return nil
}

// tryAdded starts the servers of a plan. A server that does not work is an error.
func tryAdded(a *process, ctx context.Context, c *changing, m *setup.Machine, p *setup.Plan) error {
	var names []string
	for _, s := range p.Import.Servers {
		names = append(names, s.Name)
	}
	t, err := tryPlan(a, ctx, m, p, names)
	if err != nil {
		return err
	}
	for _, s := range t.Servers {
		if reason := trialFault(s); reason != "" {
			return failf(exitUnavailable, "%s does not work, so nothing has changed: %s. With --no-start it is added as it is", s.Name, reason)
		}
		if !c.asJSON {
			item(a.stdout, green, "✓", s.Name, trialText(s))
		}
	}
	return nil
}

// trialText lists the offer of a server that was tried.
func trialText(s gateway.UpstreamHealth) string {
	if s.State == "sign_in" {
		return "needs a sign-in: weir login " + s.Name
	}
	return counted(s.Tools, "tool")
}

// trialFault returns why a server that was tried cannot be used, "" if it can.
func trialFault(s gateway.UpstreamHealth) string {
	switch {
	case s.State == "disabled" || s.State == "left_out" || s.State == "sign_in":
		return "" // a sign-in needs the server in the configuration
	case s.Error != "":
		return s.Error
	case s.State == "starting" || s.State == "restarting":
		return fmt.Sprintf("it has not answered within %s", trialTime)
	case s.State == "failed":
		return "it failed"
	}
	return ""
}

// tryPlan starts the named servers of weir.yaml as a plan leaves it, or all of them without names.
func tryPlan(a *process, ctx context.Context, m *setup.Machine, p *setup.Plan, names []string) (*gateway.Trial, error) {
	doc, err := p.Preview()
	if err != nil {
		return nil, err
	}
	opts := configOptions(a, ctx)
	opts.Inputs = askInputs(a, ctx)
	opts.Dir = filepath.Dir(m.Config)
	opts.Omit = lineage.OmitItself(a.environ(), false)
	conf, warnings, err := config.Parse(m.Config, doc, opts)
	warn(a.stderr, warnings)
	if err != nil {
		return nil, err
	}
	if names != nil {
		conf.Servers = slices.DeleteFunc(conf.Servers, func(s *config.Server) bool { return !slices.Contains(names, s.Name) })
	}
	lineage, err := descend(a.lookupEnv, m.Config)
	if err != nil {
		return nil, err
	}
	logger := observe.NewLog(discard{}, conf)
	stop := a.spin("starting " + counted(len(conf.Servers), "server"))
	defer stop()
	bounded, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	t, err := gateway.Try(bounded, conf, gateway.Options{Version: a.version, Logger: logger.Logger, Environ: a.environ(), Lineage: lineage, Credentials: openCredentials(a, conf), Tokens: logger.Tokens()})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return t, err
}

// changeCommand makes a command that changes servers of weir.yaml by their names.
func changeCommand(a *process, use, short, long string, plan func(m *setup.Machine, names []string) (*setup.Plan, error)) *cobra.Command {
	var c changing
	cmd := &cobra.Command{
		Use: use + " NAME...", Short: short, Long: long,
		Args:              positional(cobra.MinimumNArgs(1)),
		ValidArgsFunction: a.completeServers(&c.config),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := a.nearMachine(c.config)
			if err != nil {
				return err
			}
			p, err := plan(m, args)
			if errors.Is(err, setup.ErrNoServer) {
				return &failure{exitUsage, err}
			}
			if err != nil {
				return err
			}
			return c.carryOut(a, cmd.Context(), m, p, "")
		},
	}
	c.flags(cmd)
	return cmd
}

func removeCommand(a *process) *cobra.Command {
	return changeCommand(a, "remove", "Remove servers from weir.yaml", `Remove servers from weir.yaml. The comments and all other bytes of the file stay.
A running gateway lets calls in flight end, and then stops the server.`,
		func(m *setup.Machine, names []string) (*setup.Plan, error) { return m.Remove(names...) })
}

func enableCommand(a *process) *cobra.Command {
	return changeCommand(a, "enable", "Switch servers of weir.yaml on", "Switch servers of weir.yaml on. A running gateway starts them.",
		func(m *setup.Machine, names []string) (*setup.Plan, error) { return m.Switch(true, names...) })
}

func disableCommand(a *process) *cobra.Command {
	return changeCommand(a, "disable", "Switch servers of weir.yaml off", "Switch servers of weir.yaml off. They stay in the file, and a running gateway\nstops them.",
		func(m *setup.Machine, names []string) (*setup.Plan, error) { return m.Switch(false, names...) })
}

// completeServers completes the names of weir.yaml's servers from the file.
func (a *process) completeServers(path *string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		m, err := a.nearMachine(*path)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		servers, err := m.Servers()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []string
		for _, s := range servers {
			if !slices.Contains(args, s.Name) {
				out = append(out, s.Name)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
