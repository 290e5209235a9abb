package hub

import (
	"errors"
	"fmt"

	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio"
)

// access is who may connect, and under which names.
type access struct {
	auth    Authenticator
	devices []Device
}

// SetAccess replaces Options.Auth and Options.Devices. Who is connected stays
// only where the new ones let it in, in the role and the office that it has: a
// peer whose token or key is gone is put out, calls to it are answered, and it is
// refused when it comes back. When SetAccess returns, all of them have been told
// to go. It is safe for concurrent use.
func (h *Hub) SetAccess(auth Authenticator, devices []Device) {
	h.changing.Lock()
	defer h.changing.Unlock()
	if auth == nil {
		auth = Static{Devices: devices}
	}
	h.mu.Lock()
	h.access = &access{auth, devices}
	h.mu.Unlock()
	// Who is not among these yet is checked when it is connected.
	for _, s := range h.ns.To().Sockets() {
		if peer, ok := s.Value().(*session); ok {
			h.check(peer)
		}
	}
}

// credentials are what a peer showed when it connected.
func credentials(s *socketio.Socket) Credentials {
	return Credentials{Header: s.Handshake().Header(), Auth: s.Auth(), RemoteAddr: s.Handshake().RemoteAddr}
}

// check gives a connection what the access grants it now, and ends one that may
// not be where it is.
func (h *Hub) check(s *session) {
	if s.own {
		return
	}
	var refused error
	h.mu.Lock()
	for s.access != h.access {
		now := h.access
		h.mu.Unlock()
		grant, err := now.auth.Authenticate(s.socket.Context(), credentials(s.socket))
		h.mu.Lock()
		if now != h.access {
			continue
		}
		s.access = now
		if err == nil {
			s.grant = grant
			err = h.mayStay(s)
		}
		if err == nil && !grant.NeedsProof {
			err = s.socket.Admit()
		}
		refused = err
	}
	name, principal := s.name, s.grant.Principal
	h.mu.Unlock()
	if refused != nil {
		h.log.Info("a peer was put out: who may connect has changed", "name", name, "principal", principal, "remote", s.socket.Handshake().RemoteAddr, "reason", refused)
		s.socket.Close()
	}
}

// mayStay checks a session against its new grant. It is called under mu.
func (h *Hub) mayStay(s *session) error {
	if s.grant.NeedsProof && s.key == nil && s.proof == nil {
		return errors.New("its token is gone, and it has not proven its key")
	}
	if s.office == nil {
		return nil // joining is checked anew
	}
	if !s.grant.Allows(s.role, s.office.id) {
		return fmt.Errorf("office %q is not open to it as %s any more", s.office.id, s.role)
	}
	d := device(h.access.devices, s.name)
	switch {
	case s.role != smcp.RoleComputer:
		return nil
	case d == nil && s.grant.NeedsProof:
		return fmt.Errorf("no key is known for a Computer with name %q any more", s.name)
	case d != nil && !s.key.Equal(d.Key):
		return fmt.Errorf("the name %q is bound to a key that it has not proven", s.name)
	case d != nil && !officeIn(d.Offices, s.office.id):
		return fmt.Errorf("office %q is not open to %q any more", s.office.id, s.name)
	case d == nil && similarDevice(h.access.devices, s.name) != nil:
		return notATwin(h.access.devices, s.name)
	}
	return h.claim(s, s.role, s.name, s.office.id)
}
