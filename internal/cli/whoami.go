package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/web"
)

func whoamiCommand(a *process) *cobra.Command {
	var (
		t      target
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "whoami",
		Short: "Show who the running gateway takes you for",
		Long: `Show who the running gateway takes the caller for: the principal that your
sessions, tasks and results belong to, the issuer of the token, and the groups,
scopes and roles that rules look at. The token is in WEIR_TOKEN or --token.`,
		Example: "  weir whoami\n  weir whoami --url https://weir.example.com/mcp",
		Args:    positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, token, err := askedGateway(a, cmd.Context(), t)
			if err != nil {
				return err
			}
			var me web.Whoami
			if err := fetchBeside(cmd.Context(), at, token, "whoami", &me); err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.stdout, me)
			}
			printWhoami(a.stdout, me)
			return nil
		},
	}
	t.runningFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printWhoami(stdout terminal, me web.Whoami) {
	line := func(label, value string) {
		if value != "" {
			fmt.Fprintf(stdout, "%-10s %s\n", label, text.Line(value, 2000))
		}
	}
	line("principal", me.Principal)
	line("issuer", me.Issuer)
	line("client", me.Client)
	groups := strings.Join(me.Groups, ", ")
	if me.GroupsMissing {
		groups = cmp.Or(groups, "none") + " (the issuer left some out because they are too many: rules that allow by group do not match)"
	}
	line("groups", groups)
	line("scopes", strings.Join(me.Scopes, " "))
	line("roles", strings.Join(me.Roles, ", "))
	if me.Expires != nil {
		line("expires", me.Expires.Format(time.RFC3339))
	}
}
