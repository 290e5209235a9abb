package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/json/splice"
	"github.com/weir-mcp/weir/internal/setup"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/setup/machine"
)

// secretFlag is the place for secrets that a command was told.
type secretFlag string

func (s *secretFlag) flag(cmd *cobra.Command) {
	cmd.Flags().StringVar((*string)(s), "secrets", "", "where secrets go: store (the keyring, else a file that only you can read), env or inline (default: store)")
	oneOf(cmd, "secrets", string(setup.Store), string(setup.Env), string(setup.Inline))
}

// place returns where the secrets of a plan go.
func (s *secretFlag) place() (setup.Place, error) {
	switch p := setup.Place(*s); p {
	case "":
		return setup.Store, nil
	case setup.Store, setup.Env, setup.Inline:
		return p, nil
	}
	return "", failf(exitUsage, "--secrets %q: it must be store, env or inline", string(*s))
}

func importCommand(a *process) *cobra.Command {
	var c changing
	var where secretFlag
	var r importRequest
	cmd := &cobra.Command{
		Use:   "import [CLIENT|FILE...]",
		Short: "Bring the servers of MCP clients into weir.yaml",
		Long: `Bring the servers of MCP clients, or of files in the form of one, into weir.yaml.
Without arguments it looks at every client of this machine, at the extensions of
Claude Desktop and at Docker's MCP toolkit. The clients' files stay as they are;
"weir connect" puts weir in the place of their servers.

The words claude-extensions and docker-mcp name these two. A file may also be a
bundle (.mcpb or .dxt) or a server.json of the MCP Registry, which must be the
only argument.

A server that two clients have comes once. Servers that only the client can use,
such as those that it has logged in to, stay there; the plan says why. Secrets go
into the store, and weir.yaml names them as ${secret:NAME}. Nothing is started.`,
		Example: `  weir import --dry-run
  weir import cursor ./mcp.json
  weir import docker-mcp
  weir import ./files.mcpb --set allowed_directories=/home/me/notes`,
		ValidArgsFunction: completeClients(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.words = args
			m, err := a.machine(c.config)
			if err != nil {
				return err
			}
			r.choice.Answer = c.answers(a, cmd.Context())
			p, err := r.plan(a, cmd.Context(), m)
			if err != nil {
				return err
			}
			return c.carryOut(a, cmd.Context(), m, p, where)
		},
	}
	c.flags(cmd)
	where.flag(cmd)
	cmd.Flags().StringArrayVar(&r.set, "set", nil, "a setting of a bundle or a server.json, KEY=VALUE; may be repeated")
	cmd.Flags().StringVar(&r.registry, "registry", "", "URL of the registry that has the bundle of a server.json (default: as weir add)")
	cmd.Flags().BoolVar(&r.choice.All, "all", false, "also take servers that are switched off; they stay switched off")
	cmd.Flags().BoolVar(&r.choice.Projects, "projects", false, "also take servers that a client keeps for single folders")
	return cmd
}

// look reads sources and says which cannot be read. It is an error if one that was named cannot.
func look(a *process, m *setup.Machine, words []string) ([]setup.Source, error) {
	sources, err := m.Look(words...)
	if err != nil {
		return nil, &failure{exitUsage, err}
	}
	good := sources[:0]
	for _, s := range sources {
		if s.Err == nil {
			good = append(good, s)
			continue
		}
		if len(words) > 0 {
			return nil, &failure{exitUsage, s.Err}
		}
		a.note("left out: %v", s.Err)
	}
	return good, nil
}

// answers returns how the questions of clients are answered: by the variable that weir's own inputs
// have, else by a person, unless the command asks nothing.
func (c *changing) answers(a *process, ctx context.Context) func(client, server string, question splice.Object) (string, bool) {
	q, person := newQuestions(a)
	person = person && !c.yes && !c.dryRun
	return func(client, server string, question splice.Object) (string, bool) {
		in := config.Input{Password: question.Get("password") == true}
		in.ID, _ = question.Get("id").(string)
		if answer := a.env(config.InputVariable(in.ID)); answer != "" {
			return answer, true
		}
		if !person || ctx.Err() != nil {
			return "", false
		}
		what, _ := question.Get("description").(string)
		in.Description = server + " of " + client + " asks for " + cmp.Or(what, in.ID)
		if fallback, ok := question.Get("default").(string); ok && fallback != "" {
			in.Default = &fallback
		} else {
			in.Description += " (Enter leaves it in " + client + ")"
		}
		if options, ok := question.Get("options").([]any); ok {
			for _, option := range options {
				in.Options = append(in.Options, fmt.Sprint(option))
			}
		}
		answer, ok, err := q.ask(ctx, in)
		return answer, ok && err == nil
	}
}

