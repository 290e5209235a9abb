package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/demo"
)

func demoCommand(a *process) *cobra.Command {
	var opts demo.Options
	cmd := &cobra.Command{
		Use:   "demo NAME",
		Short: "Run one of the quickstart's MCP servers",
		Long: fmt.Sprintf(`Run one of the small MCP servers that the quickstart puts behind a gateway: %s.
inventory speaks streamable HTTP, at http://ADDRESS/mcp; the others speak on
standard input and output.`, strings.Join(demo.Names(), ", ")),
		Example:   "  weir demo inventory --listen 127.0.0.1:8090",
		Args:      positional(cobra.ExactArgs(1)),
		ValidArgs: demo.Names(),
		RunE: func(cmd *cobra.Command, args []string) error {
			logger := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
			err := demo.Run(cmd.Context(), args[0], opts, a.stdin, a.stdout.Writer, logger)
			if errors.Is(err, demo.ErrUnknownServer) {
				return &failure{exitUsage, err}
			}
			return err
		},
	}
	cmd.Flags().StringArrayVar(&opts.Allow, "allow", nil, "host:port of a server from which chart may fetch rows; once for each")
	cmd.Flags().StringVar(&opts.Listen, "listen", "", "address of a server that speaks HTTP (default "+demo.DefaultListen+")")
	return cmd
}
