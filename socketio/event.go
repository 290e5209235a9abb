package socketio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// Handler is called for an event. It may block; Namespace.On and OnConcurrent describe the
// effect. The event may be kept, and its ack may be sent later by any goroutine.
type Handler func(*Event)

// Event is one event that a peer has emitted.
type Event struct {
	Name string
	Payload

	socket *Socket
	id     []byte // of the ack; nil: the peer wants none
	acked  atomic.Bool
	own    releases           // of the bytes
	room   [3]json.RawMessage // for the name and the arguments, if there are so few
}

// Keep makes the bytes of the event count until release is called, once, in place of the end of the handler. A handler
// that keeps the bytes of a large event calls it.
func (e *Event) Keep() (release func()) {
	own := e.own
	e.own = nil
	return own.run
}

// done is called when the handler has returned, or the event is dropped.
func (e *Event) done() {
	e.own.run()
	e.own = nil
}

// Socket returns the socket that received the event.
func (e *Event) Socket() *Socket { return e.socket }

// WantsAck reports whether the peer waits for an ack.
func (e *Event) WantsAck() bool { return e.id != nil }

// Ack answers the event. It returns ErrNoAckWanted if the peer wants no ack or has received it.
func (e *Event) Ack(args ...json.RawMessage) error { return e.AckPayload(Payload{Args: args}) }

// AckPayload is Ack with attachments. After engineio.ErrNoRoom, the event has no answer yet.
func (e *Event) AckPayload(p Payload) error {
	if e.id == nil || !e.acked.CompareAndSwap(false, true) {
		return ErrNoAckWanted
	}
	m := newDraft(packetAck, e.socket.nsp, "", p)
	defer m.release()
	m.id = append(m.id, e.id...)
	err := e.socket.send(*m)
	if errors.Is(err, engineio.ErrNoRoom) { // the caller may answer with less
		e.acked.Store(false)
	}
	return err
}

// Decode decodes the n-th argument into v as encoding/json does.
func (e *Event) Decode(n int, v any) error {
	arg := e.Arg(n)
	if arg == nil {
		return fmt.Errorf("socketio: event %q has no argument %d", e.Name, n)
	}
	if err := json.Unmarshal(arg, v); err != nil {
		return fmt.Errorf("socketio: argument %d of event %q: %w", n, e.Name, err)
	}
	return nil
}

// handlers is the event table of a namespace or a client. Registration copies the table, so that a
// lookup takes no lock.
type handlers struct {
	table atomic.Pointer[table]
}

type table struct {
	byName map[string]*entry
	other  *entry
}

type entry struct {
	name       string
	handle     Handler
	concurrent bool
	immediate  bool // handle never blocks; see Config.Immediate
}

func (h *handlers) set(name string, e *entry) {
	for {
		old := h.table.Load()
		next := &table{byName: map[string]*entry{}}
		if old != nil {
			next.other = old.other
			for name, e := range old.byName {
				next.byName[name] = e
			}
		}
		if name == "" {
			next.other = e
		} else {
			next.byName[name] = e
		}
		if h.table.CompareAndSwap(old, next) {
			return
		}
	}
}

// find returns the name of an event and its handler, or nil. raw is the name as JSON.
func (h *handlers) find(raw []byte) (string, *entry, error) {
	t := h.load()
	if len(raw) >= 2 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		if e := t.byName[string(raw[1:len(raw)-1])]; e != nil {
			return e.name, e, nil
		}
	}
	name := string(raw)
	if raw[0] == '"' {
		var err error
		if name, err = rawjson.String(raw); err != nil {
			return "", nil, fmt.Errorf("%w: %w", errPacket, err)
		}
	}
	if reserved(name) {
		return "", nil, fmt.Errorf("%w: the event name %q is reserved", errPacket, name)
	}
	if e := t.byName[name]; e != nil {
		return name, e, nil
	}
	return name, t.other, nil
}

// named is like find for a plain name.
func (h *handlers) named(name string) *entry {
	t := h.load()
	if e := t.byName[name]; e != nil {
		return e
	}
	return t.other
}

var noHandlers = &table{}

func (h *handlers) load() *table {
	if t := h.table.Load(); t != nil {
		return t
	}
	return noHandlers
}
