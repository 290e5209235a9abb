package cli

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func upgradeCommand(a *process) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Print the command that upgrades weir",
		Long: `Print the command that upgrades weir, as it was installed: with Homebrew, npm, pip,
go install, from a package of the system and so on. weir downloads nothing
itself, and asks no server whether there is a newer version.`,
		Args: positional(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			info, _ := debug.ReadBuildInfo()
			program := programPath()
			return printUpgrade(a, installed(program, info), program, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// printUpgrade prints only the command on standard output, so that a script can run it.
func printUpgrade(a *process, c channel, program string, asJSON bool) error {
	if asJSON {
		return printJSON(a.stdout, struct {
			Version string `json:"version"`
			Program string `json:"program"`
			Channel string `json:"channel"`
			Command string `json:"command,omitempty"`
			URL     string `json:"url"`
			Restart string `json:"restart,omitempty"` // for the service, after the upgrade
		}{a.version, program, c.name, c.command, downloads, serviceRestart(a)})
	}
	if restart := serviceRestart(a); restart != "" {
		defer a.note("The service runs the old version until it is restarted: %s", restart)
	}
	if c.command == "" {
		a.note("weir %s (%s) was installed %s. Its newest version is at", a.version, program, c.by)
		_, err := fmt.Fprintln(a.stdout, downloads)
		return err
	}
	a.note("weir %s (%s) was installed %s. To upgrade it, run", a.version, program, c.by)
	_, err := fmt.Fprintln(a.stdout, c.command)
	return err
}

// serviceRestart returns the command that restarts the service, "" if none is installed.
func serviceRestart(a *process) string {
	if s, err := a.service(); err == nil {
		if now, err := s.Installed(); now != nil || err != nil {
			return "weir service stop && weir service start"
		}
	}
	return ""
}
