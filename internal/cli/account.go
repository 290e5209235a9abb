package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/setup"
)

func accountCommand(a *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "account",
		Short: "Manage people who sign in with a password",
		Long: `Manage people who sign in at this gateway with a password. MCP clients need its
URL alone then: they register themselves, and the person signs in in the browser.
weir.yaml has the hashes of the passwords. A company takes its own identity
provider for that (auth.server: {people: NAME}).`,
		Example: `  weir account add ann                          # asks for the password
  pass show weir | weir account add ann --stdin --yes --group sre`,
		Args: positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(accountAddCommand(a), accountLsCommand(a), accountRmCommand(a))
	return cmd
}

// Bounds of passwords.
const (
	minPassword = 8
	maxPassword = 1024
)

var accountName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func accountAddCommand(a *process) *cobra.Command {
	var c changing
	var groups []string
	var piped bool
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a person, or give one another password",
		Long: `Add a person to auth.accounts of weir.yaml, or give one another password. The
password is asked for without showing it. Where weir.yaml has no auth.server, clients
may sign in with accounts from then on.`,
		Args: positional(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !accountName.MatchString(args[0]) {
				return failf(exitUsage, "a name has 1 to 64 letters, digits, dots, dashes and underscores, not %q", args[0])
			}
			m, err := a.nearMachine(c.config)
			if err != nil {
				return err
			}
			secret, err := newPassword(a, cmd.Context(), args[0], piped)
			if err != nil {
				return err
			}
			p, err := m.SetAccount(args[0], secret, groups, listenOf(m))
			if err != nil {
				return err
			}
			return c.carryOut(a, cmd.Context(), m, p, "")
		},
	}
	cmd.Flags().StringSliceVar(&groups, "group", nil, "a group that the person is in; may be repeated (default: those of before)")
	cmd.Flags().BoolVar(&piped, "stdin", false, "read the password from standard input")
	c.flags(cmd)
	return cmd
}

// listenOf returns the address at which the gateway of a configuration listens.
func listenOf(m *setup.Machine) string {
	if c := quietConfig(m.Config); c != nil {
		return c.Listen
	}
	return "127.0.0.1:8088"
}

// newPassword reads a new password from standard input, or asks the person at the terminal.
func newPassword(a *process, ctx context.Context, name string, piped bool) (secret string, err error) {
	if piped {
		data, err := io.ReadAll(io.LimitReader(a.stdin, maxPassword+3))
		if err != nil {
			return "", fmt.Errorf("reading the password: %w", err)
		}
		secret = strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	} else {
		q, ok := newQuestions(a)
		if !ok {
			return "", failf(exitUsage, "there is no terminal to ask for the password of %s: pipe it to weir account add %s --stdin", name, name)
		}
		if secret, err = q.line(ctx, a.stderr.paint(bold, "New password of "+name+":"), true); err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
	}
	if n := len([]rune(secret)); n < minPassword || len(secret) > maxPassword {
		return "", failf(exitUsage, "a password has %d characters or more; this one has %d, and nothing has changed", minPassword, n)
	}
	return secret, nil
}

func accountLsCommand(a *process) *cobra.Command {
	var path string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the people with a password",
		Args:  positional(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			m, err := a.nearMachine(path)
			if err != nil {
				return err
			}
			all, err := m.Accounts()
			if err != nil {
				return err
			}
			if asJSON {
				type account struct {
					Name   string   `json:"name"`
					Groups []string `json:"groups"`
				}
				out := []account{}
				for _, one := range all {
					out = append(out, account{one.Name, append([]string{}, one.Groups...)})
				}
				return printJSON(a.stdout, out)
			}
			if len(all) == 0 {
				fmt.Fprintf(a.stderr, "%s has no accounts; weir account add NAME makes one.\n", m.Config)
			}
			for _, one := range all {
				fmt.Fprintln(a.stdout, strings.TrimSpace(one.Name+"  "+strings.Join(one.Groups, ", ")))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "the weir.yaml to read (default: the user's, in the configuration folder)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func accountRmCommand(a *process) *cobra.Command {
	var c changing
	cmd := &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove a person",
		Long:  "Remove a person from auth.accounts of weir.yaml. A running gateway refuses the person's tokens at once.",
		Args:  positional(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := a.nearMachine(c.config)
			if err != nil {
				return err
			}
			p, err := m.RemoveAccount(args[0])
			if errors.Is(err, setup.ErrNoAccount) || errors.Is(err, setup.ErrLastAccount) {
				return &failure{exitUsage, err}
			}
			if err != nil {
				return err
			}
			return c.carryOut(a, cmd.Context(), m, p, "")
		},
	}
	c.flags(cmd)
	return cmd
}
