package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/mcp"
)

func versionCommand(a *process) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  positional(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return printJSON(a.stdout, struct {
					Version  string   `json:"version"`
					Go       string   `json:"go"`
					Platform string   `json:"platform"`
					Protocol []string `json:"protocol_versions"`
				}{a.version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, mcp.Versions})
			}
			_, err := fmt.Fprintf(a.stdout, "weir %s (%s, %s/%s)\n", a.version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with the protocol versions spoken")
	return cmd
}
