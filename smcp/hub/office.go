package hub

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/internal/office/roster"
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
	if !req.Role.Valid() || req.Name == "" || req.OfficeID == "" || len(req.Name) > maxNameBytes || len(req.OfficeID) > maxNameBytes {
		return nil, a2c.ErrPayload.With("expected", "role (agent or computer), name and office_id")
	}
	for _, text := range []string{req.Name, req.OfficeID} {
		if !legible(text) {
			return nil, smcp.Errorf(smcp.CodeInvalid, "%s: a name or office may have no invisible characters, and no word with letters of two alphabets", a2c.ErrPayload.Message)
		}
	}
	h.mu.Lock()
	nonce := s.nonce
	s.nonce = ""
	h.mu.Unlock()
	if h.o.Shared != nil {
		return fabric{h}.joinShared(s, &req, nonce)
	}
	free := ""
	for attempt := 1; ; attempt++ {
		out, held, err := h.enter(s, &req, nonce, free)
		if held == nil || attempt > maxReplaced || !isGone(s, held) {
			return out, err
		}
		free = held.sid
	}
}

// enter adds a session to the requested office. If another session of the same owner holds the place,
// enter returns that session with the error. free is the sid of such a session that does not answer.
func (h *Hub) enter(s *session, req *smcp.Join, nonce, free string) (out answer, held *session, err error) {
	var replaced *session
	defer func() { // runs after mu is released
		if replaced != nil {
			replaced.socket.Close() // its calls are answered then
		}
	}()
	h.mu.Lock()
	defer h.mu.Unlock()
	if done, err := h.mayEnter(s, req, nonce); done != nil || err != nil {
		return done, nil, err
	}
	o := h.offices[req.OfficeID]
	if o == nil {
		o = &office{ID: req.OfficeID, Office: roster.Office{ID: req.OfficeID}}
	}
	h.joins++
	m := s.wanted(req, "", h.joins)
	before, err := o.Join(m, roster.Terms{Max: h.o.MaxComputers, Free: free, May: func() error { return h.claim(s, req.Role, req.Name, o.ID) }})
	var taken *roster.TakenError
	if errors.As(err, &taken) && m.SameOwner(taken.Holder) {
		held = local(taken.Holder)
	}
	if err != nil {
		return nil, held, refusal(s, req, h.o.MaxComputers, err)
	}
	if before != nil {
		replaced = local(before)
		h.replaced(replaced, "its owner is back")
		h.left(o, before)
	}
	if s.office != nil {
		h.leaveLocked(s) // a Computer changes rooms by joining
	}
	h.offices[o.ID] = o
	h.entered(o, m)
	return s.dialect.JoinOK(), nil, nil
}

// mayEnter checks everything about a join but the place. It returns the ack of a session that is in the
// office. The caller holds mu.
func (h *Hub) mayEnter(s *session, req *smcp.Join, nonce string) (done answer, err error) {
	if s.ended {
		return nil, a2c.ErrInternal
	}
	if err := h.mayJoin(s, req, nonce); err != nil {
		return nil, err
	}
	if s.socket.Admit() != nil { // its key is proven now
		return nil, smcp.Errorf(smcp.CodeBusy, "Too many peers are connected to this hub")
	}
	if s.office != nil && s.office.ID == req.OfficeID {
		return append(answer{}, s.dialect.JoinOK()...), nil // joined already
	}
	if h.offices[req.OfficeID] == nil && len(h.offices) >= h.o.MaxOffices {
		return nil, smcp.Errorf(smcp.CodeBusy, "There are %d offices, which is the bound", len(h.offices))
	}
	if req.Role == smcp.RoleAgent && s.office != nil {
		return nil, a2c.ErrOtherRoom
	}
	return nil, nil
}

// wanted returns the member that a session wants to be, the gen-th one of this hub. inc is the node; ""
// without a cluster. The caller holds Hub.mu.
func (s *session) wanted(req *smcp.Join, inc string, gen uint64) *roster.Member {
	s.next = s.sid
	if inc != "" {
		s.next = inc + "." + s.sid + "." + strconv.FormatUint(gen, 36)
	}
	m := &roster.Member{
		Name: req.Name, Role: roster.Role(req.Role), Node: inc, SID: s.next, Gen: gen, Dialect: uint8(s.dialect), Version: s.said, Alone: s.dialect.OneComputer(),
		MCP: req.MCP, Principal: s.grant.Principal, Instance: short(req.Instance), Peer: s,
	}
	if s.key != nil {
		m.Key = smcp.EncodeKey(s.key)
	}
	if s.own && m.Role == roster.Agent {
		m.Node, m.Nodes = roster.Everywhere, []string{inc}
	}
	return m
}

