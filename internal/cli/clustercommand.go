package cli

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/web/api"
)

// clusterCommand shows and drains the nodes that share a store.
func clusterCommand(a *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show and drain the nodes of a cluster",
		Long: `Show and drain the nodes of a cluster: gateways that share a store
(store: nats://HOST:PORT). docs/cluster.md says how to run them.

Without a command it shows the nodes, as "weir cluster status" does.`,
		Example: "  weir cluster\n  weir cluster drain weir-2",
	}
	status := clusterStatusCommand(a)
	cmd.Args, cmd.RunE = positional(cobra.NoArgs), status.RunE
	cmd.Flags().AddFlagSet(status.Flags())
	cmd.AddCommand(status, clusterDrainCommand(a))
	return cmd
}

func clusterStatusCommand(a *process) *cobra.Command {
	var t target
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the nodes of a cluster",
		Long: `Show the nodes of a cluster as one of them sees them: state, version, load, the hash
of the configuration, and what they do not agree about. Below them are the servers
with scope: cluster, each with its holder.

The exit code is 0 if the nodes agree, and 1 if there are warnings: a store that does
not answer the node, a clock that is more than a minute off, or different
configurations. It is 4 for a gateway that is no node of a cluster.`,
		Example: "  weir cluster status\n  weir cluster status --json --url http://weir-1:8088/mcp",
		Args:    positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := findOperator(a, cmd.Context(), t)
			if err != nil {
				return err
			}
			var s api.ClusterStatus
			if err := o.get(cmd.Context(), "cluster", &s); err != nil {
				return err
			}
			if asJSON {
				err = printJSON(a.stdout, s)
			} else {
				err = showNodes(a, s, time.Now())
			}
			if err == nil && len(s.Warnings) > 0 {
				return errQuiet(exitTool)
			}
			return err
		},
	}
	t.operatorFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// showNodes prints a table of nodes, and their warnings.
func showNodes(a *process, s api.ClusterStatus, now time.Time) error {
	columns := []column{{"NODE", between}, {"STATE", whole}, {"CALLS", whole}, {"SESSIONS", whole}, {"CPU", whole}, {"UP", spare}, {"VERSION", spare}, {"CONFIG", spare}, {"INC", spare}}
	var rows [][]cell
	for _, n := range s.Nodes {
		name, style := n.Name, green
		if n.Self {
			name += " *"
		}
		if n.State != "up" {
			style = yellow
		}
		rows = append(rows, []cell{
			{"", name}, {style, n.State}, {"", strconv.Itoa(n.Calls)}, {"", strconv.Itoa(n.Sessions)}, {"", fmt.Sprintf("%.0f%%", 100*n.CPU)},
			{"", age(now.Sub(time.Unix(n.Started, 0)))}, {"", n.Version}, {"", n.Config}, {"", n.Inc},
		})
	}
	if err := printTable(a.stdout, columns, rows); err != nil {
		return err
	}
	if len(s.Servers) > 0 {
		rows = nil
		for _, one := range s.Servers {
			holder := cell{"", one.Node}
			if one.Node == "" {
				holder = cell{yellow, "none"}
			}
			rows = append(rows, []cell{{"", one.Name}, holder, {"", one.Inc}})
		}
		if _, err := fmt.Fprintln(a.stdout); err != nil {
			return err
		}
		if err := printTable(a.stdout, []column{{"SERVER", between}, {"HOLDER", between}, {"INC", spare}}, rows); err != nil {
			return err
		}
	}
	for _, text := range s.Warnings {
		a.note("warning: %s", oneLine(text))
	}
	return nil
}

// age returns a duration in its largest unit.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// drainPoll is how often a drained node is looked at until it is idle.
const drainPoll = 500 * time.Millisecond

func clusterDrainCommand(a *process) *cobra.Command {
	var t target
	var asJSON bool
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "drain NODE",
		Short: "Make a node take no new work",
		Long: `Make a node take no new work: its sessions go on at other nodes, its streams end so
that clients connect again, and /readyz answers 503. Calls that run there end. Then
the node can be stopped or upgraded. It stays as it is until it is started again.

NODE is a name or an INC of "weir cluster status". The command waits until the node
has no calls, at most --wait. A node that ends by SIGTERM drains by itself.

The exit code is 0 if the node has no calls any more, 1 if it still has some, 3 if it
does not answer, and 4 if there is no such node or the caller is no operator.`,
		Example: "  weir cluster drain weir-2\n  weir cluster drain weir-2 --wait 0",
		Args:    positional(cobra.ExactArgs(1)),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return completeNodes(a, cmd.Context(), t, args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if wait < 0 {
				return failf(exitUsage, "--wait needs a time such as 30s, or 0")
			}
			ctx := cmd.Context()
			o, err := findOperator(a, ctx, t)
			if err != nil {
				return err
			}
			var n api.ClusterNode
			if err := o.post(ctx, "cluster/nodes/"+url.PathEscape(args[0])+"/drain", struct{}{}, &n); err != nil {
				return err
			}
			if wait > 0 {
				stop := a.spin("waiting for the calls of " + oneLine(n.Name))
				n, err = o.idle(ctx, n, wait)
				stop()
				if err != nil {
					return err
				}
			}
			switch {
			case asJSON:
				if err := printJSON(a.stdout, n); err != nil {
					return err
				}
			case n.Calls > 0 && wait > 0:
				a.note("%s drains, and still has %s", oneLine(n.Name), counted(n.Calls, "call"))
			case wait > 0:
				a.note("%s is drained: stop it, or start it again", oneLine(n.Name))
			default:
				a.note("%s drains", oneLine(n.Name))
			}
			if n.Calls > 0 && wait > 0 {
				return errQuiet(exitTool)
			}
			return nil
		},
	}
	t.operatorFlags(cmd)
	cmd.Flags().DurationVar(&wait, "wait", 30*time.Second, "wait this long for the calls of the node; 0 does not wait")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// idle waits until a draining node has renewed its document and has no calls, or is gone. It returns the node as it
// was seen last.
func (o *operator) idle(ctx context.Context, n api.ClusterNode, wait time.Duration) (api.ClusterNode, error) {
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	over := time.NewTimer(wait)
	defer over.Stop()
	for {
		var s api.ClusterStatus
		if err := o.get(ctx, "cluster", &s); err != nil {
			return n, err
		}
		there := false
		for _, one := range s.Nodes {
			if one.Inc == n.Inc {
				n, there = one, true
			}
		}
		if !there || n.State != "up" && n.Calls == 0 {
			n.Calls = 0
			return n, nil
		}
		select {
		case <-tick.C:
		case <-over.C:
			return n, nil
		case <-ctx.Done():
			return n, ctx.Err()
		}
	}
}

// completeNodes returns the names of the nodes.
func completeNodes(a *process, ctx context.Context, t target, args []string) (names []cobra.Completion) {
	if len(args) > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	t.node = ""
	o, err := findOperator(a, ctx, t)
	if err != nil {
		return nil
	}
	var s api.ClusterStatus
	if o.get(ctx, "cluster", &s) != nil {
		return nil
	}
	for _, n := range s.Nodes {
		names = append(names, n.Name)
	}
	return names
}
