package gateway

import (
	"fmt"
	"strings"

	"github.com/weir-mcp/weir/catalog"
)

// absences is what Upstreams may implement beside its methods: it knows of
// upstreams that are configured and have listed nothing yet.
type absences interface {
	// Absent returns the upstream whose tools would have ids of this namespace,
	// where it has never been listed, and why: its last error, or "" while it
	// still starts.
	Absent(namespace string) (upstream, why string, absent bool)
}

// absent is the failure for an id whose upstream has not come up: such an id
// may be right (it survives a restart of weir), and to offer the ids of other
// upstreams instead would be misleading. It is nil for every other id.
func (g *Gateway) absent(id string) *Error {
	known, ok := g.opts.Upstreams.(absences)
	if !ok {
		return nil
	}
	parts, err := catalog.ParseToolID(id)
	if err != nil {
		return nil
	}
	upstream, why, absent := known.Absent(parts.Namespace)
	if !absent {
		return nil
	}
	message := fmt.Sprintf("server %q", upstream)
	if parts.Namespace != upstream {
		message += fmt.Sprintf(", which has the tools of %q,", parts.Namespace)
	}
	message += " has not come up yet"
	// What the manager says of an upstream begins with its name.
	if rest, named := strings.CutPrefix(why, fmt.Sprintf("upstream %q", upstream)); named {
		why = strings.TrimPrefix(rest, ": ")
		if why != "" && why[0] == ' ' {
			why = "it" + why
		}
	}
	if why != "" {
		message += ": " + why
	}
	return &Error{Code: UpstreamUnavailable, Message: message}
}
