package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/web/api"
)

func flowListCommand(a *process) *cobra.Command {
	var t target
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List tools with their labels, and which are sinks",
		Long: `List each tool of a running gateway with the label of its results, the kind of sink
that it is, and the rules that say so. Below are the rules that fit no tool.`,
		Example: "  weir flow ls\n  weir flow ls --json",
		Args:    positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := findOperator(a, cmd.Context(), t)
			if err != nil {
				return err
			}
			var all flow.Listing
			if err := o.get(cmd.Context(), "flow", &all); err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.stdout, all)
			}
			return showLabels(a.stdout, a.note, all)
		},
	}
	t.operatorFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// showLabels prints the labels of tools.
func showLabels(out terminal, note func(format string, args ...any), all flow.Listing) error {
	var rows [][]cell
	for _, one := range all.Tools {
		style := green
		if one.Untrusted() {
			style = yellow
		}
		rows = append(rows, []cell{{"", one.ToolID}, {style, labelText(one.Integrity, one.Confidentiality)}, {"", one.Rule}, {"", cmp.Or(one.Sink, "-")}, {"", sinkText(one)}})
	}
	if err := printTable(out, []column{{"TOOL", between}, {"LABEL", whole}, {"BY", ending}, {"SINK", whole}, {"BY", wrapped}}, rows); err != nil {
		return err
	}
	note("flow.mode is %s, flow.summary %s", all.Mode, all.Summary)
	if len(all.Known) > 0 {
		note("always trusted as arguments: %s", oneLine(strings.Join(all.Known, ", ")))
	}
	for _, rule := range all.Unused {
		note("%s fits no tool", rule)
	}
	return nil
}

// labelText returns a label in a few words.
func labelText(integrity string, names []string) string {
	if len(names) == 0 {
		return integrity
	}
	return integrity + ", for " + strings.Join(names, ", ")
}

// sinkText returns what the rules say of a tool as a sink, and of its values.
func sinkText(one flow.Tool) string {
	parts := []string{one.SinkRule}
	if len(one.Labels) > 0 {
		leaves := "lets " + strings.Join(one.Labels, ", ") + " leave"
		if len(one.To) > 0 {
			leaves += " to " + strings.Join(one.To, ", ")
		}
		parts = append(parts, leaves)
	}
	if len(one.Sensitive) > 0 {
		parts = append(parts, "sensitive: "+strings.Join(one.Sensitive, ", "))
	}
	if one.TrustedArgs {
		parts = append(parts, "trusted_args")
	}
	if len(one.Declassified) > 0 {
		parts = append(parts, one.DeclassifyRule+": "+strings.Join(one.Declassified, ", "))
	}
	if parts[0] == "" {
		parts = parts[1:]
	}
	return strings.Join(parts, "; ")
}

func flowSessionsCommand(a *process) *cobra.Command {
	var t target
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "Show what the models of open sessions have read",
		Long: `Show the label of each open session, and what gave it: the tool, the time and the
beginning of the text. Sessions that have read nothing with a label are left out.
Clients of the modern era have no session: "principal:NAME" stands for all of theirs.`,
		Example: "  weir flow sessions",
		Args:    positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := findOperator(a, cmd.Context(), t)
			if err != nil {
				return err
			}
			var all api.Readings
			if err := o.get(cmd.Context(), "flow/sessions", &all); err != nil {
				return err
			}
			switch {
			case asJSON:
				return printJSON(a.stdout, all.Sessions)
			case len(all.Sessions) == 0:
				a.note("No open session has read anything with a label.")
			}
			for _, one := range all.Sessions {
				showReading(a.stdout, one)
			}
			return nil
		},
	}
	t.operatorFlags(cmd)
	t.nodeFlag(a, cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// showReading prints what the model of a session has read.
func showReading(out terminal, one flow.Reading) {
	fmt.Fprintf(out, "%s  %s  %s\n", out.paint(cyan, out.clean(one.Session)), out.clean(labelText(one.Integrity, one.Confidentiality)), out.paint(dim, out.clean("of "+one.Principal)))
	for _, from := range one.Sources {
		line := "  " + from.At.Local().Format(time.DateTime) + "  " + from.Tool
		if from.Head != "" {
			line += ": " + fmt.Sprintf("%q", from.Head)
		}
		fmt.Fprintln(out, out.clean(oneLine(line)))
	}
}

func flowClearCommand(a *process) *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "clear SESSION",
		Short: "Clear the label of a session",
		Long: `Clear the label of a session: from then on, its model counts as if it had read
nothing. Look at "weir flow sessions" first. The audit log records who did it.`,
		Example: "  weir flow sessions\n  weir flow clear 2f6a01c9b3d4",
		Args:    positional(cobra.ExactArgs(1)),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (ids []cobra.Completion, _ cobra.ShellCompDirective) {
			ctx := cmp.Or(cmd.Context(), context.Background())
			ctx, cancel := context.WithTimeout(ctx, completeTimeout)
			defer cancel()
			var all api.Readings
			if o, err := findOperator(a, ctx, t); err == nil && len(args) == 0 && o.get(ctx, "flow/sessions", &all) == nil {
				for _, one := range all.Sessions {
					ids = append(ids, cobra.CompletionWithDesc(one.Session, cut(oneLine(one.Principal), 60)))
				}
			}
			return ids, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := findOperator(a, cmd.Context(), t)
			if err != nil {
				return err
			}
			var was flow.Reading
			if err := o.post(cmd.Context(), "flow/clear", api.Clearing{Session: args[0]}, &was); err != nil {
				return err
			}
			a.note("cleared: session %s of %s was %s", oneLine(was.Session), oneLine(was.Principal), oneLine(labelText(was.Integrity, was.Confidentiality)))
			return nil
		},
	}
	t.operatorFlags(cmd)
	t.nodeFlag(a, cmd)
	return cmd
}
