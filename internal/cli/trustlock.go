package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/lockfile"
	"github.com/weir-mcp/weir/internal/policy/definitions"
	"github.com/weir-mcp/weir/internal/web/api"
)

// A definitionSource compares the definitions of servers with weir.lock, in this process or in another one.
type definitionSource interface {
	status(ctx context.Context) (*lockfile.Status, error)
	accept(ctx context.Context, a lockfile.Acceptance) ([]lockfile.Difference, error)
}

// ownDefinitions is the definitionSource of a gateway in this process.
type ownDefinitions struct{ *definitions.Lock }

func (o ownDefinitions) status(context.Context) (*lockfile.Status, error) { return o.Status(), nil }

func (o ownDefinitions) accept(ctx context.Context, a lockfile.Acceptance) ([]lockfile.Difference, error) {
	return o.Accept(ctx, a)
}

// operatedDefinitions is the definitionSource of a running gateway.
type operatedDefinitions struct{ *operator }

func (o operatedDefinitions) status(ctx context.Context) (*lockfile.Status, error) {
	s := &lockfile.Status{}
	return s, o.get(ctx, "definitions", s)
}

func (o operatedDefinitions) accept(ctx context.Context, a lockfile.Acceptance) ([]lockfile.Difference, error) {
	var done api.Accepted
	err := o.post(ctx, "definitions/accept", a, &done)
	return done.Accepted, err
}

// openDefinitions returns the definitions of a running gateway, or else of one of this command's own.
// The caller calls done.
func openDefinitions(a *process, ctx context.Context, t target) (from definitionSource, done func(), err error) {
	o, err := findOperator(a, ctx, t)
	if err == nil {
		return operatedDefinitions{o}, func() {}, nil
	}
	var failed *failure
	if !errors.As(err, &failed) || failed.code != exitUnavailable || t.url != "" {
		return nil, nil, err
	}
	c, err := findConfig(a.lookupEnv, t.config)
	if err == nil {
		err = c.agree(a, ctx, true)
	}
	if err != nil {
		return nil, nil, err
	}
	own, err := openOwn(a, ctx, t, c)
	if err != nil {
		return nil, nil, err
	}
	return own.definitions, own.close, nil
}

// withDefinitions calls do with the definitions that a command is about, and with how they differ from
// weir.lock now.
func withDefinitions(a *process, ctx context.Context, t target, do func(from definitionSource, status *lockfile.Status) error) error {
	from, done, err := openDefinitions(a, ctx, t)
	if err != nil {
		return err
	}
	defer done()
	status, err := from.status(ctx)
	if err != nil {
		return err
	}
	return do(from, status)
}

// lockHelp ends the help of commands about weir.lock.
const lockHelp = `
Which gateway is asked:
  --url URL       the one that runs there (or $WEIR_URL)
  --config FILE   the one that "weir serve" runs with this file
  neither         the one that "weir serve" runs with this folder's weir.yaml,
                  weir.yml, weir.json or .mcp.json, else with your own weir.yaml
                  (weir help files)
If it does not run, the command starts the servers itself.`

func (t *target) lockFlags(cmd *cobra.Command) {
	t.serverFlags(cmd)
	cmd.Flags().StringVar(&t.config, "config", "", "ask the gateway that runs with this configuration")
	cmd.Long = strings.TrimSpace(cmd.Long) + "\n" + lockHelp
}

