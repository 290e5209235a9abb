package doctor

import (
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/upstream/confined"
)

// TestSandboxes: each server has its way, what stays open is a finding, and servers without a sandbox are named.
func TestSandboxes(t *testing.T) {
	c, _, err := config.Parse("weir.yaml", []byte(`mcpServers:
  bare: {command: npx}
  boxed: {command: npx, sandbox: auto}
  box: {command: npx, sandbox: auto}
  open: {command: npx, sandbox: {net: none}}
  broken: {command: npx, sandbox: {image: "node:22"}}
  far: {url: "https://mcp.example.com/mcp"}
`), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := &doctor{Setup: Setup{Config: c, Sandbox: func(s *config.Server) confined.Confinement {
		texts := map[string]string{"open": "in a sandbox of landlock; open: TCP", "broken": "not started: no engine", "bare": "as you", "boxed": "in a sandbox", "box": "in a sandbox"}
		return confined.Confinement{Text: texts[s.Name], Closed: s.Name[0] == 'b' && s.Name != "broken"}
	}}}
	var got []string
	for _, f := range d.checkSandboxes(t.Context()) {
		got = append(got, string(f.Level)+" "+f.Thing+" "+f.Text)
	}
	want := []string{
		"warn server open in a sandbox of landlock; open: TCP",
		"warn server broken not started: no engine",
		"ok sandboxes bare: as you",
		"ok sandboxes boxed, box: in a sandbox",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
