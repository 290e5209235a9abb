package hub

import (
	"errors"
	"fmt"

	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio"
)

// access holds the rules of who may connect, and under which names.
type access struct {
	auth    Authenticator
	devices []Device
}

// SetAccess replaces Options.Auth and Options.Devices. A connected peer stays only if the new rules
// admit it in its present role and office. A peer whose token or key was removed is disconnected,
// calls to it are answered, and its reconnect is refused. So is a peer that auth does not decide about
// within 20 s; it may reconnect. When SetAccess returns, all such peers have
// been disconnected. It is safe for concurrent use.
func (h *Hub) SetAccess(auth Authenticator, devices []Device) {
	h.changing.Lock()
	defer h.changing.Unlock()
	if auth == nil {
		auth = Static{Devices: devices}
	}
	h.mu.Lock()
	h.access = &access{auth, devices}
	h.mu.Unlock()
	// A peer that connects after this is checked when it connects.
	checks{h}.all()
}

// credentials returns the credentials that a peer sent when it connected.
func credentials(s *socketio.Socket) Credentials {
	shake := s.Handshake()
	return Credentials{Header: shake.Header(), Auth: s.Auth(), RemoteAddr: shake.RemoteAddr, TLS: shake.TLS}
}

// mayStay checks a session against its new grant. The caller holds mu.
func (h *Hub) mayStay(s *session) error {
	if s.grant.NeedsProof && s.key == nil && s.proof == nil {
		return errors.New("its token is gone, and it has not proven its key")
	}
	if s.office == nil {
		return nil // the next join is checked
	}
	if !s.grant.Allows(s.role, s.office.ID) {
		return fmt.Errorf("office %q is not open to it as %s any more", s.office.ID, s.role)
	}
	d := device(h.access.devices, s.name)
	switch {
	case s.role != smcp.RoleComputer:
		return nil
	case d == nil && s.grant.NeedsProof:
		return fmt.Errorf("no key is known for a Computer with name %q any more", s.name)
	case d != nil && !s.key.Equal(d.Key):
		return fmt.Errorf("the name %q is bound to a key that it has not proven", s.name)
	case d != nil && !officeIn(d.Offices, s.office.ID):
		return fmt.Errorf("office %q is not open to %q any more", s.office.ID, s.name)
	case d == nil && similarDevice(h.access.devices, s.name) != nil:
		return notATwin(h.access.devices, s.name)
	}
	return h.claim(s, s.role, s.name, s.office.ID)
}
