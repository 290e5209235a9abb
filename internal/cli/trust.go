package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/host/trust"
)

// A foundConfig is the configuration of a command: the file that --config names, the file of this folder,
// or the person's own file.
type foundConfig struct {
	path string
	// ours says that the person has chosen the file: --config names it, or it is the person's own.
	// Other files may have come with a clone, and their commands are not run before a yes.
	ours  bool
	store *trust.Store // nil if ours
}

// findConfig returns the configuration of a command. named is the value of --config, "" if absent.
// If there is no file, the error wraps config.ErrNotFound.
func findConfig(lookupEnv func(string) (string, bool), named string) (*foundConfig, error) {
	if named != "" {
		return &foundConfig{path: named, ours: true}, nil
	}
	own, noOwn := places(lookupEnv).Config()
	path, err := config.Find(".")
	if errors.Is(err, config.ErrNotFound) {
		if info, failed := os.Stat(own); noOwn == nil && failed == nil && info.Mode().IsRegular() {
			return &foundConfig{path: own, ours: true}, nil
		}
		if noOwn == nil {
			err = fmt.Errorf("%w\n\nor with your own configuration, for every folder: %s", err, own)
		}
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	if noOwn == nil && sameFile(path, own) {
		return &foundConfig{path: path, ours: true}, nil
	}
	store, err := trustStore(lookupEnv)
	return &foundConfig{path: path, store: store}, err
}

// sameFile reports whether two paths lead to one file.
func sameFile(one, two string) bool {
	first, err := os.Stat(one)
	second, failed := os.Stat(two)
	return err == nil && failed == nil && os.SameFile(first, second)
}

// trustStore returns where agreements are kept.
func trustStore(lookupEnv func(string) (string, bool)) (*trust.Store, error) {
	state, err := places(lookupEnv).State()
	if err != nil {
		return nil, err
	}
	return trust.New(filepath.Join(state, "trusted.json")), nil
}

// guard makes a reading of the file, and each later one, fail unless the person has agreed to the
// contents.
func (f *foundConfig) guard(opts *config.Options) {
	if !f.ours {
		opts.Approve, opts.Approvals = f.approve, f.store.Path()
	}
}

// check returns an error unless the person has agreed to the file as it is now.
func (f *foundConfig) check() error {
	if f.ours {
		return nil
	}
	data, err := place.ReadFile(f.path)
	if err != nil {
		return err
	}
	return f.approve(f.path, data)
}

// approve implements config.Options.Approve.
func (f *foundConfig) approve(path string, data []byte) error {
	state, err := f.store.State(path, data)
	if err != nil {
		return err
	}
	shown := absolutePath(path)
	switch state {
	case trust.Agreed:
		return nil
	case trust.Changed:
		return failf(exitUsage, "%s has changed since you agreed to it, so weir starts nothing of it: look at it, and then run: weir trust %s", shown, shown)
	}
	return failf(exitUsage, "%s was found in this folder and may have come with it, so weir starts nothing of it before you agree: look at it, and then run: weir trust %s (or name it with --config %s)", shown, shown, path)
}

// agree returns nil if the person agrees to the file, or has agreed before. It asks only if ask is
// set and there is a terminal; otherwise the error says how to agree, and which programs would start.
func (f *foundConfig) agree(a *process, ctx context.Context, ask bool) error {
	refused := f.check()
	if refused == nil {
		return nil
	}
	data, err := place.ReadFile(f.path)
	if err != nil {
		return refused
	}
	starts := whatStarts(f.path, data)
	keyboard, ok := newQuestions(a)
	if !ask || !ok {
		var failed *failure
		if !errors.As(refused, &failed) {
			return refused // the store cannot be read
		}
		return failf(exitUsage, "%w. It would start: %s", refused, strings.Join(starts, "; "))
	}
	var failed *failure
	if !errors.As(refused, &failed) {
		return refused
	}
	if err := askAgreement(a.stderr, ctx, keyboard, f.path, starts); err != nil {
		return err
	}
	return f.store.Agree(f.path, data)
}

// askAgreement asks the person about a file. It returns an error unless the answer is yes.
func askAgreement(stderr terminal, ctx context.Context, keyboard *questions, path string, starts []string) error {
	screen := stderr
	fmt.Fprintln(screen, screen.paint(bold, screen.clean(absolutePath(path)+" may have come with this folder. It starts:")))
	for _, line := range starts {
		fmt.Fprintln(screen, "  "+screen.clean(oneLine(line)))
	}
	answer, err := keyboard.line(ctx, screen.paint(bold, "Agree? weir asks again when the file changes. [y/N]"), false)
	if err != nil && !errors.Is(err, os.ErrClosed) && ctx.Err() != nil {
		return ctx.Err()
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return failf(exitUsage, "nothing was started: you did not agree to %s", path)
}

// absolutePath returns a path for messages.
func absolutePath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// whatStarts lists the programs that a configuration would run and the URLs that it would connect to.
// Variables stay as the file has them, so that the list shows no secret.
func whatStarts(path string, data []byte) (list []string) {
	const none = "nothing that weir can read"
	opts := config.Options{
		Dir: filepath.Dir(absolutePath(path)),
		// A variable stands for itself, so that nothing of the environment is shown.
		LookupEnv:    func(name string) (string, bool) { return "${" + name + "}", true },
		LookupSecret: func(name string) (string, bool, error) { return "${secret:" + name + "}", true, nil },
		Executable:   func() (string, error) { return "weir", nil },
		ReadFile:     func(string) ([]byte, error) { return []byte("# not read"), nil },
		FreePort:     func() (int, error) { return 1, nil },
		Inputs:       func(in config.Input) (string, bool, error) { return "${input:" + in.ID + "}", true, nil },
		Outside:      func(ref string) { list = append(list, "secret: "+ref) },
	}
	c, _, err := config.Parse(path, data, opts)
	if err != nil {
		return append(list, none+" (weir config check says why)")
	}
	for _, in := range c.Inputs {
		if in.Command != "" {
			list = append(list, in.ID+": "+strings.Join(append([]string{in.Command}, in.Args...), " "))
		}
	}
	for _, s := range c.Servers {
		switch what := strings.Join(append([]string{s.Command}, s.Args...), " "); {
		case s.Disabled:
		case s.Faulty() && s.Command == "" && s.URL == "":
			list = append(list, s.Name+": see the file, the entry depends on variables or is wrong")
		case s.Command != "" && s.URL != "":
			list = append(list, s.Name+": "+what+" and "+s.URL)
		case s.Command != "":
			list = append(list, s.Name+": "+what)
		default:
			list = append(list, s.Name+": "+s.URL)
		}
	}
	for _, h := range c.Hubs {
		list = append(list, h.Name+": "+h.URL)
	}
	for i, h := range c.Guards.Hooks {
		list = append(list, h.Place(i)+": "+strings.TrimSpace(strings.Join(h.Command, " ")+" "+h.URL))
	}
	if url := c.Search.Embedding.URL; url != "" {
		list = append(list, "search.embedding: "+url)
	}
	if len(list) == 0 {
		return []string{"no servers"}
	}
	return list
}

func trustCommand(a *process) *cobra.Command {
	var yes, revoke bool
	cmd := &cobra.Command{
		Use:   "trust [FILE]",
		Short: "Agree to the configuration of a folder",
		Long: `Show what a configuration starts, and agree to it. Without FILE it is the one of
this folder.

A weir.yaml or .mcp.json in a folder may have come with a clone, and its servers
are commands. weir starts none of them before you have agreed to exactly this
file, and asks again when the file changes. A file that --config names, and your
own weir.yaml (weir help files), need no agreement.

weir trust diff and weir trust accept are about another file, weir.lock: what
the servers of a configuration offer.`,
		Example: "  weir trust\n  weir trust --yes ~/project/.mcp.json\n  weir trust --revoke",
		Args:    positional(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := config.Find(".")
			if len(args) == 1 {
				path, err = args[0], nil
			}
			if err != nil {
				return err
			}
			store, err := trustStore(a.lookupEnv)
			if err != nil {
				return err
			}
			if revoke {
				known, err := store.Forget(path)
				if err == nil && !known {
					err = failf(exitUsage, "you have not agreed to %s", path)
				}
				return err
			}
			return runTrust(a, cmd.Context(), store, path, yes)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "agree without a question")
	cmd.Flags().BoolVar(&revoke, "revoke", false, "take the agreement back")
	cmd.MarkFlagsMutuallyExclusive("yes", "revoke")
	cmd.AddCommand(trustDiffCommand(a), trustAcceptCommand(a))
	return cmd
}

// runTrust records that the person agrees to a file.
func runTrust(a *process, ctx context.Context, store *trust.Store, path string, yes bool) error {
	data, err := place.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failf(exitUsage, "there is no %s", path)
	case err != nil:
		return err
	}
	starts := whatStarts(path, data)
	keyboard, person := newQuestions(a)
	switch {
	case yes:
	case person:
		if err := askAgreement(a.stderr, ctx, keyboard, path, starts); err != nil {
			return err
		}
	default:
		fmt.Fprintf(a.stdout, "%s starts:\n  %s\n", absolutePath(path), strings.Join(starts, "\n  "))
		return failf(exitUsage, "there is no terminal to ask at: weir trust --yes %s agrees to it", path)
	}
	if err := store.Agree(path, data); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "Agreed: %s\n", absolutePath(path))
	return err
}

const filesHelp = `Configuration, the first that there is:

  --config FILE    the file that a command is given
  this folder      weir.yaml, weir.yml, weir.json or .mcp.json, once you have
                   agreed to it (weir trust)
  your own         $XDG_CONFIG_HOME/weir/weir.yaml, else ~/.config/weir/weir.yaml, on
                   macOS too; on Windows %APPDATA%\weir\weir.yaml

State, which only you may read: running gateways with their tokens, logs of
gateways in the background, and the configurations that you have agreed to, and operator.key, with which weir's commands operate your gateways:

  $XDG_STATE_HOME/weir, else ~/.local/state/weir; on Windows %LOCALAPPDATA%\weir

Data, the servers of unpacked bundles:

  $XDG_DATA_HOME/weir, else ~/.local/share/weir; on Windows %LOCALAPPDATA%\weir`
