package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/secret"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/signin/oauth"
	"github.com/weir-mcp/weir/internal/signin/vault"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/upstream/credentials"
)

// keyName is the secret that seals the credentials of a person.
const keyName = "WEIR_CREDENTIALS_KEY"

// personal reports whether a gateway belongs to one person: only this machine reaches it, and it does
// not distinguish callers.
func personal(c *config.Config) bool {
	return !c.Auth.Required() && address.Loopback(hostOf(c.Listen))
}

// openCredentials returns where the tokens of sign-ins are kept (spec/signin §6). It is nil, which is
// memory, for a gateway that is not one person's, and where there is no folder for them.
func openCredentials(a *process, c *config.Config) vault.Store {
	if store, err := credentialsOf(a, c); err == nil && store != nil {
		return store
	}
	return nil
}

// credentialsOf returns the folder of a configuration's sign-ins. It is nil if they are in memory.
func credentialsOf(a *process, c *config.Config) (*vault.File, error) {
	switch folder := c.SignIns.Folder(); {
	case folder != "":
		texts := make([]string, len(c.SignIns.Keys))
		for i, key := range c.SignIns.Keys {
			texts[i] = key.Reveal()
		}
		return vault.NewFile(folder, func(bool) (*vault.Keys, error) { return vault.NewKeys(texts) }), nil
	case c.SignIns.Store == config.StoreMemory, !personal(c):
		return nil, nil
	}
	return personalCredentials(a)
}

// chosenCredentials returns the sign-ins that a command works on: the sign-ins of a configuration, if one
// is named or found, else of this user. The log gets the changes that the command makes.
func chosenCredentials(a *process, ctx context.Context, path, command string) (*vault.File, *credentialLog, error) {
	if _, err := findConfig(a.lookupEnv, path); path == "" && errors.Is(err, config.ErrNotFound) {
		store, err := personalCredentials(a)
		return store, &credentialLog{}, err
	}
	c, err := configForLogin(a, ctx, path)
	if err != nil {
		return nil, nil, err
	}
	store, err := credentialsOf(a, c)
	if err == nil && store == nil {
		err = inMemory()
	}
	if err != nil {
		return nil, nil, err
	}
	records, err := newCredentialLog(a, c, path, command)
	return store, records, err
}

// ofKinds returns the entries of a store that have some kinds.
func ofKinds(ctx context.Context, store vault.Store, kinds ...vault.Kind) ([]vault.Entry, error) {
	entries, err := store.List(ctx)
	return slices.DeleteFunc(entries, func(e vault.Entry) bool { return !slices.Contains(kinds, e.Kind) }), err
}

// configuredServers returns how to find a server of the configuration by its name, for a sign-out. It
// is nil if there is no configuration: sign-ins of this user outlive it.
func configuredServers(a *process, ctx context.Context, path string) func(name string) (*oauth.Server, bool) {
	if _, err := findConfig(a.lookupEnv, path); err != nil {
		return nil
	}
	c, err := configForLogin(a, ctx, path)
	if err != nil {
		return nil
	}
	return func(name string) (*oauth.Server, bool) {
		entry, ok := c.Server(name)
		if !ok {
			return nil, false
		}
		return credentials.SignInServer(entry)
	}
}

// inMemory is the error of a command that needs sign-ins in a folder.
func inMemory() error {
	return failf(exitUsage, "the sign-ins of this configuration end with its gateway: it keeps them in memory; set credentials.store: file:FOLDER, with credentials.keys")
}

// credentialsConfig adds the flag that names a configuration.
func credentialsConfig(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "config", "", "configuration (default: the one of this folder, else yours)")
}

// personalCredentials returns the credentials of this user: a folder of the state folder. Its key is a
// secret of the user, which is made with the first credential.
func personalCredentials(a *process) (*vault.File, error) {
	state, err := places(a.lookupEnv).State()
	if err != nil {
		return nil, err
	}
	secrets, err := openSecrets(a.lookupEnv)
	if err != nil {
		return nil, err
	}
	return vault.NewFile(filepath.Join(state, "credentials"), func(create bool) (*vault.Keys, error) {
		key, ok, err := secrets.Lookup(keyName)
		if err != nil {
			return nil, err
		}
		if !ok && create {
			where := secret.File
			if a.stderr.screen() {
				where = secret.Auto // a person is here to unlock a keyring
			}
			key = vault.NewKey()
			if _, err := secrets.Set(keyName, key, where); err != nil {
				return nil, err
			}
		} else if !ok {
			return nil, nil
		}
		return vault.NewKeys([]string{key})
	}), nil
}

func credentialsCommand(a *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "credentials",
		Short: "Show the sign-ins at servers, and keep credentials of callers",
		Long: `Show the sign-ins at servers, which weir login makes and weir logout removes, and
keep credentials that servers name as ${user:NAME}. None of them is ever shown.`,
		Args: positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(credentialsLsCommand(a), credentialsSetCommand(a), credentialsRmCommand(a), credentialsRekeyCommand(a))
	return cmd
}

