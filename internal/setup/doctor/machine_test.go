package doctor

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/internal/upstream/confined"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A machine is a computer that a test describes.
type machine struct {
	os       string
	env      map[string]string
	files    map[string]file
	programs map[string]string // the command line to its output; "!text" fails
	listens  []string
	free     uint64
	now      time.Time

	config   string // weir.yaml
	servers  []Server
	catalog  []CatalogFinding
	listed   []string
	labels   *flow.Listing
	running  string // the version of the gateway that runs; "" if none does
	apart    string // what that gateway says of its store
	service  Service
	records  []string
	keyring  error
	store    error
	refused  bool
	distrust error
	secrets  []string
	only     string
	open     string // how the programs of this machine are confined; "": well
}

type file struct {
	text string
	mode fs.FileMode
}

// info is a file as Stat tells of it.
type info struct {
	name string
	file
}

func (i info) Name() string       { return path.Base(i.name) }
func (i info) Size() int64        { return int64(len(i.text)) }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }

// healthy returns a machine without a fault: Linux, Node, one server, Cursor wired to weir.
func healthy() *machine {
	return &machine{
		os:  "linux",
		env: map[string]string{"PATH": "/usr/local/bin:/usr/bin", "HOME": "/home/ann"},
		files: map[string]file{
			"/usr/bin":       {mode: fs.ModeDir | 0o755},
			"/usr/local/bin": {mode: fs.ModeDir | 0o755},
			"/usr/bin/npx":   {mode: 0o755}, "/usr/bin/node": {mode: 0o755}, "/usr/local/bin/weir": {mode: 0o755},
			"/home/ann":                  {mode: fs.ModeDir | 0o700},
			"/home/ann/.cursor":          {mode: fs.ModeDir | 0o755},
			"/home/ann/.cursor/mcp.json": {`{"mcpServers":{"weir":{"command":"/usr/local/bin/weir","args":["attach","--client","cursor"]}}}`, 0o600},
		},
		programs: map[string]string{"/usr/bin/node --version": "v22.3.0\n"},
		free:     10 << 30, now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC),
		config:  "mcpServers:\n  files: {command: npx, args: [-y, server-files]}\n",
		servers: []Server{{Name: "files", State: "ready", Tools: 14}},
	}
}

func (m *machine) stat(name string) (fs.FileInfo, error) {
	f, ok := m.files[name]
	if !ok {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return info{name, f}, nil
}

func (m *machine) environment() Environment {
	return Environment{
		OS:     m.os,
		Getenv: func(name string) string { return m.env[name] },
		Stat:   m.stat,
		ReadFile: func(name string) ([]byte, error) {
			if _, err := m.stat(name); err != nil {
				return nil, err
			}
			return []byte(m.files[name].text), nil
		},
		Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			for _, known := range m.listens {
				if known == address {
					here, there := net.Pipe()
					_ = there.Close()
					return here, nil
				}
			}
			return nil, errors.New("connection refused")
		},
		Run: func(ctx context.Context, name string, args ...string) ([]byte, error) {
			line := strings.Join(append([]string{name}, args...), " ")
			out, ok := m.programs[line]
			switch {
			case !ok:
				return nil, errors.New("no program " + line)
			case out == "hangs":
				<-ctx.Done()
				return nil, ctx.Err()
			case strings.HasPrefix(out, "!"):
				return []byte(out[1:]), errors.New("exit status 1")
			}
			return []byte(out), nil
		},
		Free: func(folder string) (uint64, error) {
			if _, err := m.stat(folder); err != nil {
				return 0, err
			}
			return m.free, nil
		},
		Chmod: func(name string, mode fs.FileMode) error {
			f := m.files[name]
			f.mode = mode
			m.files[name] = f
			return nil
		},
		Remove: func(name string) error { delete(m.files, name); return nil },
		Now:    func() time.Time { return m.now },
	}
}

// setup describes the machine to Run.
func (m *machine) setup(t *testing.T) Setup {
	t.Helper()
	const conf = "/home/ann/.config/weir/weir.yaml"
	s := Setup{
		Version: "0.1.0", State: "/home/ann/.local/state/weir", Listen: "127.0.0.1:8088", Secrets: m.secrets, Only: m.only, Distrust: m.distrust,
		Probe: func(context.Context) (Report, error) {
			if m.distrust != nil {
				return Report{}, m.distrust
			}
			r := Report{Servers: m.servers, Findings: m.catalog, Listed: m.listed, Flow: m.labels, Running: m.running != "", Version: m.running, URL: "http://127.0.0.1:8088/mcp", Store: m.apart}
			return r, nil
		},
		Records: func(context.Context) []string { return m.records },
		Machine: clients.Environment{
			OS: m.os, Home: "/home/ann", Getenv: func(name string) string { return m.env[name] },
			Exists: func(name string) bool { _, err := m.stat(name); return err == nil },
		},
		How:     clients.How{Known: []string{"http://127.0.0.1:8088/mcp"}},
		Service: func(context.Context) (Service, error) { return m.service, nil },
	}
	if m.open != "" {
		s.Sandbox = func(*config.Server) confined.Confinement {
			return confined.Confinement{Text: m.open, Closed: m.open == ""}
		}
	}
	if m.store != nil {
		s.Store = func(context.Context) (bool, error) { return m.refused, m.store }
	}
	if m.keyring != nil {
		s.Keyring = func(context.Context) error { return m.keyring }
	}
	if m.config == "" {
		return s
	}
	s.Path = conf
	if _, ok := m.files[conf]; !ok {
		m.files[conf] = file{m.config, 0o600}
	}
	lookup := func(name string) (string, bool) { v, ok := m.env[name]; return v, ok }
	c, warnings, err := config.Parse("weir.yaml", []byte(m.config), config.Options{LookupEnv: lookup})
	var broken *config.Error
	if errors.As(err, &broken) {
		s.Problems = broken.Problems
	} else if err != nil {
		t.Fatal(err)
	} else {
		s.Config = c
	}
	s.Warnings = warnings
	return s
}
