package dispatch

import (
	"fmt"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/result"
)

// Pin identifies the catalog that an operator has approved. The zero value pins nothing.
type Pin struct {
	// Hash is the expected catalog.Catalog.Hash.
	Hash string
	// Strict refuses to execute, read or render anything while the catalog differs. Browsing stays
	// possible, so that the difference can be inspected.
	Strict bool
	// Seen refuses to execute, read or render an entry whose definition contains invisible text. A
	// strict pin with a Hash does so as well.
	Seen bool
}

// refuses reports whether the pin can refuse anything.
func (p Pin) refuses() bool { return p.Strict || p.Seen }

// Holds reports whether a catalog is the pinned one, or there is no pin.
func (p Pin) Holds(c *catalog.Catalog) bool { return p.Hash == "" || p.Hash == c.Hash() }

// Check refuses an act under another catalog if the pin is strict. The log tells the new hash to
// the operator; an agent that knew it could ask to have it set.
func (p Pin) Check(c *catalog.Catalog) error {
	if !p.Strict || p.Holds(c) {
		return nil
	}
	return result.NewError(result.PermissionDenied, "nothing runs: the catalog is not the one that is pinned (a server is missing or offers something else). "+
		"The operator finds out what with `weir ls --changes`, and then sets pin.expected_hash")
}

// CheckSeen refuses an act about an entry whose definition an operator cannot have read, if the pin
// is strict or Seen is set: the definition contains invisible text. A strict pin also refuses entries
// that a server lists for single principals, because no hash of the catalog covers these.
func (p Pin) CheckSeen(about []Subject) error {
	why := "guards.unicode is refuse"
	if p.Strict && p.Hash != "" {
		why = "the pin is strict"
	} else if !p.Seen {
		return nil
	}
	for _, s := range about {
		if e := s.Entry; e != nil && e.Own && p.Strict && p.Hash != "" {
			return result.NewError(result.PermissionDenied, fmt.Sprintf("%s does not run: the pin is strict, and server %q lists it for its caller alone. The operator sets mcpServers.%s.lists to shared, or leaves out pin.expected_hash",
				e.ID, e.Upstream, e.Upstream))
		}
		if e := s.Entry; e != nil && e.Hidden != 0 {
			return result.NewError(result.PermissionDenied, fmt.Sprintf("%s does not run: its definition holds %s, which nobody sees, and %s; its owner, server %q, has to take them out",
				e.ID, e.Hidden, why, e.Upstream))
		}
	}
	return nil
}