// signedIn is a sign-in as weir credentials ls prints it.
type signedIn struct {
	Server    string    `json:"server"`
	Principal string    `json:"principal,omitempty"`
	Kind      string    `json:"kind"` // token or text
	Issuer    string    `json:"issuer"`
	Changed   time.Time `json:"changed"`
}

func credentialsLsCommand(a *process) *cobra.Command {
	var asJSON bool
	var path string
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the sign-ins at servers and the credentials of callers",
		Args:  positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, _, err := chosenCredentials(a, cmd.Context(), path, "")
			if err != nil {
				return err
			}
			entries, err := ofKinds(cmd.Context(), store, vault.Token, vault.Text)
			if err != nil {
				return err
			}
			list := []signedIn{}
			for _, e := range entries {
				list = append(list, signedIn{oauth.ServerName(e.ID), e.Principal, string(e.Kind), e.IssuedBy, e.Changed})
			}
			if asJSON {
				return printJSON(a.stdout, list)
			}
			if len(list) == 0 {
				a.note("There are no sign-ins; weir login NAME makes one.")
				return nil
			}
			var rows [][]cell
			for _, e := range list {
				rows = append(rows, []cell{{text: e.Server}, {text: cmp.Or(e.Principal, "all")}, {text: cmp.Or(e.Issuer, "${user:"+e.Server+"}")}, {text: e.Changed.Local().Format(time.DateTime)}})
			}
			return printTable(a.stdout, []column{{"SERVER", between}, {"CALLER", between}, {"ISSUER", between}, {"CHANGED", whole}}, rows)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	credentialsConfig(cmd, &path)
	return cmd
}

func credentialsRekeyCommand(a *process) *cobra.Command {
	var asJSON bool
	var path string
	cmd := &cobra.Command{
		Use:   "rekey",
		Short: "Seal all sign-ins with the first key",
		Long: `Seal all sign-ins with the first key of credentials.keys. To change the key, put the
new one before the old one, restart weir, run this command, and remove the old key.
Running gateways may go on meanwhile.`,
		Args: positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, records, err := chosenCredentials(a, cmd.Context(), path, "weir credentials rekey")
			if err == nil {
				err = records.tell(cmd.Context(), &audit.CredentialChange{Command: records.command, Kind: audit.Credential, Decision: "rekeyed"})
			}
			if err != nil {
				return err
			}
			changed, err := store.Rekey(cmd.Context())
			if asJSON {
				return errors.Join(err, printJSON(a.stdout, map[string]int{"sealed": changed}))
			}
			_, perr := fmt.Fprintf(a.stdout, "%s sealed with the first key.\n", text.Plural(changed, "credential"))
			return errors.Join(err, perr)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	credentialsConfig(cmd, &path)
	return cmd
}

func logoutCommand(a *process) *cobra.Command {
	var all, asJSON bool
	var path, as string
	cmd := &cobra.Command{
		Use:   "logout NAME | logout --all",
		Short: "Sign out of a server",
		Long: `Sign out of a server: its tokens are revoked where they were issued, and removed
here. If they cannot be revoked, they are removed nevertheless, and the command says
so and fails. A running gateway stops using them within seconds. At a server with
credentials: user all callers are signed out, or the one that --as names.`,
		Args:              positional(cobra.MaximumNArgs(1)),
		ValidArgsFunction: a.completeConfigured(&path, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) == 1) {
				return failf(exitUsage, "name a server, or give --all")
			}
			store, records, err := chosenCredentials(a, cmd.Context(), path, "weir logout")
			if err != nil {
				return err
			}
			entries, err := ofKinds(cmd.Context(), store, vault.Token)
			if err != nil {
				return err
			}
			client := oauth.New(oauth.Options{Store: records.store(store, false), Configured: configuredServers(a, cmd.Context(), path)})
			removed, failed := []string{}, []error(nil)
			for _, e := range entries {
				name := oauth.ServerName(e.ID)
				if !all && name != args[0] || as != "" && e.Principal != as {
					continue
				}
				err := client.SignOut(cmd.Context(), e.ID)
				if errors.Is(err, vault.ErrMissing) {
					continue // another weir was faster
				}
				if err != nil {
					failed = append(failed, err)
				}
				if err == nil || errors.Is(err, oauth.ErrNotRevoked) {
					removed = append(removed, name)
				}
			}
			switch {
			case asJSON:
				failed = append(failed, printJSON(a.stdout, map[string][]string{"signed_out": removed}))
			case len(removed) > 0:
				_, err := fmt.Fprintf(a.stdout, "Signed out of %s.\n", text.Line(joinNames(removed), 300))
				failed = append(failed, err)
			case all && len(failed) == 0:
				_, err := fmt.Fprintln(a.stdout, "There is no sign-in.")
				failed = append(failed, err)
			}
			if len(removed) == 0 && len(failed) == 0 && !all {
				failed = append(failed, failf(exitUsage, "there is no sign-in at %q; weir credentials ls lists them", args[0]))
			}
			return errors.Join(failed...)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "sign out of all servers")
	cmd.Flags().StringVar(&as, "as", "", "sign out only this caller (credentials: user)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	credentialsConfig(cmd, &path)
	return cmd
}
