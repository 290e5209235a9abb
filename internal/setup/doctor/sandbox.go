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
	var without []string
	within := map[string][]string{} // servers by their way
	var ways []string
	for _, s := range d.servers() {
		if s.Command == "" {
			continue
		}
		if !s.Sandbox.On() {
			without = append(without, s.Name)
			continue
		}
		way, open, err := d.Sandbox(s)
		switch {
		case err != nil:
			all = append(all, found("server-unconfined", "server "+s.Name, "its sandbox cannot be built: %v", err))
		case len(open) > 0:
			all = append(all, found("server-unconfined", "server "+s.Name, "%s; open: %s", way, strings.Join(open, "; ")))
		default:
			if within[way] == nil {
				ways = append(ways, way)
			}
			within[way] = append(within[way], s.Name)
		}
	}
	for _, way := range ways {
		all = append(all, fine("server", "sandboxes", "%s: %s", way, strings.Join(within[way], ", ")))
	}
	if len(without) > 0 {
		all = append(all, fine("server", "sandboxes", "none, so these run as you: %s; sandbox: auto confines them", strings.Join(without, ", ")))
	}
	return all
}
