package confined

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/host/sandbox"
	"github.com/weir-mcp/weir/mcp/stdio"
)

// A Confinement says how the program of a server is confined on this machine.
type Confinement struct {
	// Text says it in a line, as weir doctor does.
	Text string `json:"text"`
	// Way is container, bubblewrap, landlock or none.
	Way string `json:"way"`
	// Open is what stays open on this machine.
	Open []string `json:"open"`
	// Closed is false if something is open, or if the program is not started. It is true for a program without a sandbox.
	Closed bool `json:"closed"`
	// Read and Write are the files and folders that the program reads, and changes, in addition to the files of the system.
	Read  []string `json:"read"`
	Write []string `json:"write"`
	// Net is all, none, or the hosts that it reaches.
	Net []string `json:"net"`
	// Env are the names of the variables that it gets, in addition to the ones of every program.
	Env []string `json:"env"`
	// Memory bounds the bytes that each of its processes writes to, or all of them in a container. Processes bounds its
	// processes and threads, and CPUs its processors. 0: nothing bounds them.
	Memory    int64 `json:"memory,omitempty"`
	Processes int   `json:"processes,omitempty"`
	CPUs      int   `json:"cpus,omitempty"`
	// Require says that the program is not started where something stays open.
	Require bool `json:"require"`
	// Hosts are the last hosts that it asked its proxy for, the latest first.
	Hosts []Host `json:"hosts"`
}

// shownHosts bounds the hosts of a Confinement.
const shownHosts = 50

// Describe returns how the program of a server is confined on this machine. It starts nothing.
func (p *Programs) Describe(s *mcpserver.Server) Confinement {
	spec := specOf(&s.Sandbox)
	c := Confinement{
		Way: string(sandbox.None), Closed: true, Open: []string{}, Read: []string{}, Write: []string{}, Net: []string{"all"},
		Env: append([]string{}, slices.Sorted(maps.Keys(s.Env))...), Hosts: p.hosts.last(s.Name, shownHosts),
	}
	if !s.Sandbox.On() {
		c.Text = "as you, without a sandbox; sandbox: auto confines it"
		return c
	}
	program := p.described(s)
	d, err := p.machine().Describe(program, spec)
	c.Way, c.Read, c.Write = string(d.Way), append(c.Read, d.Read...), append(c.Write, d.Write...)
	c.Memory, c.Processes, c.CPUs, c.Require = spec.Memory, d.Processes, spec.CPUs, spec.Require
	c.Env = append(c.Env, s.Sandbox.Env...)
	if len(spec.Net) > 0 {
		c.Net = spec.Net
	}
	c.Open = append(c.Open, d.Gaps...)
	c.Closed = err == nil && len(d.Gaps) == 0
	switch {
	case err != nil:
		c.Text = fmt.Sprintf("not started, because its sandbox cannot be built: %v", err)
		return c
	case d.Way == sandbox.None:
		c.Text = "as you, and not in its sandbox"
	case d.Way == sandbox.Container && spec.Image == "":
		c.Text = "in the container that its own arguments name"
	case d.Way == sandbox.Container:
		c.Text = "in a container of " + spec.Image
	default:
		c.Text = fmt.Sprintf("in a sandbox of %s", d.Way)
	}
	if len(d.Gaps) > 0 {
		c.Text += "; open: " + strings.Join(d.Gaps, "; ")
	}
	return c
}

// described returns the program of a server as far as it is known before its start: without the texts of its callers, and
// without a path if it is not installed.
func (p *Programs) described(s *mcpserver.Server) sandbox.Program {
	cmd := stdio.Command{Path: s.Command, Args: s.Args, Dir: s.Cwd}
	if path, ok := p.lookup("PATH"); ok {
		cmd.Env = append(cmd.Env, "PATH="+path)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		cmd.Env = append(cmd.Env, name+"="+string(s.Env[name]))
	}
	program, err := programOf(s, &cmd, p.lookup)
	if err != nil || !filepath.IsAbs(program.Path) {
		program = sandbox.Program{Name: s.Name, Path: s.Command, Args: s.Args, Env: cmd.Env, Dir: s.Cwd}
	}
	return program
}
