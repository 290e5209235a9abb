package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/secret"
	"github.com/weir-mcp/weir/internal/signin/vault"
	"github.com/weir-mcp/weir/internal/text"
)

func secretCommand(a *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Keep secrets out of the configuration",
		Long: `Keep tokens and passwords out of the configuration, which names them as
${secret:NAME}. They are in the keyring of this system, or in secrets.yaml in
weir's folder (~/.config/weir), which only you can read: where there is no
keyring, or no terminal. A running gateway takes a new value at once.`,
		Example: `  weir secret set GITHUB_TOKEN                  # asks for the value
  pass show github | weir secret set GITHUB_TOKEN --stdin`,
		Args: positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(secretSetCommand(a), secretLsCommand(a), secretRmCommand(a))
	return cmd
}

// openSecrets returns the secrets of this user.
func openSecrets(lookupEnv func(string) (string, bool)) (*secret.Store, error) {
	dir, err := config.Folder(lookupEnv)
	if err != nil {
		return nil, err
	}
	return secret.System(dir, lookupEnv), nil
}

// withSecrets lets a configuration name the secrets of this user. Without a folder for them there
// are none.
func withSecrets(a *process, opts config.Options) config.Options {
	if store, err := openSecrets(a.lookupEnv); err == nil {
		opts.LookupSecret, opts.SecretsFile = store.Lookup, store.Path()
	}
	return opts
}

func secretSetCommand(a *process) *cobra.Command {
	var piped, asJSON bool
	var place string
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Store a secret",
		Long: `Store a secret, and ask for its value without showing it. With --stdin the value
is what standard input has, without the line break at its end. A secret of the same
name is replaced.`,
		Args: positional(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return setSecret(a, cmd.Context(), args[0], secret.Place(place), piped, asJSON)
		},
		ValidArgsFunction: completeSecrets(a.lookupEnv),
	}
	cmd.Flags().BoolVar(&piped, "stdin", false, "read the value from standard input")
	cmd.Flags().StringVar(&place, "store", string(secret.Auto), "auto, keyring or file; auto takes the keyring if there is a terminal and the keyring works")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	oneOf(cmd, "store", string(secret.Auto), string(secret.Keyring), string(secret.File))
	return cmd
}

func setSecret(a *process, ctx context.Context, name string, place secret.Place, piped, asJSON bool) error {
	if err := secret.CheckName(name); err != nil {
		return &failure{exitUsage, err}
	}
	switch place {
	case secret.Auto:
		if !a.stderr.screen() {
			place = secret.File // Only a person at a terminal can unlock a keyring.
		}
	case secret.Keyring, secret.File:
	default:
		return failf(exitUsage, "--store is auto, keyring or file, not %q", place)
	}
	store, err := openSecrets(a.lookupEnv)
	if err != nil {
		return err
	}
	value, err := secretValue(a, ctx, name, piped)
	if err != nil {
		return err
	}
	if _, err := vault.NewKeys([]string{value}); err != nil && name == keyName {
		return failf(exitUsage, "%s seals the sign-ins of weir, and this value is too short for a key; a secret of a server needs another name", keyName)
	}
	if place, err = store.Set(name, value, place); err != nil {
		return err
	}
	if asJSON {
		return printJSON(a.stdout, secret.Entry{Name: name, Place: place})
	}
	_, err = fmt.Fprintf(a.stdout, "%s is stored in %s (%s). Servers use it as ${secret:%s}.\n",
		name, placeText(store, place), text.Plural(len([]rune(value)), "character"), name)
	return err
}

// placeText names the place of a secret.
func placeText(store *secret.Store, place secret.Place) string {
	if place == secret.Keyring {
		return "the keyring"
	}
	return store.Path()
}

// secretValue reads the value of a secret from standard input, or asks the person at the terminal.
func secretValue(a *process, ctx context.Context, name string, piped bool) (string, error) {
	if piped {
		data, err := io.ReadAll(io.LimitReader(a.stdin, secret.MaxValue+3))
		if err != nil {
			return "", fmt.Errorf("reading the value: %w", err)
		}
		return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
	}
	q, ok := newQuestions(a)
	if !ok {
		return "", failf(exitUsage, "there is no terminal to ask for the value of %s: pipe it to weir secret set %s --stdin", name, name)
	}
	value, err := q.line(ctx, a.stderr.paint(bold, "Value of "+name+":"), true)
	if errors.Is(err, io.EOF) || err == nil && value == "" {
		return "", failf(exitUsage, "no value was given; nothing is stored")
	}
	return value, err
}

func secretLsCommand(a *process) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the names of secrets",
		Long:  "List the names of secrets, where each is kept and when it was stored. Values are never shown.",
		Args:  positional(cobra.NoArgs),
		RunE: func(_ *cobra.Command, _ []string) error {
			store, err := openSecrets(a.lookupEnv)
			if err != nil {
				return err
			}
			entries, err := store.List()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.stdout, orEmpty(entries))
			}
			if len(entries) == 0 {
				a.note("There are no secrets; weir secret set NAME stores one.")
				return nil
			}
			var rows [][]cell
			for _, e := range entries {
				changed := "-"
				if !e.Changed.IsZero() {
					changed = e.Changed.Local().Format(time.DateTime)
				}
				rows = append(rows, []cell{{text: e.Name}, {text: string(e.Place)}, {text: changed}})
			}
			return printTable(a.stdout, []column{{"NAME", between}, {"STORE", whole}, {"CHANGED", whole}}, rows)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func secretRmCommand(a *process) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rm NAME...",
		Short: "Remove secrets",
		Args:  positional(cobra.MinimumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			store, err := openSecrets(a.lookupEnv)
			if err != nil {
				return err
			}
			removed, failed := []string{}, []error(nil)
			for _, name := range args {
				err := store.Remove(name)
				if errors.Is(err, secret.ErrMissing) {
					err = failf(exitUsage, "%w; weir secret ls lists them", err)
				}
				if err != nil {
					failed = append(failed, err)
					continue
				}
				removed = append(removed, name)
			}
			if asJSON {
				err = printJSON(a.stdout, struct {
					Removed []string `json:"removed"`
				}{removed})
			} else if len(removed) > 0 {
				_, err = fmt.Fprintln(a.stdout, "removed", strings.Join(removed, ", "))
			}
			return errors.Join(append(failed, err)...)
		},
		ValidArgsFunction: completeSecrets(a.lookupEnv),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// completeSecrets completes names of secrets.
func completeSecrets(lookupEnv func(string) (string, bool)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		store, err := openSecrets(lookupEnv)
		if err != nil || cmd.Name() == "set" && len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		entries, err := store.List()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
