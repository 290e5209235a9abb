package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/signin/vault"
	"github.com/weir-mcp/weir/internal/upstream/credentials"
)

// maxCredential bounds a text that a caller stores.
const maxCredential = 64 << 10

// credentialRequest names a text of a caller.
type credentialRequest struct {
	config, as string
	asJSON     bool
}

func (r *credentialRequest) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.as, "as", "", "the caller whose credential it is")
	cmd.Flags().BoolVar(&r.asJSON, "json", false, "print JSON")
	credentialsConfig(cmd, &r.config)
}

// open returns the store of a configuration, and the record that a command works on. The audit log
// gets the command's changes.
func (r *credentialRequest) open(a *process, ctx context.Context, name, command string) (store vault.Store, id vault.ID, err error) {
	if err := config.CheckCredentialName(name); err != nil {
		return nil, id, &failure{exitUsage, err}
	}
	c, err := configForLogin(a, ctx, r.config)
	if err != nil {
		return nil, id, err
	}
	principal, err := callerOf(c, r.as)
	if err != nil {
		return nil, id, err
	}
	file, err := credentialsOf(a, c)
	if err == nil && file == nil {
		err = inMemory()
	}
	if err != nil {
		return nil, id, err
	}
	records, err := newCredentialLog(a, c, r.config, command)
	if err != nil {
		return nil, id, err
	}
	return records.store(file, false), credentials.TextID(name, principal), nil
}

func credentialsSetCommand(a *process) *cobra.Command {
	var r credentialRequest
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Store a credential that a server names as ${user:NAME}",
		Long: `Store a credential of yours that servers with credentials: user name as ${user:NAME}
in their headers or env. The command asks for it without showing it; without a
terminal it is what standard input has, without the line break at its end. A running
gateway uses it within seconds, and a program when it is started the next time.`,
		Example: `  weir credentials set jira                       # asks for the value
  pass show jira | weir credentials set jira --as ann`,
		Args: positional(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, id, err := r.open(a, cmd.Context(), args[0], "weir credentials set")
			if err != nil {
				return err
			}
			text, err := credentialText(a, cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := credentials.PutText(cmd.Context(), store, id, text); err != nil {
				return err
			}
			if r.asJSON {
				return printJSON(a.stdout, map[string]string{"name": args[0], "principal": id.Principal})
			}
			_, err = fmt.Fprintf(a.stdout, "%s is stored for the caller %s. Servers use it as ${user:%s}.\n", args[0], a.stdout.clean(id.Principal), args[0])
			return err
		},
	}
	r.flags(cmd)
	return cmd
}

func credentialsRmCommand(a *process) *cobra.Command {
	var r credentialRequest
	cmd := &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove a credential that weir credentials set has stored",
		Args:  positional(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, id, err := r.open(a, cmd.Context(), args[0], "weir credentials rm")
			if err != nil {
				return err
			}
			err = store.Delete(cmd.Context(), id)
			if errors.Is(err, vault.ErrMissing) {
				return failf(exitUsage, "the caller %s has no credential %q; weir credentials ls lists them", id.Principal, args[0])
			}
			if err != nil {
				return err
			}
			if r.asJSON {
				return printJSON(a.stdout, map[string]string{"name": args[0], "principal": id.Principal})
			}
			_, err = fmt.Fprintf(a.stdout, "%s is removed for the caller %s.\n", args[0], a.stdout.clean(id.Principal))
			return err
		},
	}
	r.flags(cmd)
	return cmd
}

// credentialText asks the person at the terminal for a credential, or reads it from standard input.
func credentialText(a *process, ctx context.Context, name string) (text string, err error) {
	if q, ok := newQuestions(a); ok {
		text, err = q.line(ctx, a.stderr.paint(bold, "Value of "+name+":"), true)
		if errors.Is(err, io.EOF) {
			err = nil
		}
	} else {
		var data []byte
		data, err = io.ReadAll(io.LimitReader(a.stdin, maxCredential+3))
		text = strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("reading the value of %s: %w", name, err)
	case text == "":
		return "", failf(exitUsage, "no value was given; nothing is stored. Pipe it to weir credentials set %s", name)
	case len(text) > maxCredential:
		return "", failf(exitUsage, "the value of %s has more than %d bytes", name, maxCredential)
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", failf(exitUsage, "the value of %s has a line break or another control character", name)
	}
	return text, nil
}