// short bounds a text that a peer has chosen and that is only compared.
func short(s string) string {
	if len(s) <= 64 {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// refusal returns the protocol's error for one of roster.Office.Join.
func refusal(s *session, req *smcp.Join, max int, err error) error {
	var taken *roster.TakenError
	switch {
	case errors.As(err, &taken) && s.key != nil && taken.Holder.Name == req.Name && taken.Holder.Key == smcp.EncodeKey(s.key):
		return a2c.NewerProcess(req.Name, req.OfficeID)
	case taken != nil && req.Role == smcp.RoleAgent:
		return a2c.ErrRoomTaken
	case taken != nil:
		return a2c.DuplicateComputer(req.Name, req.OfficeID)
	case errors.Is(err, roster.ErrFull):
		return smcp.Errorf(smcp.CodeBusy, "Office '%s' has %d Computers, which is the bound", req.OfficeID, max)
	case errors.Is(err, roster.ErrSingle):
		return smcp.Errorf(smcp.CodeRoomTaken, "Computer already in room").With("office_id", req.OfficeID)
	}
	return err
}

// local returns the connection of a member, nil if it is at another node.
func local(m *roster.Member) *session {
	s, _ := m.Peer.(*session)
	return s
}

// entered puts a member that is in the office's value into its room, and announces it. The caller holds
// mu.
func (h *Hub) entered(o *office, m *roster.Member) {
	if m.Role == roster.Computer {
		h.named[m.Name]++
	}
	s := local(m)
	if s != nil {
		fabric{h}.seats(o, s, m)
	}
	h.announce(o.ID, s, smcp.NotifyEnter, presence(m, o.ID))
	if s != nil {
		h.log.Log(context.Background(), s.logLevel(), "joined", "office", o.ID, "role", s.role, "name", s.name, "dialect", s.dialect.String(), "principal", s.grant.Principal)
	}
}

// left announces a member that is no more in the office's value, and takes it out of its room. The
// caller holds mu.
func (h *Hub) left(o *office, m *roster.Member) {
	s := local(m)
	h.announce(o.ID, s, smcp.NotifyLeave, presence(m, o.ID))
	if m.Role == roster.Computer {
		if h.named[m.Name]--; h.named[m.Name] <= 0 {
			delete(h.named, m.Name)
		}
	}
	if s == nil {
		return
	}
	o.shared.local--
	s.socket.Leave(roomOf(o.ID, true))
	s.socket.Leave(roomOf(o.ID, false))
	if s.at == m {
		s.office, s.at, s.threads = nil, nil, nil
	}
	if m.Role == roster.Agent {
		h.abandon(s, o)
	}
	h.log.Log(context.Background(), s.logLevel(), "left", "office", o.ID, "role", s.role, "name", s.name)
}

// mayJoin checks the identity of a session: role, name, grant and key. nonce is the nonce that the
// proof must sign. The caller holds mu.
func (h *Hub) mayJoin(s *session, req *smcp.Join, nonce string) error {
	switch {
	case s.role != "" && s.role != req.Role:
		return a2c.RoleMismatch(req.Role, s.role)
	case s.name != "" && s.name != req.Name && (s.dialect.Versioned() || s.office != nil && s.office.ID == req.OfficeID):
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

// within returns the error of a session that is not in an office. The caller holds Hub.mu.
func (s *session) within(officeID string) error {
	switch {
	case s.office == nil:
		return a2c.ErrNoRoom
	case s.office.ID != officeID:
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
	if err := s.within(req.OfficeID); err != nil {
		h.mu.Unlock()
		return nil, err
	}
	if h.o.Shared != nil {
		h.mu.Unlock()
		if err := (fabric{h}).leaveShared(s); err != nil {
			return nil, err
		}
		return s.dialect.JoinOK(), nil
	}
	h.leaveLocked(s)
	h.mu.Unlock()
	return s.dialect.JoinOK(), nil
}

// leaveLocked removes a session from its office and announces it. The caller holds mu.
func (h *Hub) leaveLocked(s *session) {
	o, m := s.office, s.at
	if o == nil {
		return
	}
	if h.o.Shared != nil {
		fabric{h}.departLater(s)
		return
	}
	o.Leave(m)
	h.left(o, m)
	if o.Empty() {
		delete(h.offices, o.ID)
	}
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
	h.cluster.forget(s)
	h.log.Debug("disconnected", "sid", s.sid, "name", s.name, "reason", reason)
}

func presence(m *roster.Member, office string) json.RawMessage {
	p := smcp.Presence{OfficeID: office}
	if m.Role == roster.Agent {
		p.Agent = m.Name
	} else {
		p.Computer = m.Name
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
	h.announce(s.office.ID, s, event, payload)
	fabric{h}.tellOthers(s.office, event, payload)
}

// announce is notify for members at this node. s is the member that it concerns; nil if that is at
// another node.
func (h *Hub) announce(office string, s *session, event string, payload json.RawMessage) {
	to := h.ns.To
	if s != nil {
		to = s.socket.To
	}
	plain := payload
	if agent := rawjson.Get(payload, "agent"); agent != nil {
		if both, err := rawjson.Set(payload, "robot_id", agent); err == nil {
			plain = both
		}
	}
	h.tell(to(roomOf(office, true)), a2c.Dialect02.Notifications(event), payload)
	h.tell(to(roomOf(office, false)), a2c.Dialect01.Notifications(event), plain)
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
	add := func(m *roster.Member) {
		member := smcp.Session{SID: m.SID, Name: m.Name, Role: smcp.Role(m.Role), OfficeID: req.OfficeID, MCP: s.at.MCP && m.MCP && m.Role == roster.Computer}
		if s.dialect.Versioned() {
			member.Version = m.Version
		}
		room.Sessions = append(room.Sessions, member)
	}
	if a := s.office.Agent; a != nil {
		add(a)
	}
	for _, name := range slices.Sorted(maps.Keys(s.office.Computers)) {
		add(s.office.Computers[name])
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
