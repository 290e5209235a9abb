package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/json/strict"
)

// Options gives the reader access to the environment. With the zero value no variable is set and no
// question answered. See [System].
type Options struct {
	// LookupEnv reads a variable of the environment, as os.LookupEnv does. nil: no variable is set.
	LookupEnv func(name string) (value string, ok bool)

	// Executable returns the path for ${weir:exe}, as os.Executable does.
	Executable func() (string, error)

	// ReadFile reads the file of ${file:PATH}, of a server's env_file and of a saved program, as
	// os.ReadFile does. nil: no file is read.
	ReadFile func(path string) ([]byte, error)

	// Inputs answers a question of the file's inputs: it asks the user or runs the input's command.
	// It is called once for each input that a server in use needs and the environment does not
	// answer. ${exec:COMMAND ARGS} is an input of type command. If ok is false, the default is used.
	// All calls come from one goroutine.
	Inputs func(Input) (value string, ok bool, err error)

	// LookupSecret returns the value for ${secret:NAME}; ok is false if there is none. nil: there are
	// no secrets.
	LookupSecret func(name string) (value string, ok bool, err error)

	// SecretsFile is a file that changes whenever the answer of LookupSecret does. Watch watches it
	// if the configuration names a secret. "" watches none.
	SecretsFile string

	// FreePort returns a free port of the loopback interface for ${weir:port}.
	// nil asks the system.
	FreePort func() (int, error)

	// Check returns the reason why a server's program could not be started. It becomes a warning.
	// Check is called for sound entries with a command. nil checks nothing.
	Check func(*Server) error

	// CheckProgram returns what is wrong with a saved program, whose source has been read. It becomes a
	// problem. nil checks nothing.
	CheckProgram func(*SavedProgram) error

	// Dir is the folder that relative paths start from. If it is empty, Load uses the file's own
	// folder and Parse does not change such paths.
	Dir string

	// Listen and Mode, if not empty, replace the values of the file before all checks: flags of the
	// command line.
	Listen string
	Mode   Mode

	// Strict makes a fault within one entry of mcpServers an error of the whole file. Otherwise the
	// fault goes to the Problems of that Server, and the other servers are used.
	Strict bool

	// Omit returns the reason to leave out a sound entry of mcpServers, such as one that would
	// start weir itself; "" keeps it. It sees the fully checked configuration, and must not change
	// it. nil keeps all.
	Omit func(c *Config, s *Server) string

	// Secrets are further texts that must not be shown, such as a key of this process. They become
	// part of Config.Secrets.
	Secrets []string

	// Approve returns an error if the file must not be used with these contents. Load and Watch
	// call it before they read the contents. So no command of a refused file can run. nil approves
	// everything.
	Approve func(path string, data []byte) error

	// Approvals is a file whose changes make Watch call Approve again for contents that it refused;
	// "" is none.
	Approvals string

	// Outside hears each ${exec:COMMAND ARGS} and ${file:PATH} of the texts that are read, also in a
	// default that is not used now. nil hears none.
	Outside func(reference string)

	// Failed tells Watch the name of a server that cannot be started or does not accept its
	// credentials. If the server's entry has answers of programs, they are fetched again, with growing
	// pauses. nil tells nothing.
	Failed <-chan string

	again again // if it is not the first reading
}

// again says how a file is read again.
type again struct {
	before *Config  // the last reading of the file; may be nil
	seen   *outside // gets what the reading looks at; nil: Parse makes one
	renew  string   // a server for which answers of programs are fetched again
}

// System returns Options with the environment and the path of the running process.
func System() Options {
	return Options{LookupEnv: os.LookupEnv, Executable: os.Executable, ReadFile: readFile}
}

// Environ returns the environment of this process, as NAME=VALUE.
func Environ() []string { return os.Environ() }

func (o Options) freePort() (int, error) {
	if o.FreePort != nil {
		return o.FreePort()
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// Load reads a configuration file. The error is an *[Error] with every problem;
// warnings come with a good configuration and with a bad one.
func Load(path string, opts Options) (*Config, []Warning, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, nil, &Error{Problems: []Problem{{File: path, Message: readMessage(err), Cause: err}}}
	}
	return parseFile(path, data, opts)
}

// parseFile parses the contents of a file, with its folder as the place that
// relative paths start from.
func parseFile(path string, data []byte, opts Options) (*Config, []Warning, error) {
	if opts.Approve != nil {
		if err := opts.Approve(path, data); err != nil {
			return nil, nil, err
		}
	}
	if opts.Dir == "" {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, nil, &Error{Problems: []Problem{{File: path, Message: readMessage(err), Cause: err}}}
		}
		opts.Dir = filepath.Dir(abs)
	}
	return Parse(path, data, opts)
}

func readMessage(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "there is no such file"
	}
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return "cannot be read: " + err.Error()
}

