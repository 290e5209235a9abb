package app

import (
	"github.com/weir-mcp/weir/internal/lockfile"
	"github.com/weir-mcp/weir/internal/policy/definitions"
)

// complete adds to the state of a server what the lock says of it.
func (h *Health) complete(d *definitions.Lock, server string) {
	s, u := d.Summary(server), h.Upstreams[server]
	u.Differs, u.Held = s.Differs, s.Held
	if s.Note != "" && (u.Note == "" || s.Refused) {
		u.Note = s.Note
	}
	if s.Refused && u.Error == "" {
		u.State = lockfile.StateRefused
		h.Status = StatusDegraded
	}
	h.Upstreams[server] = u
}
