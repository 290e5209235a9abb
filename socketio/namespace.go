package socketio

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
)

// Namespace is a set of sockets with common handlers. All methods are safe for concurrent use,
// but Use, OnConnect and OnDisconnect must be called before the server serves.
type Namespace struct {
	name     string
	handlers handlers

	middleware   []func(context.Context, *Socket) error
	onConnect    []func(*Socket)
	onDisconnect []func(*Socket, Reason)

	mu      sync.RWMutex // guards below and the rooms of each socket
	sockets map[string]*Socket
	members map[*Socket]struct{} // the same, for broadcasts
	rooms   map[string]map[*Socket]struct{}

	fan fan
}

func newNamespace(name string, limits *limits) *Namespace {
	return &Namespace{
		name:    name,
		fan:     fan{limits: limits},
		sockets: map[string]*Socket{},
		members: map[*Socket]struct{}{},
		rooms:   map[string]map[*Socket]struct{}{},
	}
}

// Name returns the namespace's name, such as "/".
func (n *Namespace) Name() string { return n.name }

// Use adds a function that admits or refuses each socket before it is connected. The functions run
// in the order of their registration. A *ConnectError is sent to the client as it is; any other
// error is sent as "Connection refused by server". ctx ends when the connection does.
func (n *Namespace) Use(decide func(ctx context.Context, s *Socket) error) {
	n.middleware = append(n.middleware, decide)
}

// OnConnect adds a function that is called for each socket once it is connected, before its first
// event.
func (n *Namespace) OnConnect(f func(*Socket)) { n.onConnect = append(n.onConnect, f) }

// OnDisconnect adds a function that is called for each connected socket after its last event has
// been handled. The socket has left its rooms by then.
func (n *Namespace) OnDisconnect(f func(*Socket, Reason)) {
	n.onDisconnect = append(n.onDisconnect, f)
}

// On sets the handler of an event. Handlers of one socket run one after the other, in the order of
// its events. A handler that blocks delays the next handler, but not the acks that it waits for.
func (n *Namespace) On(event string, h Handler) {
	n.handlers.set(event, &entry{name: event, handle: h, immediate: slices.Contains(n.fan.limits.immediate, event)})
}

// OnConcurrent sets a handler whose calls start in order but may overlap: up to
// Config.MaxConcurrent of them run for one socket.
func (n *Namespace) OnConcurrent(event string, h Handler) {
	n.handlers.set(event, &entry{name: event, handle: h, concurrent: true})
}

// OnOther sets the handler of events without a handler of their own. Without OnOther such events
// are dropped.
func (n *Namespace) OnOther(h Handler) { n.handlers.set("", &entry{handle: h}) }

// admit runs the middleware and connects the socket. It runs as the socket's first job.
func (n *Namespace) admit(s *Socket) {
	for _, decide := range n.middleware {
		if err := decide(s.Context(), s); err != nil {
			s.conn.limits.logger.Debug("socketio: connection refused", "namespace", n.name, "error", err)
			_ = s.conn.link.send(message{kind: packetConnectError, nsp: n.name, data: refusal(err)}, false)
			s.leaveNamespace(ReasonServerDisconnect)
			return
		}
	}
	n.mu.Lock()
	s.mu.Lock()
	gone := s.status != connecting
	if !gone {
		s.status = connected
		n.sockets[s.id] = s
		n.members[s] = struct{}{}
	}
	s.mu.Unlock()
	n.mu.Unlock()
	if gone {
		return
	}
	s.conn.joined()
	_ = s.conn.link.send(message{kind: packetConnect, nsp: n.name, data: []byte(`{"sid":"` + s.id + `"}`)}, false)
	for _, f := range n.onConnect {
		f(s)
	}
}

func (n *Namespace) left(s *Socket, reason Reason) {
	for _, f := range n.onDisconnect {
		f(s, reason)
	}
}

// drop removes a socket from the namespace and its rooms.
func (n *Namespace) drop(s *Socket) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sockets[s.id] == s {
		delete(n.sockets, s.id)
	}
	delete(n.members, s)
	for _, room := range s.rooms {
		n.leaveLocked(s, room)
	}
	s.rooms = nil
}

// Len returns the number of sockets.
func (n *Namespace) Len() int {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.sockets)
}

// Socket returns the socket with an id, or nil.
func (n *Namespace) Socket(id string) *Socket {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.sockets[id]
}

// Sockets returns all sockets, in no order.
func (n *Namespace) Sockets() []*Socket {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return keys(n.members)
}

// RoomMembers returns the sockets in a room, in no order.
func (n *Namespace) RoomMembers(room string) []*Socket {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return keys(n.rooms[room])
}

func keys(set map[*Socket]struct{}) []*Socket {
	list := make([]*Socket, 0, len(set))
	for s := range set {
		list = append(list, s)
	}
	return list
}

