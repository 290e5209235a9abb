package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Options is what a configuration needs from the world. The zero value knows
// nothing: no variable is set, no question answered. See [System].
type Options struct {
	// LookupEnv reads a variable of the environment; os.LookupEnv has the shape.
	// nil: none is set.
	LookupEnv func(name string) (value string, ok bool)

	// Executable is the path for ${weir:exe}; os.Executable has the shape.
	Executable func() (string, error)

	// Inputs answers a question of the file's inputs, by asking a person or by
	// running the input's command. It is called once for each input that a
	// server in use needs and the environment does not answer; ok false means no
	// answer, and the default is taken. It is called from one goroutine.
	Inputs func(Input) (value string, ok bool, err error)

	// FreePort returns a free port of the loopback interface for ${weir:port}.
	// nil asks the system.
	FreePort func() (int, error)

	// Check returns why a server's program could not be started; what it says is a
	// warning. It is called for sound entries with a command. nil checks nothing.
	Check func(*Server) error

	// Dir is the folder that relative paths are relative to. Load takes the
	// file's own when it is empty; Parse leaves such paths alone.
	Dir string

	// Listen and Mode, when not empty, take the place of what the file says
	// before anything is checked: flags of the command line.
	Listen string
	Mode   Mode

	// Strict makes what is wrong within one entry of mcpServers an error of the
	// whole file. Otherwise it is in the Problems of that Server, and the others
	// are as good as ever.
	Strict bool

	// Omit says why a sound entry of mcpServers is left out, such as one that would
	// start weir itself; "" keeps it. It sees the configuration when
	// everything in it has been checked, and must not change it. nil keeps all.
	Omit func(c *Config, s *Server) string

	before *Config // the last reading of the file; may be nil
}

// System is what the running process offers: its environment and its path.
func System() Options {
	return Options{LookupEnv: os.LookupEnv, Executable: os.Executable}
}

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
		return nil, nil, &Error{[]Problem{{File: path, Message: readMessage(err), err: err}}}
	}
	return parseFile(path, data, opts)
}

// parseFile parses the contents of a file, with its folder as the place that
// relative paths start from.
func parseFile(path string, data []byte, opts Options) (*Config, []Warning, error) {
	if opts.Dir == "" {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, nil, &Error{[]Problem{{File: path, Message: readMessage(err), err: err}}}
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
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		return nil, fmt.Errorf("the file is larger than %d MB", maxFile>>20)
	}
	return data, err
}

// Parse reads a configuration from memory. The name stands in messages and says
// what kind of file it is: see the package comment. Errors are those of [Load].
func Parse(name string, data []byte, opts Options) (*Config, []Warning, error) {
	isJSON, foreign := sourceKind(name, data)
	read := readYAML
	if isJSON {
		read = readJSON
	}
	root, err := read(data)
	if err != nil {
		p := Problem{File: name, Message: oneLine(err.Error())}
		if syntax := (*syntaxError)(nil); errors.As(err, &syntax) {
			p.Line, p.Column = syntax.line, syntax.column
		}
		return nil, nil, &Error{[]Problem{p}}
	}

	c := &Config{path: name, sum: sha256.Sum256(data)}
	setDefaults(reflect.ValueOf(c).Elem())
	d := &decoder{
		file: name, foreign: foreign, dir: opts.Dir, whole: opts.Strict,
		bad: make(map[string]bool), at: make(map[string]*yaml.Node), merging: make(map[*yaml.Node]bool), startable: opts.Check,
		faults: make(map[string][]Problem), paths: make(map[*Server]string), flat: make(map[*Server]bool),
	}
	d.expand = &expander{
		opts: opts, inputs: &c.Inputs, old: opts.before.kept(), dir: opts.Dir, hidden: hidden{},
		new: resolved{ports: make(map[string]int), answers: make(map[string]string)},
	}
	if root != nil && !isNull(root) {
		if d.expect(root, yaml.MappingNode, "", kindObject) {
			root = d.wrapped(root)
			if foreign {
				d.gemini = dialectOf(name, opts.Dir, root)
			}
			d.object(root, "", reflect.ValueOf(c).Elem())
		}
	}
	if opts.Listen != "" {
		c.Listen = opts.Listen
	}
	if opts.Mode != "" {
		c.Mode = opts.Mode
		if opts.Mode != ModeGateway && opts.Mode != ModeProxy {
			d.fail(nil, "mode", "the mode must be gateway or proxy, not %q", clip(string(opts.Mode)))
		}
	}
	d.check(c)
	d.place(c, opts.before)
	c.omit(opts.Omit)

	warnings := make([]Warning, len(d.warnings))
	slices.SortStableFunc(d.warnings, byPlace)
	for i, p := range d.warnings {
		warnings[i] = Warning(p)
	}
	if len(d.problems) > 0 {
		slices.SortStableFunc(d.problems, byPlace)
		return nil, warnings, &Error{d.problems}
	}
	c.resolved = d.expand.new
	d.expand.hidden.noteRest(c)
	c.secrets, c.credentials = d.expand.hidden.sorted(false), d.expand.hidden.sorted(true)
	return c, warnings, nil
}

// Candidates are the files that [Find] looks for in a folder: weir's own, and then
// what other clients have.
func Candidates() []string { return []string{"weir.yaml", "weir.yml", "weir.json", ".mcp.json"} }

// Find returns the path of the configuration in a folder: the first of [Candidates]
// that is there. Two that are weir's own are an error that names both: it would be
// chance which one counts. Where there is none, the error wraps [ErrNotFound] and
// says what was looked for and how to begin.
func Find(dir string) (string, error) {
	found := ""
	for _, name := range Candidates() {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		switch _, foreign := sourceKind(name, nil); {
		case found == "":
			found = path
		case !foreign:
			return "", &Error{[]Problem{{File: path, Message: fmt.Sprintf("%s is a configuration of this folder, too: keep one of them, or name one with --config FILE", found)}}}
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
    args: ["-y", "@modelcontextprotocol/server-filesystem", "."]`, ErrNotFound, where, strings.Join(Candidates(), ", "))
}
