package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/json/splice"
	"github.com/weir-mcp/weir/internal/setup"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/upstream/confined"
)

func sandboxCommand(l *learning) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sandbox",
		Short: "Find what the sandbox of a server must leave open",
		Args:  positional(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(l.command())
	return cmd
}

// sandboxesOf returns the way in which this machine confines programs, "none" without one, and what it leaves open.
func sandboxesOf(environ []string) (way string, open []string) {
	var s config.Server
	s.Sandbox.Mode = "auto"
	c := confined.New(confined.Options{Environ: environ}).Describe(&s)
	return c.Way, c.Open
}

// learning is a run of weir sandbox learn: a gateway that learns what one server needs.
type learning struct {
	changing
	calls []string // to make, as --call has them

	a      *process
	m      *setup.Machine
	server string
	lesson confined.Lesson
}

// only leaves the server in a configuration, with a sandbox.
func (l *learning) only(c *config.Config) error {
	at := slices.IndexFunc(c.Servers, func(s *config.Server) bool { return s.Name == l.server })
	if at < 0 {
		return failf(exitUsage, "there is no server %q", l.server)
	}
	s := c.Servers[at]
	switch {
	case s.Faulty():
		return failf(exitUsage, "%s: %s", s.Name, s.Fault())
	case s.Command == "":
		return failf(exitUsage, "a sandbox is for a program that weir starts, and %s has no command", s.Name)
	case s.Sandbox.Image != "":
		return failf(exitUsage, "%s runs in a container of %s: name what it needs in sandbox.read, write and net", s.Name, s.Sandbox.Image)
	}
	s.Sandbox.Mode, s.Disabled = "auto", false
	c.Servers = c.Servers[at : at+1]
	return nil
}

// into returns what the gateway tells; nil for a gateway that learns nothing.
func (l *learning) into() *confined.Lesson {
	if l == nil {
		return nil
	}
	return &l.lesson
}

func (l *learning) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "learn NAME",
		Short: "Run a server without walls once, and propose its sandbox",
		Long: `Start a server of weir.yaml once, list its tools and make the calls of --call, and
note the files and hosts that it touches. The proposal is the sandbox that leaves
exactly these open, in addition to what "auto" gives. It is written if you agree.

The server runs without walls for this time, as you: learn with a server that you
trust so far. It has a home folder of its own, which is empty and goes afterwards.
Files that hold secrets, such as ~/.ssh, are never proposed. Files are watched on
Linux; on other systems the proposal has hosts only.`,
		Example: `  weir sandbox learn github
  weir sandbox learn github --call 'search_repositories={"query":"mcp"}' --dry-run`,
		Args:              positional(cobra.ExactArgs(1)),
		ValidArgsFunction: l.a.completeServers(&l.config),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if l.m, err = l.a.nearMachine(l.config); err != nil {
				return err
			}
			entry, err := l.m.Entry(args[0])
			if errors.Is(err, setup.ErrNoServer) {
				return &failure{exitUsage, err}
			}
			if err != nil {
				return err
			}
			l.server = args[0]
			if err := l.run(cmd.Context()); err != nil {
				return err
			}
			p, err := l.plan(entry)
			if err != nil {
				return err
			}
			return l.carryOut(l.a, cmd.Context(), l.m, p, "")
		},
	}
	l.flags(cmd)
	cmd.Flags().StringArrayVar(&l.calls, "call", nil, "a call to make, TOOL or TOOL={JSON}; may be repeated")
	return cmd
}

// run starts the server, makes the calls and ends it.
func (l *learning) run(ctx context.Context) error {
	c, err := openOwn(l.a, ctx, target{learn: l}, &foundConfig{path: l.m.Config, ours: true})
	if err != nil {
		return err
	}
	defer c.close()
	health, err := c.health(ctx)
	if err != nil {
		return err
	}
	for _, s := range health.List() {
		if reason := trialFault(s); reason != "" {
			return failf(exitUnavailable, "%s does not work, so nothing is learned: %s", s.Name, reason)
		}
	}
	for _, call := range l.calls {
		tool, args, _ := strings.Cut(call, "=")
		if args == "" {
			args = "{}"
		}
		if !json.Valid([]byte(args)) {
			return failf(exitUsage, "--call %s: the arguments are no JSON object", oneLine(tool))
		}
		id, err := c.resolve(ctx, tool)
		if err != nil {
			return err
		}
		answer, err := c.execute(ctx, executeArgs{ToolID: id}, toolArgs{whole: json.RawMessage(args)}, callOutput{form: formText}.wire(), nil)
		if err != nil {
			return err
		}
		if answer.IsError {
			l.a.note("the call of %s failed: what it needs afterwards is not learned", oneLine(tool))
		}
	}
	return nil
}

// plan plans the sandbox that the server needs.
func (l *learning) plan(entry splice.Object) (*setup.Plan, error) {
	need := l.lesson.Proposal()
	had, _ := entry.Get("sandbox").(splice.Object)
	lists := splice.Object{}
	for _, list := range []struct {
		key   string
		paths []string
	}{{"read", need.Read}, {"write", need.Write}} {
		kept, _ := had.Get(list.key).([]any)
		for _, path := range list.paths {
			if !slices.Contains(kept, any(path)) {
				kept = append(kept, path)
			}
		}
		if len(kept) > 0 {
			lists = append(lists, splice.Member{Key: list.key, Value: kept})
		}
	}
	switch {
	case slices.Equal(need.Net, []string{"all"}):
		lists = append(lists, splice.Member{Key: "net"}) // taken out
	case slices.Equal(need.Net, []string{"none"}):
		lists = append(lists, splice.Member{Key: "net", Value: "none"})
	default:
		var hosts []any
		for _, host := range need.Net {
			hosts = append(hosts, host)
		}
		lists = append(lists, splice.Member{Key: "net", Value: hosts})
	}
	var value any = lists
	if len(had) == 0 && len(lists) == 1 && lists[0].Value == nil {
		value = "auto"
	}
	p, err := l.m.Amend(l.server, splice.Object{{Key: "sandbox", Value: value}})
	if err != nil {
		return nil, err
	}
	note := func(warn bool, format string, args ...any) {
		p.Notes = append(p.Notes, clients.Note{Server: l.server, Text: fmt.Sprintf(format, args...), Warn: warn})
	}
	for _, line := range []struct {
		name string
		list []string
	}{{"reads", need.Read}, {"changes", need.Write}, {"reaches", need.Net}} {
		if len(line.list) > 0 {
			note(false, "%s %s", line.name, strings.Join(line.list, ", "))
		}
	}
	if len(need.Withheld) > 0 {
		note(true, "touched %s, which is not proposed: it holds secrets or belongs to all", strings.Join(need.Withheld, ", "))
	}
	if len(need.Missed) > 0 {
		note(true, "looked in its own home for %s: copy it to the state folder of the server if it needs it", strings.Join(need.Missed, ", "))
	}
	if len(need.Direct) > 0 {
		note(true, "connects to %s without a proxy, so its hosts cannot be named: net stays all", strings.Join(need.Direct, ", "))
	}
	if need.Blind != nil {
		note(true, "its files were not watched: %v", need.Blind)
	}
	if need.Full {
		note(true, "it touched more files or hosts than are kept; the proposal may lack some")
	}
	return p, nil
}
