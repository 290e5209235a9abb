package membership

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	registry "github.com/weir-mcp/weir/internal/upstream/agents"
)

// TestOwners: an agent does not get the name of a configured server or of a file, also when the configuration
// has it no more. An agent that is left out is a finding, which is logged once.
func TestOwners(t *testing.T) {
	parse := func(text string) *config.Config {
		c, _, err := config.Parse("weir.yaml", []byte(text), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var log strings.Builder
	o := NewOwners(parse("mcpServers: {files: {command: x}}\n"), slog.New(slog.NewTextHandler(&log, nil)))
	o.ServesFile("extra", []string{"more"})
	for _, name := range []string{"files", "extra"} {
		if err := o.agent(registry.Agent{Name: name}); err == nil {
			t.Errorf("an agent has the name %s", name)
		}
	}
	if err := o.agent(registry.Agent{Name: "helper"}); err != nil {
		t.Error(err)
	}
	o.Configure(parse("mcpServers: {}\n"))
	if err := o.agent(registry.Agent{Name: "files"}); err == nil || !strings.Contains(err.Error(), "restart weir to free it") {
		t.Errorf("after the server has left the configuration: %v", err)
	}
	barred := []registry.Barred{{Agent: registry.Agent{Name: "extra", Source: registry.FromRouting}, Err: o.agent(registry.Agent{Name: "extra"})}}
	o.leaveOut(barred)
	o.leaveOut(barred)
	if found := o.Findings(); len(found) != 1 || !strings.Contains(found[0].Message, "routes.extra of routing.json") {
		t.Errorf("%+v", found)
	}
	if n := strings.Count(log.String(), "is left out"); n != 1 {
		t.Errorf("it is logged %d times", n)
	}
}
