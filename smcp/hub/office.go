package hub

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/a2c"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio"
)

// join handles server:join_office.
func (h *Hub) join(s *session, _ string, payload json.RawMessage) (answer, error) {
	var req smcp.Join
	if json.Unmarshal(payload, &req) != nil {
		return nil, a2c.ErrPayload
	}
	if req.Name == "" {
		req.Name = req.RobotID
	}
	if !req.Role.Valid() || !legal(req.Name) || !legal(req.OfficeID) {
		return nil, a2c.ErrPayload.With("expected", "role (agent or computer), name and office_id")
	}
	h.mu.Lock()
	nonce := s.nonce
	s.nonce = ""
	h.mu.Unlock()
	for attempt := 1; ; attempt++ {
		out, held, err := h.enter(s, &req, nonce)
		if held == nil || attempt > maxReplaced || !isGone(s, held) {
			return out, err
		}
		h.evict(held, "it does not answer, and its owner is back")
	}
}

// enter adds a session to the requested office. If another session of the same owner holds the place,
// enter returns that session with the error.
func (h *Hub) enter(s *session, req *smcp.Join, nonce string) (out answer, held *session, err error) {
	var replaced *session
	defer func() { // runs after mu is released
		if replaced != nil {
			replaced.socket.Close()
		}
	}()
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.ended {
		return nil, nil, a2c.ErrInternal
	}
	if err := h.mayJoin(s, req, nonce); err != nil {
		return nil, nil, err
	}
	if s.socket.Admit() != nil { // its key is proven now
		return nil, nil, smcp.Errorf(smcp.CodeBusy, "Too many peers are connected to this hub")
	}
	if s.office != nil && s.office.id == req.OfficeID {
		return s.dialect.JoinOK(), nil, nil // joined already
	}
	o := h.offices[req.OfficeID]
	if o == nil {
		if len(h.offices) >= h.o.MaxOffices {
			return nil, nil, smcp.Errorf(smcp.CodeBusy, "There are %d offices, which is the bound", len(h.offices))
		}
		o = &office{id: req.OfficeID, computers: map[string]*session{}}
	}
	if held = h.holder(s, o, req); held != nil && s.replaces(held, req) {
		h.evictLocked(held, "its owner is back and has proven the key")
		s.inherit(held, req)
		replaced, held = held, nil
	}
	if err := h.hasPlace(s, o, req); err != nil {
		if held != nil && s.key != nil {
			err = a2c.NewerProcess(req.Name, o.id)
		}
		return nil, held, err
	}
	if err := h.claim(s, req.Role, req.Name, o.id); err != nil {
		return nil, nil, err
	}
	if s.office != nil {
		h.leaveLocked(s) // a Computer changes rooms by joining
	}
	h.offices[o.id] = o
	s.role, s.name, s.office, s.mcp, s.instance, s.since = req.Role, req.Name, o, req.MCP, req.Instance, time.Now()
	if s.role == smcp.RoleAgent {
		o.agent = s
	} else {
		o.computers[s.name] = s
		h.named[s.name]++
	}
	s.socket.Join(s.room(o.id))
	h.notify(s, smcp.NotifyEnter, presence(s, o.id))
	h.log.Log(context.Background(), s.logLevel(), "joined", "office", o.id, "role", s.role, "name", s.name, "dialect", s.dialect.String(), "principal", s.grant.Principal)
	return s.dialect.JoinOK(), nil, nil
}

