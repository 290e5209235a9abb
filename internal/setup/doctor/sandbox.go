package doctor

import (
	"context"
	"strings"
)

// checkSandboxes reports how the programs of servers are confined.
func (d *doctor) checkSandboxes(context.Context) []Finding {
	if d.Sandbox == nil {
		return nil
	}
	var all []Finding
	var texts []string
	servers := map[string][]string{} // by the text that says how they are confined
	for _, s := range d.servers() {
		if s.Command == "" {
			continue
		}
		c := d.Sandbox(s)
		if !c.Closed {
			all = append(all, found("server-unconfined", "server "+s.Name, "%s", c.Text))
			continue
		}
		if servers[c.Text] == nil {
			texts = append(texts, c.Text)
		}
		servers[c.Text] = append(servers[c.Text], s.Name)
	}
	for _, text := range texts {
		all = append(all, fine("server", "sandboxes", "%s: %s", strings.Join(servers[text], ", "), text))
	}
	return all
}
