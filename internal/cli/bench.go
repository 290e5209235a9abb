package cli

import (
	"errors"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/search/eval"
)

func benchCommand(a *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure weir",
		Args:  positional(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(benchSearchCommand(a))
	return cmd
}

func benchSearchCommand(a *process) *cobra.Command {
	var (
		dir    string
		sets   []string
		misses bool
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "search --data DIR",
		Short: "Score the ranking on sets of queries with known answers",
		Long: `Score the ranking on sets of queries whose answers are known. Each set is a folder:

  DIR/<set>/tools.jsonl   {"id","server","name","description","inputSchema","tags"} a line
  DIR/<set>/dev.jsonl     {"id","query","gold":[id],"gold_groups":[[id]]} a line

A set without tools.jsonl searches the tools of the set with whose name its own name starts.`,
		Args: positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			stop := a.spin("scoring " + dir)
			report, err := eval.Run(cmd.Context(), dir, eval.Options{Sets: sets, Misses: misses})
			stop()
			switch {
			case errors.Is(err, eval.ErrNoSets), errors.Is(err, eval.ErrUnknownSet), errors.Is(err, fs.ErrNotExist):
				return &failure{exitUsage, err}
			case err != nil:
				return err
			case asJSON:
				return report.WriteJSON(a.stdout)
			}
			return errors.Join(report.WriteTable(a.stdout), report.WriteMisses(a.stdout))
		},
	}
	cmd.Flags().StringVar(&dir, "data", "", "folder with the sets (required)")
	cmd.Flags().StringSliceVar(&sets, "set", nil, "score only these sets, separated by commas")
	cmd.Flags().BoolVar(&misses, "misses", false, "print the queries whose first hit is wrong, and why")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	if err := cmd.MarkFlagRequired("data"); err != nil {
		panic(err) // cannot happen: the flag is defined above
	}
	return cmd
}
