package hub

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// message handles server:mcp: it sends a channel's message to the office's Agent only. A large message waits until there
// is room for its copies, and the later ones of its Computer wait with it. If there is none in time, the Agent gets an
// error in place of an answer.
func (h *Hub) message(s *session, _ string, payload json.RawMessage) (answer, error) {
	if !rawjson.IsObject(payload) {
		return nil, a2c.ErrPayload
	}
	size := int64(len(payload) + len(s.name) + 32)
	room := h.o.Memory.Hold()
	defer room.Release()
	if room.Grow(s.socket.Context(), size) != nil {
		return nil, s.lose(h, payload)
	}
	out, err := rawjson.Set(payload, "computer", rawjson.Quote(s.name))
	if err != nil {
		return nil, a2c.ErrPayload
	}
	for {
		if err = s.up(h, out); !errors.Is(err, engineio.ErrNoRoom) {
			return nil, err
		}
		more := h.o.Memory.Hold()
		if more.Grow(s.socket.Context(), size) != nil {
			return nil, s.lose(h, payload)
		}
		more.Release()
	}
}

// lose tells the Agent that an answer is lost.
func (s *session) lose(h *Hub, payload json.RawMessage) error {
	instead := inPlaceOf(payload, true, s.name, rawjson.Text(rawjson.Get(payload, "agent_sid")))
	if instead == nil {
		h.log.Warn("a message of a channel was dropped: the bytes of limits.memory are taken", "computer", s.name)
		return nil
	}
	return s.up(h, instead)
}

// refused tells the Agent of this node that a message of a channel did not reach its Computer.
func (c *call) refused(payload json.RawMessage, log *slog.Logger) {
	err := error(engineio.ErrNoRoom)
	if instead := inPlaceOf(payload, false, c.member.Name, c.sid); instead != nil && c.event != nil {
		err = c.event.Socket().Emit(smcp.NotifyMCP, instead)
	}
	if err != nil {
		log.Warn("a message of a channel was dropped: the bytes of limits.memory are taken", "computer", c.member.Name, "err", err)
	}
}

// inPlaceOf returns a notify:mcp with an error in place of a message that has no room: of an answer, or as the answer to
// a request. It is nil for other messages.
func inPlaceOf(payload json.RawMessage, answer bool, computer, sid string) json.RawMessage {
	head, err := jsonrpc.Skim(bytes.NewReader(rawjson.Get(payload, "message")))
	if err != nil || head.ID == "" || head.Response != answer || head.Request == answer {
		return nil
	}
	why := mcp.Errorf(mcp.KindOverloaded, "there is no room for the message to computer %q: the bytes of limits.memory are taken; nothing was done", computer)
	if answer {
		why = mcp.Errorf(mcp.KindMemory, "there is no room for the answer of computer %q: the bytes of limits.memory are taken", computer)
	}
	out, err := smcp.Encode(smcp.MCPMessage{
		Computer: computer, Channel: rawjson.Text(rawjson.Get(payload, "channel")), AgentSID: sid,
		Message: jsonrpc.AppendError(nil, head.ID, mcp.WireError(why, "")),
	})
	if err != nil {
		return nil
	}
	return out
}

// up sends a message of a Computer's channel to the Agent of its office.
func (s *session) up(h *Hub, out json.RawMessage) error {
	sid := rawjson.Text(rawjson.Get(out, "agent_sid"))
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case s.role != smcp.RoleComputer:
		return smcp.Errorf(smcp.CodeForbidden, "Only computers may issue %s", smcp.EventServerMCP)
	case s.office == nil:
		return a2c.ErrNoRoom
	}
	a := s.office.Agent
	if a == nil || !a.MCP {
		return errNoAgent
	}
	var err error
	if to := local(a); to != nil && to.alias == sid {
		err = to.socket.Emit(smcp.NotifyMCP, out)
	} else {
		err = remote{fabric{h}}.sendUp(s, a, sid, out)
	}
	switch {
	case err == nil, errors.Is(err, errNoAgent), errors.Is(err, engineio.ErrNoRoom):
		return err
	}
	return smcp.Errorf(smcp.CodeNotFound, "The agent is gone")
}

var errNoAgent = smcp.Errorf(smcp.CodeNotFound, "Nobody in the office takes messages of a channel")