func trustDiffCommand(a *process) *cobra.Command {
	var t target
	var findings, asJSON bool
	cmd := &cobra.Command{
		Use:   "diff [SERVER]",
		Short: "Show what servers offer differently than weir.lock says",
		Long: `Show how the tools, prompts, resource templates and instructions of servers
differ from weir.lock, member by member. weir.lock is next to the configuration
and has what each server offered when it was listed first, where trust is set.
Invisible characters are shown as \u escapes.

The exit code is 1 if something differs.`,
		Example:           "  weir trust diff\n  weir trust diff files --findings",
		Args:              positional(cobra.MaximumNArgs(1)),
		ValidArgsFunction: a.completeRunning(&t, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withDefinitions(a, cmd.Context(), t, func(_ definitionSource, status *lockfile.Status) error {
				if len(args) == 1 {
					one, err := lockedServer(status, args[0])
					if err != nil {
						return err
					}
					status.Servers = []lockfile.ServerStatus{one}
				}
				if asJSON {
					if err := printJSON(a.stdout, status); err != nil {
						return err
					}
				} else {
					printLockStatus(a.stdout, status, findings)
				}
				if status.Error != "" || slices.ContainsFunc(status.Servers, func(s lockfile.ServerStatus) bool { return len(s.Differences) > 0 }) {
					return errQuiet(exitTool)
				}
				return nil
			})
		},
	}
	t.lockFlags(cmd)
	cmd.Flags().BoolVar(&findings, "findings", false, "also show findings about definitions that do not differ")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// lockedServer returns the status of a server.
func lockedServer(s *lockfile.Status, name string) (lockfile.ServerStatus, error) {
	var names []string
	for _, one := range s.Servers {
		if one.Server == name {
			return one, nil
		}
		names = append(names, one.Server)
	}
	if len(names) == 0 {
		return lockfile.ServerStatus{}, failf(exitRefused, "no server is compared with weir.lock: set trust: warn, hold or refuse in the configuration, for all servers or for mcpServers.%s", name)
	}
	return lockfile.ServerStatus{}, failf(exitRefused, "weir.lock is not compared with a server %q; it is with: %s", name, strings.Join(names, ", "))
}

// printLockStatus prints how servers differ from the lock.
func printLockStatus(stdout terminal, status *lockfile.Status, findings bool) {
	out := stdout
	if status.Error != "" {
		fmt.Fprintln(out, out.paint(red, out.clean(status.Error)))
	}
	if len(status.Servers) == 0 {
		fmt.Fprintln(out, "No server is compared with weir.lock. Set trust: warn, hold or refuse in the configuration.")
	}
	for _, s := range status.Servers {
		head := fmt.Sprintf("%s: as in weir.lock", s.Server)
		if n := len(s.Differences); n > 0 {
			head = fmt.Sprintf("%s: %s (trust: %s, %s)", s.Server, counted(n, "difference"), s.Mode, s.State)
		}
		fmt.Fprintln(out, out.paint(bold, out.clean(head)))
		for _, d := range s.Differences {
			printDifference(stdout, d)
		}
		for _, f := range s.Findings {
			if !findings {
				fmt.Fprintf(out, "  %s about definitions that do not differ: weir trust diff %s --findings\n", counted(len(s.Findings), "finding"), s.Server)
				break
			}
			fmt.Fprintln(out, out.paint(yellow, out.clean(oneLine(fmt.Sprintf("  ! %s %s: %s", f.Kind, f.Name, f.Message)))))
		}
		if len(s.Differences) > 0 {
			fmt.Fprintf(out, "Agree to all of it: weir trust accept %s\n", s.Server)
		}
	}
}

// printDifference prints one definition with its findings and its changed members.
func printDifference(stdout terminal, d lockfile.Difference) {
	out := stdout
	signs := map[catalog.ChangeKind]struct{ sign, style string }{catalog.EntryAdded: {"+", green}, catalog.EntryRemoved: {"-", red}, catalog.EntryChanged: {"~", yellow}}
	head := fmt.Sprintf("  %s %s", signs[d.Change].sign, strings.ReplaceAll(string(d.Kind), "_", " "))
	if d.Name != "" {
		head += " " + d.Name
	}
	if d.Held {
		head += " (held)"
	}
	fmt.Fprintln(out, out.paint(signs[d.Change].style, out.clean(oneLine(head))))
	for _, f := range d.Findings {
		fmt.Fprintln(out, out.paint(yellow, out.clean(oneLine("      ! "+f.Message))))
	}
	for _, m := range d.Members {
		for _, side := range []struct{ sign, style, value string }{{"-", red, m.Before}, {"+", green, m.After}} {
			if side.value != "" {
				fmt.Fprintln(out, out.paint(side.style, out.clean(oneLine(fmt.Sprintf("      %s %s: %s", side.sign, m.Path, side.value)))))
			}
		}
	}
}

func trustAcceptCommand(a *process) *cobra.Command {
	var t target
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "accept [SERVER[:NAME]]...",
		Short: "Agree to what servers offer now, and write it to weir.lock",
		Long: `Agree to what servers offer now. weir writes it to weir.lock, and a running gateway
serves it at once. SERVER is everything of a server, SERVER:NAME one tool, prompt
or resource template. Look first, with weir trust diff.`,
		Example:           "  weir trust accept files\n  weir trust accept files:read_file\n  weir trust accept --all",
		ValidArgsFunction: a.completeRunning(&t, 0),
		Args: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return failf(exitUsage, "name servers (SERVER or SERVER:NAME), or accept everything with --all")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return withDefinitions(a, cmd.Context(), t, func(from definitionSource, status *lockfile.Status) error {
				what, err := acceptances(status, args)
				if err != nil {
					return err
				}
				accepted := []lockfile.Difference{}
				for _, one := range what {
					some, err := from.accept(cmd.Context(), one)
					if err != nil {
						return err
					}
					accepted = append(accepted, some...)
				}
				if asJSON {
					return printJSON(a.stdout, accepted)
				}
				for _, d := range accepted {
					fmt.Fprintln(a.stdout, a.stdout.clean(oneLine("accepted: "+d.String())))
				}
				if len(accepted) == 0 {
					fmt.Fprintln(a.stdout, "Nothing differs from weir.lock.")
				}
				return nil
			})
		},
	}
	t.lockFlags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "everything of all servers")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// acceptances returns the current definitions that the arguments name; without arguments, all of them.
func acceptances(status *lockfile.Status, args []string) (list []lockfile.Acceptance, err error) {
	if len(args) == 0 {
		for _, s := range status.Servers {
			if len(s.Differences) > 0 {
				list = append(list, lockfile.Acceptance{Server: s.Server, Hash: s.Digest})
			}
		}
		return list, nil
	}
	for _, arg := range args {
		server, name, one := strings.Cut(arg, ":")
		s, err := lockedServer(status, server)
		if err != nil {
			return nil, err
		}
		if !one {
			if len(s.Differences) > 0 {
				list = append(list, lockfile.Acceptance{Server: s.Server, Hash: s.Digest})
			}
			continue
		}
		before := len(list)
		for _, d := range s.Differences {
			if d.Name == name && d.Kind != lockfile.KindServer {
				list = append(list, lockfile.Acceptance{Server: server, Kind: d.Kind, Name: name, Hash: d.Hash})
			}
		}
		if len(list) == before {
			return nil, failf(exitRefused, "nothing called %q of server %q differs from weir.lock: weir trust diff %s shows what does", name, server, server)
		}
	}
	return list, nil
}
