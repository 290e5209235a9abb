package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/host/secret"
	"github.com/weir-mcp/weir/internal/setup"
	"github.com/weir-mcp/weir/internal/setup/bundle"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/setup/doctor"
	"github.com/weir-mcp/weir/internal/setup/journal"
)

// User is the user who runs this process, with the user's files.
type User struct {
	LookupEnv func(name string) (string, bool)
	// Secrets is the place of new secrets.
	Secrets secret.Place
}

// files returns where weir's own files are.
func files(lookupEnv func(string) (string, bool)) place.Env {
	return place.Env{OS: runtime.GOOS, Lookup: lookupEnv}
}

// env reads a variable, "" for one that is not set.
func (u User) env(name string) string {
	value, _ := u.LookupEnv(name)
	return value
}

// Open returns the user's computer without How and Service. path is the weir.yaml to change, "" for the
// user's.
func (u User) Open(path string) (*setup.Machine, error) {
	where := files(u.LookupEnv)
	state, err := where.State()
	if err != nil {
		return nil, err
	}
	data, err := where.Data()
	if err != nil {
		return nil, err
	}
	m := &setup.Machine{Bundles: filepath.Join(data, "bundles")}
	if m.Env, err = u.environment(); err != nil {
		return nil, err
	}
	m.Folders = u.folders(m.Env.Home)
	if m.Journal, err = journal.Open(filepath.Join(state, "journal")); err != nil {
		return nil, err
	}
	if path == "" {
		m.Config, err = where.Config()
	} else {
		m.Config, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, err
	}
	store, err := u.secrets()
	m.Secrets = keptSecrets{store, u.Secrets}
	return m, err
}

// folders returns the folders that the person's desktop has names for. Other systems than those
// with XDG folders have none.
func (u User) folders(home string) map[string]string {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(cmp.Or(u.env("XDG_CONFIG_HOME"), filepath.Join(home, ".config")), "user-dirs.dirs"))
	if err != nil {
		return nil
	}
	return bundle.UserFolders(data, home)
}

// environment is this computer as the table of clients looks at it.
func (u User) environment() (clients.Environment, error) {
	home := u.env("HOME")
	if runtime.GOOS == "windows" {
		home = u.env("USERPROFILE")
	}
	if home == "" {
		return clients.Environment{}, errors.New("the home folder is not known: set HOME")
	}
	return clients.Environment{
		OS: runtime.GOOS, Home: home, Getenv: u.env,
		Exists: func(path string) bool { _, err := os.Stat(path); return err == nil },
		Names: func(folder string) (names []string) {
			entries, err := os.ReadDir(folder)
			if err != nil {
				return nil // a folder that cannot be listed has no names for weir
			}
			for _, e := range entries {
				names = append(names, e.Name())
			}
			return names
		},
	}, nil
}

// secrets returns the secrets of the user.
func (u User) secrets() (*secret.Store, error) {
	dir, err := config.Folder(u.LookupEnv)
	if err != nil {
		return nil, err
	}
	return secret.System(dir, u.LookupEnv), nil
}

// keptSecrets is the store of secrets as a plan uses it.
type keptSecrets struct {
	*secret.Store
	place secret.Place
}

// Set implements setup.Secrets.
func (k keptSecrets) Set(name, value string) (string, error) {
	where, err := k.Store.Set(name, value, k.place)
	return string(where), err
}

// Remove implements setup.Secrets.
func (k keptSecrets) Remove(name string) error {
	if err := k.Store.Remove(name); !errors.Is(err, secret.ErrMissing) {
		return err
	}
	return nil
}

// Describe adds to s what the doctor has to know of the user's files.
func (u User) Describe(s *doctor.Setup) error {
	state, err := files(u.LookupEnv).State()
	if err != nil {
		return err
	}
	s.State = state
	if store, err := u.secrets(); err == nil {
		s.Secrets, s.Keyring = []string{store.Path()}, keyringCheck(store)
	}
	return nil
}

// keyringCheck returns a question for the keyring, nil if it keeps no secret of weir.
func keyringCheck(store *secret.Store) func(context.Context) error {
	entries, err := store.List()
	if err != nil {
		return func(context.Context) error { return err }
	}
	at := slices.IndexFunc(entries, func(e secret.Entry) bool { return e.Place == secret.Keyring })
	if at < 0 {
		return nil
	}
	return func(context.Context) error {
		_, ok, err := store.Lookup(entries[at].Name) // bounded by the store
		if err == nil && !ok {
			err = fmt.Errorf("it does not have %s any more; set it again: weir secret set %s", entries[at].Name, entries[at].Name)
		}
		return err
	}
}

// builtForOneRun matches programs of go run, which Go removes after the run or some days later.
var builtForOneRun = regexp.MustCompile(`[/\\]go-build\d*[/\\]([^/\\]+[/\\])+(exe[/\\][^/\\]+|[0-9a-f]{64}-d[/\\][^/\\]+)$`)

// Lasting returns an error if clients would start a program that is soon gone.
func Lasting(h clients.How) error {
	if h.URL == "" && len(h.Command) == 1 && builtForOneRun.MatchString(h.Command[0]) {
		return errors.New("weir runs from a file that go run removes, so clients could not start it. Install it first: go install ./cmd/weir")
	}
	return nil
}
