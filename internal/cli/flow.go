package cli

import "github.com/spf13/cobra"

func flowCommand(a *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "flow",
		Short: "Flow labels: what a model has read decides what it may do",
		Args:  positional(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(flowListCommand(a), flowSessionsCommand(a), flowClearCommand(a), flowProposeCommand(a))
	return cmd
}
