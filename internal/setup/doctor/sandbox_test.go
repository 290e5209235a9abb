package doctor

import (
	"errors"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
)

// TestSandboxes: each server has its way, what stays open is a finding, and servers without a sandbox are named.
func TestSandboxes(t *testing.T) {
	c, _, err := config.Parse("weir.yaml", []byte(`mcpServers:
  bare: {command: npx}
  boxed: {command: npx, sandbox: auto}
  open: {command: npx, sandbox: {net: none}}
  broken: {command: npx, sandbox: {image: "node:22"}}
  far: {url: "https://mcp.example.com/mcp"}
`), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := &doctor{Setup: Setup{Config: c, Sandbox: func(s *config.Server) (string, []string, error) {
		switch s.Name {
		case "open":
			return "landlock", []string{"TCP is not closed"}, nil
		case "broken":
			return "", nil, errors.New("no engine")
		}
		return "bubblewrap", nil, nil
	}}}
	var got []string
	for _, f := range d.checkSandboxes(t.Context()) {
		got = append(got, string(f.Level)+" "+f.Thing+" "+f.Text)
	}
	want := []string{
		"warn server open landlock; open: TCP is not closed",
		"warn server broken its sandbox cannot be built: no engine",
		"ok sandboxes bubblewrap: boxed",
		"ok sandboxes none, so these run as you: bare; sandbox: auto confines them",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
