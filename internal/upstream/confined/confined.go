package confined

import (
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/host/child"
	"github.com/weir-mcp/weir/internal/host/sandbox"
	"github.com/weir-mcp/weir/mcp/stdio"
)

// Options configure Programs.
type Options struct {
	// Environ is weir's environment.
	Environ []string
	// State is the folder with the state folders of servers; see sandbox.Options.
	State string
	// Reached is told the hosts that programs with named hosts reach, or are refused; nil is not told.
	Reached func(server, host string, refused error)
	// Lesson, if not nil, is told what the programs touch; they run without walls then.
	Lesson *Lesson
	Logger *slog.Logger // nil discards
}

// Lesson collects what programs touch; see sandbox.Lesson.
type Lesson = sandbox.Lesson

// Programs confines the programs of servers. It is safe for concurrent use.
type Programs struct {
	o       Options
	machine func() *sandbox.Machine
	lookup  func(name string) (string, bool)
	gaps    sync.Map // servers whose gaps were told
	hosts   hosts
}

// New returns Programs.
func New(o Options) *Programs {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Programs{o: o, hosts: newHosts()}
	p.lookup = func(name string) (string, bool) {
		for _, pair := range slices.Backward(o.Environ) {
			if value, ok := strings.CutPrefix(pair, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}
	p.machine = sync.OnceValue(func() *sandbox.Machine {
		return sandbox.New(sandbox.Options{Lookup: p.lookup, State: o.State, Reached: p.reached, Logger: o.Logger})
	})
	return p
}

// specOf returns what a configuration lets the program of a server use.
func specOf(s *mcpserver.Sandbox) sandbox.Spec {
	return sandbox.Spec{Read: s.Read, Write: s.Write, Net: s.Net, Memory: int64(s.Memory), CPUs: s.CPU, Image: s.Image, Require: s.Require}
}

// Confine changes how the program of a server is started; see upstream.Options.Confine.
func (p *Programs) Confine(s *mcpserver.Server, cmd *stdio.Command) (end func(), err error) {
	program, err := programOf(s, cmd, p.lookup)
	if err != nil {
		return nil, err
	}
	var c *sandbox.Confined
	if p.o.Lesson != nil {
		c, err = p.machine().Learn(program, p.o.Lesson)
	} else {
		c, err = p.machine().Confine(program, specOf(&s.Sandbox))
	}
	if err != nil {
		return nil, err
	}
	if _, told := p.gaps.LoadOrStore(s.Name, true); !told && len(c.Gaps) > 0 {
		p.o.Logger.Warn("the sandbox of a server leaves something open on this machine", "upstream", s.Name, "way", string(c.Way), "open", strings.Join(c.Gaps, "; "))
	}
	cmd.Path, cmd.Args, cmd.Env, cmd.Dir = c.Path, c.Args, c.Env, c.Dir
	return c.End, nil
}

// programOf returns the program of a server as a sandbox wants it: with a whole path, and with the variables that
// sandbox.env names.
func programOf(s *mcpserver.Server, cmd *stdio.Command, lookup func(string) (string, bool)) (sandbox.Program, error) {
	program := sandbox.Program{Name: s.Name, Path: cmd.Path, Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir, Own: slices.Concat(slices.Collect(maps.Keys(s.Env)), s.Sandbox.Env)}
	for _, name := range s.Sandbox.Env {
		if value, ok := lookup(name); ok {
			program.Env = append(program.Env[:len(program.Env):len(program.Env)], name+"="+value)
		}
	}
	if s.Sandbox.Image != "" {
		return program, nil // it is a program of the image
	}
	path, err := child.Find(cmd.Path, cmd.Env)
	if err != nil {
		return program, err
	}
	if !filepath.IsAbs(path) {
		if path, err = filepath.Abs(filepath.Join(cmd.Dir, path)); err != nil {
			return program, err
		}
	}
	program.Path = path
	return program, nil
}