// carryOut shows a plan, asks, and makes the change.
func (c *changing) carryOut(a *process, ctx context.Context, m *setup.Machine, p *setup.Plan, where secretFlag) error {
	place, err := where.place()
	if err != nil {
		return err
	}
	out := asPlanJSON(m, p)
	if !c.asJSON {
		showPlan(a, m, p)
	}
	if p.Empty() {
		if c.asJSON {
			return printJSON(a.stdout, out)
		}
		_, err := fmt.Fprintln(a.stdout, "There is nothing to change.")
		return err
	}
	ok, err := c.agree(a, ctx, "Make these changes?")
	if err != nil || !ok {
		out.DryRun = true
		if c.asJSON {
			if failed := printJSON(a.stdout, out); failed != nil {
				return failed
			}
		}
		if err == nil && !c.dryRun {
			a.note("nothing has changed")
		}
		return err
	}
	if c.first != nil {
		if err := c.first(ctx); err != nil {
			return err
		}
	}
	stop := a.spin("writing")
	r, err := p.Apply(ctx, place)
	stop()
	if err != nil {
		return err
	}
	if !c.asJSON {
		return showDone(a.stdout, p, r)
	}
	out.add(r)
	return printJSON(a.stdout, out)
}

// showDone prints the finished changes and the steps that are left to the person.
func showDone(stdout terminal, p *setup.Plan, r setup.Result) error {
	t := stdout
	places := map[string][]string{}
	for _, s := range r.Secrets {
		places[s.Where] = append(places[s.Where], s.Name)
	}
	for _, where := range []string{"keyring", "file"} {
		if names := places[where]; len(names) > 0 {
			fmt.Fprintf(t, "%s kept in the %s (weir secret ls).\n", counted(len(names), "secret"), where)
		}
	}
	if len(r.Exports) > 0 {
		fmt.Fprintln(t, "Set these variables where weir starts:")
		for _, s := range r.Exports {
			fmt.Fprintf(t, "  export %s=%s\n", s.Name, t.clean(s.String()))
		}
	}
	showAdvice(stdout, p)
	item(t, green, "✓", "done", p.Summary)
	_, err := fmt.Fprintln(t, "To take it back: weir undo")
	return err
}

// showAdvice prints the next step in each client whose file has changed.
func showAdvice(stdout terminal, p *setup.Plan) {
	told := map[string]bool{}
	for _, f := range p.Files {
		if f.Client == nil || told[f.Client.ID] {
			continue
		}
		told[f.Client.ID] = true
		if f.Client.Reload != clients.Live {
			fmt.Fprintf(stdout, "  %s: %s\n", f.Client.Name, f.Client.Reload.Advice())
		}
	}
}

func connectCommand(a *process) *cobra.Command {
	var c changing
	var where secretFlag
	var o clients.Select
	var keep, print, project bool
	var by entryFlags
	cmd := &cobra.Command{
		Use:   "connect CLIENT...",
		Short: "Put weir in the place of a client's servers",
		Long: `Put one entry, weir, into the file of an MCP client. The servers that stand there
come behind weir: into weir.yaml, and out of the client's file. Only these entries
change; comments, order and every other byte stay.

The entry starts "weir attach", which holds no secret. Where "weir service" runs the
gateway, no token is wanted and the client speaks HTTP, the entry is the gateway's URL;
--attach and --url choose otherwise. With --profile the client gets a profile in place
of the whole catalog, and keeps it when it is connected again. With --keep the client's
own servers stay. With --project the entry goes into this folder's file of the client.
With --print nothing is written: what to paste, and a link if the client has one.`,
		Example: `  weir connect claude-code cursor
  weir connect cursor --profile frontend
  weir connect zed --print`,
		Args:              positional(cobra.MinimumNArgs(1)),
		ValidArgsFunction: completeClients(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, word := range args {
				if _, ok := clients.ByID(word); !ok {
					return failf(exitUsage, "there is no client %q; it is one of: %s", word, strings.Join(clientIDs(), ", "))
				}
			}
			m, err := a.machine(c.config)
			if err != nil {
				return err
			}
			if err := by.choose(cmd.Context(), cmd, &m.How, m.Config); err != nil {
				return err
			}
			if err := machine.Lasting(m.How); err != nil {
				return &failure{exitUsage, err}
			}
			if print {
				return printSnippets(a, m, args)
			}
			return runConnect(a, cmd.Context(), &c, m, where, args, o, keep, project)
		},
	}
	c.flags(cmd)
	where.flag(cmd)
	by.flags(cmd)
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the client's own servers where they are")
	cmd.Flags().BoolVar(&print, "print", false, "print what to paste, and change nothing")
	cmd.Flags().BoolVar(&project, "project", false, "write this folder's file of the client; its servers stay")
	cmd.Flags().BoolVar(&o.All, "all", false, "also move servers that are switched off; they stay switched off")
	cmd.MarkFlagsMutuallyExclusive("print", "project")
	return cmd
}

