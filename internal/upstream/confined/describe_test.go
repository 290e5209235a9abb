package confined_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/internal/upstream/confined"
)

// TestDescribe: the same words are for weir doctor and for the console, for each way that a program is started.
func TestDescribe(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no bubblewrap and no engine
	p := confined.New(confined.Options{Environ: []string{"HOME=/home/me", "XDG_STATE_HOME=/home/me/.state", "PATH=/usr/bin:/bin"}, State: t.TempDir()})
	server := func(change func(*mcpserver.Server)) *mcpserver.Server {
		s := &mcpserver.Server{Name: "srv", Command: "/bin/true", Env: map[string]strict.Secret{"TOKEN": "hunter2"}}
		change(s)
		return s
	}
	bare := p.Describe(server(func(*mcpserver.Server) {}))
	if bare.Text != "as you, without a sandbox; sandbox: auto confines it" || bare.Way != "none" || !bare.Closed {
		t.Errorf("without a sandbox: %+v", bare)
	}
	own := p.Describe(server(func(s *mcpserver.Server) {
		s.Command, s.Args, s.Sandbox.Mode = "docker", []string{"run", "img"}, "auto"
	}))
	if own.Text != "in the container that its own arguments name" || own.Way != "container" || !own.Closed {
		t.Errorf("a container of its own: %+v", own)
	}
	image := p.Describe(server(func(s *mcpserver.Server) { s.Sandbox.Image = "node:22" }))
	if !strings.HasPrefix(image.Text, "not started, because its sandbox cannot be built: ") || image.Closed {
		t.Errorf("an image without an engine: %+v", image)
	}
	c := p.Describe(server(func(s *mcpserver.Server) {
		s.Sandbox = mcpserver.Sandbox{Read: []string{"~/data"}, Net: []string{"api.example"}, Env: []string{"LANG"}, Memory: 1 << 30, CPU: 2}
	}))
	switch {
	case c.Way == "none":
		if c.Closed || !strings.Contains(c.Text, "as you, and not in its sandbox; open: nothing is closed") {
			t.Errorf("a machine without Landlock: %+v", c)
		}
	case !strings.HasPrefix(c.Text, "in a sandbox of landlock") || !slices.Contains(c.Read, "/home/me/data") || slices.Contains(c.Read, "/usr") || !slices.Equal(c.Net, []string{"api.example"}) ||
		!slices.Equal(c.Env, []string{"TOKEN", "LANG"}) || c.Memory != 1<<30 || c.CPUs != 2 || len(c.Write) != 1 || !strings.HasSuffix(c.Write[0], "/srv"):
		t.Errorf("%+v", c)
	}
}
