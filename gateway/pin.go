package gateway

import (
	"fmt"

	"github.com/weir-mcp/weir/catalog"
	"github.com/weir-mcp/weir/rawjson"
)

// Pin names the catalog that an operator has looked at. The zero value pins
// nothing.
type Pin struct {
	// Hash is the catalog.Catalog.Hash that is expected.
	Hash string
	// Strict refuses to execute, read or render anything while the catalog is
	// another. Browsing stays possible, so that one can see what is there.
	Strict bool
}

// Holds reports whether a catalog is the one that is pinned, or none is.
func (p Pin) Holds(c *catalog.Catalog) bool { return p.Hash == "" || p.Hash == c.Hash() }

// pinned refuses a call under a catalog that is not the pinned one, where the pin
// is strict.
func (g *Gateway) pinned(c *catalog.Catalog) error {
	p := g.opts.Pin
	if !p.Strict || p.Holds(c) {
		return nil
	}
	now := c.Hash()
	details := rawjson.AppendString([]byte(`{"expected_hash":`), p.Hash)
	details = append(rawjson.AppendString(append(details, `,"hash":`...), now), '}')
	return &Error{Code: PermissionDenied, Details: details, Message: fmt.Sprintf(
		"nothing runs: the catalog is not the one that is pinned (a server is missing or offers something else). The operator looks at `weir ls --changes` and then sets pin.expected_hash to %s", now)}
}