func clientIDs() (ids []string) {
	for _, c := range clients.All() {
		ids = append(ids, c.ID)
	}
	return ids
}

// printSnippets prints the entries that a person pastes into clients.
func printSnippets(a *process, m *setup.Machine, ids []string) error {
	for _, id := range ids {
		c, _ := clients.ByID(id)
		text, link, err := c.Snippet(m.How)
		if err != nil {
			return err
		}
		if file := c.DefaultFile(m.Env); file != "" {
			a.note("for %s", file)
		}
		if _, err := fmt.Fprintln(a.stdout, strings.TrimRight(text, "\n")); err != nil {
			return err
		}
		if link != "" {
			if _, err := fmt.Fprintln(a.stdout, link); err != nil {
				return err
			}
		}
	}
	return nil
}

func runConnect(a *process, ctx context.Context, c *changing, m *setup.Machine, where secretFlag, ids []string, o clients.Select, keep, project bool) error {
	sources, err := look(a, m, ids)
	if project {
		sources, err = m.Projects(".", ids)
		keep = true
	}
	if err != nil {
		return err
	}
	var from []setup.Source
	if !keep {
		from = sources
	}
	o.Answer = c.answers(a, ctx)
	p, err := m.Import("connect", from, o)
	if err != nil {
		return err
	}
	if err := p.ConnectAll(sources, keep); err != nil {
		return &failure{exitUsage, err}
	}
	return c.carryOut(a, ctx, m, p, where)
}

func disconnectCommand(a *process) *cobra.Command {
	var c changing
	var url string
	cmd := &cobra.Command{
		Use:   "disconnect CLIENT...",
		Short: "Take weir out of a client, and put its servers back",
		Long: `Take weir's entry out of the file of an MCP client, and put the servers back that
"weir connect" took out, byte by byte. They stay in weir.yaml as well.`,
		Args:              positional(cobra.MinimumNArgs(1)),
		ValidArgsFunction: completeClients(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := a.machine(c.config)
			if err != nil {
				return err
			}
			if url != "" {
				m.How.Known = append(m.How.Known, url)
			}
			sources, err := look(a, m, args)
			if err != nil {
				return err
			}
			p, err := m.Disconnect(sources)
			if err != nil {
				return err
			}
			return c.carryOut(a, cmd.Context(), m, p, "")
		},
	}
	c.flags(cmd)
	cmd.Flags().StringVar(&url, "url", "", "also take entries with this URL for weir's")
	return cmd
}

func clientsCommand(a *process) *cobra.Command {
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "clients",
		Short: "List the MCP clients of this machine, wired or not",
		Args:  positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := a.machine("")
			if err != nil {
				return err
			}
			var words []string
			if all {
				words = clientIDs()
			}
			sources, err := m.Look(words...)
			if err != nil {
				return err
			}
			return printSources(a, sources, asJSON)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "list all clients that weir knows")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// printSources lists clients with their files.
func printSources(a *process, sources []setup.Source, asJSON bool) error {
	type line struct {
		Client  string `json:"client"`
		Name    string `json:"name"`
		State   string `json:"state"` // wired, not wired, no file, paste, unreadable
		Servers int    `json:"servers"`
		File    string `json:"file,omitempty"`
		Error   string `json:"error,omitempty"`
	}
	lines, rows, notes := []line{}, [][]cell{}, []string{}
	for _, s := range sources {
		state, servers := s.State()
		l := line{Client: s.Client.ID, Name: s.Client.Name, State: state, File: s.File, Servers: servers}
		if s.Err != nil {
			l.Error = s.Err.Error()
		}
		style := map[string]string{"unreadable": red, "wired": green, "no file": dim, "not wired": yellow}[state]
		lines = append(lines, l)
		rows = append(rows, []cell{{cyan, l.Client}, {style, l.State}, {"", fmt.Sprint(l.Servers)}, {"", a.tilde(l.File)}})
		notes = append(notes, l.Error)
	}
	if asJSON {
		return printJSON(a.stdout, lines)
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(a.stdout, "No MCP client was found. weir clients --all lists those that weir knows.")
		return err
	}
	return printNotedTable(a.stdout, []column{{"CLIENT", between}, {"STATE", whole}, {"SERVERS", whole}, {"FILE", between}}, rows, notes)
}

// completeClients completes ids of clients; it reads no file of a client.
func completeClients(files bool) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		var out []string
		for _, c := range clients.All() {
			if !slices.Contains(args, c.ID) {
				out = append(out, c.ID+"\t"+c.Name)
			}
		}
		if files {
			for _, word := range []string{setup.ClaudeExtensions, setup.DockerMCP} {
				if !slices.Contains(args, word) {
					out = append(out, word)
				}
			}
			return out, cobra.ShellCompDirectiveDefault
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