func readFile(path string) ([]byte, error) {
	f, err := place.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, strict.MaxFile+1))
	if err == nil && len(data) > strict.MaxFile {
		return nil, fmt.Errorf("the file is larger than %d MB", strict.MaxFile>>20)
	}
	return data, err
}

// Parse reads a configuration from memory. The name stands in messages and decides the kind of
// file: see the package comment. It returns the errors of [Load].
func Parse(name string, data []byte, opts Options) (*Config, []Warning, error) {
	_, foreign := strict.KindOfFile(name, data)
	root, err := strict.Read(name, data)
	if err != nil {
		return nil, nil, err
	}
	c := &Config{path: name, sum: opts.Sum(data)}
	strict.SetDefaults(c)
	if opts.again.seen == nil {
		opts.again.seen = &outside{files: watchedFiles{}}
	}
	d := newDecoder(name, foreign, opts, &expander{
		opts: opts, inputs: &c.Inputs, old: opts.again.before.kept(), dir: opts.Dir, hidden: hidden{},
		new: newResolved(opts.again.seen), from: map[string][]string{}, failures: map[string]error{},
	})
	if root != nil && !strict.IsNull(root) {
		if root.Kind == yaml.MappingNode {
			root = d.wrapped(root)
			if foreign {
				d.gemini = dialectOf(name, opts.Dir, root)
			}
		}
		d.Decode(root, "", c)
	}
	if opts.Listen != "" {
		c.Listen = opts.Listen
	}
	if opts.Mode != "" {
		c.Mode = opts.Mode
		if !slices.Contains(Modes, opts.Mode) {
			d.Fail(nil, "mode", "the mode must be auto, plain, gateway or proxy, not %q", strict.Clip(string(opts.Mode)))
		}
	}
	d.check(c)
	problems, said := d.place(c, opts.again.before)
	c.omit(opts.Omit)

	warnings := make([]Warning, len(said))
	slices.SortStableFunc(said, strict.ByPlace)
	for i, p := range said {
		warnings[i] = Warning(p)
	}
	if len(problems) > 0 {
		slices.SortStableFunc(problems, strict.ByPlace)
		return nil, warnings, &Error{Problems: problems}
	}
	c.resolved, c.origins = d.expand.new, originsOf(d)
	d.expand.hidden.noteRest(c)
	for _, secret := range opts.Secrets {
		d.expand.hidden.add(secret, true)
	}
	c.secrets, c.credentials = d.expand.hidden.sorted(false), d.expand.hidden.sorted(true)
	return c, warnings, nil
}

// candidates are the files that [Find] looks for in a folder: weir's own, then the files of other
// clients.
func candidates() []string { return []string{"weir.yaml", "weir.yml", "weir.json", ".mcp.json"} }

// Find returns the path of the configuration in a folder: the first of the candidates that exists.
// Two files of weir itself are an error that names both, because the choice would be arbitrary. If
// there is none, the error wraps [ErrNotFound], lists the candidates and says how to start.
func Find(dir string) (string, error) {
	found := ""
	for _, name := range candidates() {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		switch _, foreign := strict.KindOfFile(name, nil); {
		case found == "":
			found = path
		case !foreign:
			return "", &Error{Problems: []Problem{{File: path, Message: fmt.Sprintf("%s is a configuration of this folder, too: keep one of them, or name one with --config FILE", found)}}}
		}
	}
	if found != "" {
		return found, nil
	}
	where := dir
	if abs, err := filepath.Abs(dir); err == nil {
		where = abs
	}
	return "", fmt.Errorf(`%w in %s: looked for %s; name a file with --config FILE, or begin with a weir.yaml such as

mcpServers:
  files:
    command: npx
    args: ["-y", "@modelcontextprotocol/server-filesystem", "."]`, ErrNotFound, where, strings.Join(candidates(), ", "))
}

// Folder returns the folder of the user's own configuration and secrets, which may not exist:
// $XDG_CONFIG_HOME/weir or ~/.config/weir, and %APPDATA%\weir on Windows.
func Folder(lookupEnv func(name string) (value string, ok bool)) (string, error) {
	places := []struct{ variable, below string }{{"XDG_CONFIG_HOME", "weir"}, {"HOME", ".config/weir"}}
	if runtime.GOOS == "windows" {
		places = []struct{ variable, below string }{{"XDG_CONFIG_HOME", "weir"}, {"APPDATA", "weir"}}
	}
	for _, p := range places {
		if dir, ok := lookupEnv(p.variable); ok && filepath.IsAbs(dir) {
			return filepath.Join(dir, filepath.FromSlash(p.below)), nil
		}
	}
	return "", fmt.Errorf("there is no folder for weir's own files: neither %s nor %s is set to an absolute path", places[0].variable, places[1].variable)
}