// legal reports whether a text may be a name or an office id.
func legal(s string) bool {
	return s != "" && len(s) <= maxNameBytes && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// mayJoin checks the identity of a session: role, name, grant and key. nonce is the nonce that the
// proof must sign. The caller holds mu.
func (h *Hub) mayJoin(s *session, req *smcp.Join, nonce string) error {
	switch {
	case s.role != "" && s.role != req.Role:
		return a2c.RoleMismatch(req.Role, s.role)
	case s.name != "" && s.name != req.Name && (s.dialect.Versioned() || s.office != nil && s.office.id == req.OfficeID):
		return a2c.ErrMismatch
	case s.dialect == a2c.Draft && req.Role == smcp.RoleAgent && req.RobotID != "" && req.RobotID != req.OfficeID:
		return a2c.ErrOfficeID // the first draft: office_id = robot_id
	}
	d := device(h.access.devices, req.Name)
	if req.Role != smcp.RoleComputer {
		d = nil
	} else if err := notATwin(h.access.devices, req.Name); d == nil && err != nil {
		return err
	}
	if d != nil || s.grant.NeedsProof {
		switch {
		case d == nil:
			return smcp.Errorf(smcp.CodeForbidden, "No key is known for a Computer with name '%s'", req.Name)
		case s.key.Equal(d.Key) && s.name == req.Name:
		case !a2c.CheckProof(req.Proof, d.Key, nonce, s.sid, req.Name, req.OfficeID):
			return smcp.Errorf(smcp.CodeForbidden, "The name '%s' is bound to a key; the join has no proof of it", req.Name)
		}
		if !officeIn(d.Offices, req.OfficeID) {
			return smcp.Errorf(smcp.CodeForbidden, "'%s' may not join office '%s'", req.Name, req.OfficeID)
		}
		s.key = d.Key
	}
	if !s.grant.Allows(req.Role, req.OfficeID) {
		return smcp.Errorf(smcp.CodeForbidden, "The token '%s' does not allow to join office '%s' as %s", s.grant.Principal, req.OfficeID, req.Role)
	}
	return nil
}

// hasPlace checks whether an office accepts another member. The caller holds mu.
func (h *Hub) hasPlace(s *session, o *office, req *smcp.Join) error {
	if req.Role == smcp.RoleAgent {
		switch {
		case s.office != nil:
			return a2c.ErrOtherRoom
		case o.agent != nil:
			return a2c.ErrRoomTaken
		}
		return nil
	}
	if c := o.computers[req.Name]; c != nil && c != s {
		return a2c.DuplicateComputer(req.Name, o.id)
	}
	if len(o.computers) >= h.o.MaxComputers {
		return smcp.Errorf(smcp.CodeBusy, "Office '%s' has %d Computers, which is the bound", o.id, len(o.computers))
	}
	if len(o.computers) == 0 {
		return nil
	}
	single := s.dialect.OneComputer() || o.agent != nil && o.agent.dialect.OneComputer()
	for _, c := range o.computers {
		single = single || c.dialect.OneComputer()
	}
	if single {
		return smcp.Errorf(smcp.CodeRoomTaken, "Computer already in room").With("office_id", o.id)
	}
	return nil
}

// within returns the error of a session that is not in an office. The caller holds Hub.mu.
func (s *session) within(officeID string) error {
	switch {
	case s.office == nil:
		return a2c.ErrNoRoom
	case s.office.id != officeID:
		return a2c.ErrCrossRoom
	}
	return nil
}

// leave handles server:leave_office.
func (h *Hub) leave(s *session, _ string, payload json.RawMessage) (answer, error) {
	var req smcp.Leave
	if json.Unmarshal(payload, &req) != nil || req.OfficeID == "" {
		return nil, a2c.ErrPayload
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := s.within(req.OfficeID); err != nil {
		return nil, err
	}
	h.leaveLocked(s)
	return s.dialect.JoinOK(), nil
}

// leaveLocked removes a session from its office and announces it. The caller holds mu.
func (h *Hub) leaveLocked(s *session) {
	o := s.office
	if o == nil {
		return
	}
	h.notify(s, smcp.NotifyLeave, presence(s, o.id))
	s.socket.Leave(roomOf(o.id, true))
	s.socket.Leave(roomOf(o.id, false))
	s.office = nil
	if o.agent == s {
		o.agent = nil
		h.abandon(s, o)
	} else {
		delete(o.computers, s.name)
		if h.named[s.name]--; h.named[s.name] <= 0 {
			delete(h.named, s.name)
		}
	}
	if o.empty() {
		delete(h.offices, o.id)
	}
	h.log.Log(context.Background(), s.logLevel(), "left", "office", o.id, "role", s.role, "name", s.name)
}

// gone handles the end of a connection. Its calls have been answered by then.
func (h *Hub) gone(socket *socketio.Socket, reason socketio.Reason) {
	s, ok := socket.Value().(*session)
	if !ok {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.ended = true
	if s.proof != nil {
		s.proof.Stop()
	}
	if s.renewal != nil {
		s.renewal.Stop()
	}
	h.leaveLocked(s)
	h.log.Debug("disconnected", "sid", s.sid, "name", s.name, "reason", reason)
}

func presence(s *session, office string) json.RawMessage {
	p := smcp.Presence{OfficeID: office}
	if s.role == smcp.RoleAgent {
		p.Agent = s.name
	} else {
		p.Computer = s.name
	}
	raw, err := json.Marshal(p)
	if err != nil {
		panic(err) // texts only
	}
	return raw
}

// notify announces an event to the office of a session, in each member's dialect, except to the
// session itself. The caller holds mu.
func (h *Hub) notify(s *session, event string, payload json.RawMessage) {
	if s.office == nil {
		return
	}
	plain := payload
	if agent := rawjson.Get(payload, "agent"); agent != nil {
		if both, err := rawjson.Set(payload, "robot_id", agent); err == nil {
			plain = both
		}
	}
	h.tell(s.socket.To(roomOf(s.office.id, true)), a2c.Dialect02.Notifications(event), payload)
	h.tell(s.socket.To(roomOf(s.office.id, false)), a2c.Dialect01.Notifications(event), plain)
}

func (h *Hub) tell(to socketio.Broadcast, events []string, payload json.RawMessage) {
	for _, event := range events {
		if err := to.Emit(event, payload); err != nil {
			h.log.Warn("a notification was not sent", "event", event, "err", err)
		}
	}
}

// update handles server:update_* and announces it to the room.
func (h *Hub) update(s *session, event string, payload json.RawMessage) (answer, error) {
	if !rawjson.IsObject(payload) {
		return nil, a2c.ErrPayload
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case s.role == smcp.RoleAgent:
		return nil, smcp.Errorf(smcp.CodeForbidden, "Only computers may issue %s", clip(event))
	case s.office == nil:
		return nil, a2c.ErrNoRoom
	}
	// 0.1 passes on the name in the payload; later dialects send the session's name.
	name := rawjson.Text(rawjson.Get(payload, "computer"))
	if name == "" || s.dialect.Versioned() {
		name = s.name
	}
	h.notify(s, "notify:"+strings.TrimPrefix(event, "server:"), rawjson.Object("computer", rawjson.Quote(name)))
	return nil, nil
}

// cancel handles server:tool_call_cancel.
func (h *Hub) cancel(s *session, _ string, payload json.RawMessage) (answer, error) {
	agent := a2c.AgentOf(payload)
	reqID := rawjson.Text(rawjson.Get(payload, "req_id"))
	if agent == "" || reqID == "" || len(reqID) > maxReqIDBytes {
		return nil, a2c.ErrPayload
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case s.role == smcp.RoleComputer:
		return nil, smcp.Errorf(smcp.CodeForbidden, "Only agents may cancel calls")
	case s.office == nil:
		return nil, a2c.ErrNoRoom
	case s.name != agent:
		return nil, a2c.ErrMismatch
	}
	h.notify(s, smcp.NotifyCancel, cancelPayload(agent, reqID))
	return nil, nil
}

func cancelPayload(agent, reqID string) json.RawMessage {
	return rawjson.NewWriter(nil).Object().Key("agent").String(agent).Key("req_id").String(reqID).EndObject().Bytes()
}

// listRoom handles server:list_room.
func (h *Hub) listRoom(s *session, _ string, payload json.RawMessage) (answer, error) {
	var req smcp.ListRoom
	if json.Unmarshal(payload, &req) != nil || req.OfficeID == "" {
		return nil, a2c.ErrPayload
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := s.within(req.OfficeID); err != nil {
		return nil, err
	}
	room := smcp.Room{Sessions: []smcp.Session{}, ReqID: req.ReqID}
	add := func(m *session) {
		member := smcp.Session{SID: m.sid, Name: m.name, Role: m.role, OfficeID: req.OfficeID, MCP: s.mcp && m.mcp && m.role == smcp.RoleComputer}
		if s.dialect.Versioned() {
			member.Version = m.said
		}
		room.Sessions = append(room.Sessions, member)
	}
	if a := s.office.agent; a != nil {
		add(a)
	}
	for _, name := range sortedNames(s.office.computers) {
		add(s.office.computers[name])
	}
	raw, err := json.Marshal(room)
	if err != nil {
		return nil, err
	}
	return answer{raw}, nil
}

// challenge handles server:challenge: it returns a new nonce.
func (h *Hub) challenge(s *session, _ string, _ json.RawMessage) (answer, error) {
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails
	nonce := base64.RawURLEncoding.EncodeToString(b[:])
	h.mu.Lock()
	s.nonce = nonce
	h.mu.Unlock()
	raw, err := json.Marshal(a2c.Challenge{Nonce: nonce})
	return answer{raw}, err
}
