package hub

import (
	"crypto/ed25519"

	"github.com/weir-mcp/weir/internal/ownership"
	"github.com/weir-mcp/weir/smcp"
)

// A Claimant is a Computer that wants to be in an office under a name.
type Claimant struct {
	Office, Name string
	Principal    string            // whose credentials it has shown
	Key          ed25519.PublicKey // that it has proven; nil: none
}

// claim asks Options.Claim about a Computer that has a place in an office. It is
// called under mu.
func (h *Hub) claim(s *session, role smcp.Role, name, office string) error {
	if role != smcp.RoleComputer || h.o.Claim == nil {
		return nil
	}
	if err := h.o.Claim(Claimant{office, name, s.grant.Principal, s.key}); err != nil {
		return smcp.Errorf(smcp.CodeForbidden, "%v: give this Computer another name", err)
	}
	return nil
}

// similarDevice returns the binding of a name that a Computer's name is taken for although it
// is written in another way, nil where there is none.
func similarDevice(devices []Device, name string) *Device {
	folded := ownership.Fold(name)
	for i := range devices {
		if d := &devices[i]; d.Name != name && ownership.Fold(d.Name) == folded {
			return d
		}
	}
	return nil
}

// notATwin refuses the name of a Computer that is taken for one that is bound to a
// key.
func notATwin(devices []Device, name string) error {
	if d := similarDevice(devices, name); d != nil {
		return smcp.Errorf(smcp.CodeForbidden, "The name '%s' counts as '%s', which is bound to a key: give this Computer another name", name, d.Name)
	}
	return nil
}
