package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/metatool"
)

func searchCommand(a *process) *cobra.Command {
	var (
		t      target
		k      int
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:     "search QUERY",
		Short:   "Find tools by what they should do",
		Long:    `Find tools by what they should do, best first: what an agent gets from tool_browse with a query.`,
		Example: `  weir search "storm warnings for an area" -k 5`,
		Args:    positional(cobra.MinimumNArgs(1)),

		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if k < 1 || k > metatool.MaxTopK {
				return failf(exitUsage, "-k %d: it must be from 1 to %d", k, metatool.MaxTopK)
			}
			return findTools(a, cmd, t, browseArgs{Query: strings.Join(args, " "), TopK: k}, asJSON)
		},
	}
	t.flags(cmd)
	cmd.Flags().IntVarP(&k, "top-k", "k", metatool.DefaultTopK, fmt.Sprintf("most tools to show, up to %d", metatool.MaxTopK))
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with scores")
	return cmd
}

func browseCommand(a *process) *cobra.Command {
	var (
		t      target
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:     "browse [PATH]",
		Short:   "Walk the tree of tools",
		Long:    `Walk the tree of tools, from / (the namespaces) down: what an agent gets from tool_browse with a path.`,
		Example: "  weir browse /\n  weir browse /inventory",
		Args:    positional(cobra.MaximumNArgs(1)),

		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "/"
			if len(args) == 1 {
				path = args[0]
			}
			return findTools(a, cmd, t, browseArgs{Path: path}, asJSON)
		},
	}
	t.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// findTools prints the cards of one tool_browse.
func findTools(a *process, cmd *cobra.Command, t target, args browseArgs, asJSON bool) error {
	c, err := openTarget(a, cmd.Context(), t)
	if err != nil {
		return err
	}
	defer c.close()
	if args.Query == "" && args.Path == "" {
		return failf(exitUsage, "the query is empty: say what the tool should do")
	}
	found, err := c.browse(cmd.Context(), args)
	if err != nil {
		return refuse(a.stdout, err, asJSON)
	}
	switch {
	case asJSON:
		err = printJSON(a.stdout, found.raw)
	case len(found.cards) == 0 && args.Query != "":
		a.note("No tool matches. Try other words, or weir browse / to see what there is.")
	case len(found.cards) == 0:
		a.note("There is nothing here.")
	default:
		if found.hint != "" {
			a.note("%s; nearest:", found.hint)
		}
		err = printCards(a.stdout, found.cards)
	}
	noteMissed(a, found)
	return err
}

// noteMissed prints which servers were not searched.
func noteMissed(a *process, b *browsed) {
	if b.missed != "" {
		a.note("%s", b.missed)
	}
}
