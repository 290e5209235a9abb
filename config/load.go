package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
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

	// Dir is the folder that relative paths are relative to. Load takes the
	// file's own when it is empty; Parse leaves such paths alone.
	Dir string

	// Listen and Mode, when not empty, take the place of what the file says
	// before anything is checked: flags of the command line.
	Listen string
	Mode   Mode

	before resolved // kept from the last reading of the file
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
		file: name, foreign: foreign, dir: opts.Dir,
		bad: make(map[string]bool), at: make(map[string]*yaml.Node), merging: make(map[*yaml.Node]bool),
	}
	d.expand = &expander{
		opts: opts, inputs: &c.Inputs, old: opts.before, secrets: make(map[string]bool),
		new: resolved{ports: make(map[string]int), answers: make(map[string]string)},
	}
	if root != nil && !isNull(root) {
		if d.expect(root, yaml.MappingNode, "", kindObject) {
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
	c.secrets = slices.SortedFunc(maps.Keys(d.expand.secrets), func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return c, warnings, nil
}

// candidates are the files looked for in a folder, best first.
func candidates() []string { return []string{"weir.yaml", "weir.yml", ".mcp.json"} }

// Find returns the path of the configuration in a folder: weir.yaml, weir.yml or
// .mcp.json, the first that is there. The error wraps [ErrNotFound] and says what
// was looked for and how to begin.
func Find(dir string) (string, error) {
	for _, name := range candidates() {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
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