// Join adds the socket to a room of its namespace. A new socket is in no room, not even one named
// after its id, so other sockets cannot listen in. Join does nothing if the socket is in the room,
// is disconnected, or belongs to a client.
func (s *Socket) Join(room string) {
	n := s.space
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, here := n.members[s]; !here || slices.Contains(s.rooms, room) {
		return
	}
	s.rooms = append(s.rooms, room)
	members := n.rooms[room]
	if members == nil {
		members = map[*Socket]struct{}{}
		n.rooms[room] = members
	}
	members[s] = struct{}{}
}

// Leave removes the socket from a room.
func (s *Socket) Leave(room string) {
	n := s.space
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.Index(s.rooms, room)
	if i < 0 {
		return
	}
	s.rooms = slices.Delete(s.rooms, i, i+1)
	n.leaveLocked(s, room)
}

func (n *Namespace) leaveLocked(s *Socket, room string) {
	members := n.rooms[room]
	delete(members, s)
	if len(members) == 0 {
		delete(n.rooms, room)
	}
}

// Rooms returns the rooms of the socket.
func (s *Socket) Rooms() []string {
	n := s.space
	if n == nil {
		return nil
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	return slices.Clone(s.rooms)
}

// --- broadcast ---

// Broadcast is a selection of sockets to send an event to. Namespace.To, Namespace.Except and
// Socket.To return one. It may be used many times.
type Broadcast struct {
	space  *Namespace
	rooms  []string // none: all sockets
	except []string
	not    *Socket
}

// To selects the sockets in any of the rooms; without rooms, all sockets of the namespace.
func (n *Namespace) To(rooms ...string) Broadcast { return Broadcast{space: n, rooms: rooms} }

// Emit sends an event to all sockets of the namespace.
func (n *Namespace) Emit(event string, args ...json.RawMessage) error {
	return n.To().Emit(event, args...)
}

// To selects the sockets in any of the rooms, or without rooms all of the namespace, but not s
// itself. In a client it selects none.
func (s *Socket) To(rooms ...string) Broadcast {
	return Broadcast{space: s.space, rooms: rooms, not: s}
}

// To adds rooms to the selection.
func (b Broadcast) To(rooms ...string) Broadcast {
	b.rooms = slices.Concat(b.rooms, rooms)
	return b
}

// Except removes the sockets in rooms from the selection.
func (b Broadcast) Except(rooms ...string) Broadcast {
	b.except = slices.Concat(b.except, rooms)
	return b
}

// Emit sends an event to the selected sockets. The event is encoded once, and Emit does not wait
// for slow peers: a peer whose queue is full is disconnected. The error concerns the event, never a
// socket.
func (b Broadcast) Emit(event string, args ...json.RawMessage) error {
	return b.EmitPayload(event, Payload{Args: args})
}

// EmitPayload is Emit with attachments.
func (b Broadcast) EmitPayload(event string, p Payload) error {
	if err := checkName(event); err != nil {
		return err
	}
	if b.space == nil {
		return nil
	}
	list := b.space.fan.take()
	list.sockets = b.choose(list.sockets)
	if len(list.sockets) > 0 {
		m := message{kind: packetEvent, nsp: b.space.name, event: event, Payload: p}
		m.frames = m.encode() // encoded once for all sockets
		b.space.fan.send(list, m)
	}
	b.space.fan.put(list)
	return nil
}

// Sockets returns the selected sockets, in no order.
func (b Broadcast) Sockets() []*Socket {
	if b.space == nil {
		return nil
	}
	return b.choose(nil)
}

func (b Broadcast) choose(list []*Socket) []*Socket {
	n := b.space
	n.mu.RLock()
	defer n.mu.RUnlock()
	switch len(b.rooms) {
	case 0:
		list = b.add(list, n.members, nil)
	case 1:
		list = b.add(list, n.rooms[b.rooms[0]], nil)
	default:
		seen := map[*Socket]struct{}{}
		for _, room := range b.rooms {
			list = b.add(list, n.rooms[room], seen)
		}
	}
	return list
}

// add appends the selected members of one room. seen holds the members of earlier rooms; nil: there
// are none.
func (b Broadcast) add(list []*Socket, members, seen map[*Socket]struct{}) []*Socket {
	for s := range members {
		if s == b.not || b.isExcepted(s) {
			continue
		}
		if seen != nil {
			if _, twice := seen[s]; twice {
				continue
			}
			seen[s] = struct{}{}
		}
		list = append(list, s)
	}
	return list
}

func (b Broadcast) isExcepted(s *Socket) bool {
	for _, room := range b.except {
		if _, in := b.space.rooms[room][s]; in {
			return true
		}
	}
	return false
}
