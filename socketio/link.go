package socketio

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/weir-mcp/weir/socketio/engineio"
)

// message is one packet between two sockets, before it is encoded.
type message struct {
	kind  byte // packetConnect, packetDisconnect, packetConnectError, packetEvent or packetAck
	nsp   string
	id    []byte // of the ack; empty: none
	event string // name
	Payload
	data   []byte           // JSON of the other kinds; nil: none
	frames []engineio.Frame // the encoded message; nil: not encoded yet
	own    releases         // of a clone's bytes
}

// take returns what returns the bytes of a clone, to the one who has them now.
func (m *message) take() releases {
	own := m.own
	m.own = nil
	return own
}

// drafts pools messages for newDraft.
var drafts = sync.Pool{New: func() any { return new(message) }}

// maxDraftArgs bounds the arguments that a message in drafts has room for.
const maxDraftArgs = 64

// newDraft returns a message for a single send, to be released afterwards. It owns its slices, but
// not the bytes of arguments and attachments. Links are called through an interface, so a message
// escapes to the heap: the pool keeps the senders' values off it.
func newDraft(kind byte, nsp, event string, p Payload) *message {
	m := drafts.Get().(*message)
	m.kind, m.nsp, m.event = kind, nsp, event
	m.Args, m.Attachments = append(m.Args, p.Args...), append(m.Attachments, p.Attachments...)
	m.Handed = p.Handed
	return m
}

func (m *message) release() {
	if cap(m.Args)+cap(m.Attachments) > maxDraftArgs {
		return
	}
	clear(m.Args)
	clear(m.Attachments)
	*m = message{id: m.id[:0], Payload: Payload{Args: m.Args[:0], Attachments: m.Attachments[:0]}}
	drafts.Put(m)
}

// encode returns the frames of the message.
func (m *message) encode() []engineio.Frame {
	if m.frames != nil {
		return m.frames
	}
	return withAttachments(m.text(), m.Attachments)
}

// text returns the first frame of the message, the only one if it has no attachments.
func (m *message) text() engineio.Frame {
	switch m.kind {
	case packetEvent:
		return eventText(m.nsp, m.id, m.event, m.Payload)
	case packetAck:
		return ackText(m.nsp, m.id, m.Payload)
	}
	return encodeControl(m.kind, m.nsp, m.data)
}

// textSize estimates the size of the packet's text.
func (m *message) textSize() int {
	size := len(m.nsp) + len(m.id) + len(m.event) + len(m.data) + 8
	for _, arg := range m.Args {
		size += len(arg) + 1
	}
	return size
}

// size estimates the size of text and attachments.
func (m *message) size() int {
	size := m.textSize()
	for _, a := range m.Attachments {
		size += len(a)
	}
	return size
}

// clone copies the bytes that the sender owns, because they may be valid only during its call.
func (m *message) clone() message {
	out := *m
	out.frames, out.id, out.own = nil, nil, nil
	if len(m.id) > 0 {
		out.id = bytes.Clone(m.id)
	}
	out.data = bytes.Clone(m.data)
	if m.Handed {
		out.Handed, out.Args = false, slices.Clone(m.Args)
		return out
	}
	total := 0
	for _, arg := range m.Args {
		total += len(arg)
	}
	room := make([]byte, 0, total)
	out.Args = make([]json.RawMessage, 0, max(len(m.Args), 1))
	for _, arg := range m.Args {
		if len(arg) == 0 {
			out.Args = append(out.Args, null)
			continue
		}
		start := len(room)
		room = append(room, arg...)
		out.Args = append(out.Args, room[start:len(room):len(room)])
	}
	if m.kind == packetEvent && len(m.Args) == 0 {
		out.Args = append(out.Args, null) // as in eventText
	}
	out.Attachments = nil
	for _, a := range m.Attachments {
		out.Attachments = append(out.Attachments, bytes.Clone(a))
	}
	return out
}

// link carries messages to the peer of one connection: over Engine.IO (engineLink), or within the
// process (localEnd). All methods are safe for concurrent use; all except Wait and Probe return at
// once.
type link interface {
	// send queues a message and copies the bytes that it keeps. later means that Flush, or the next
	// send, starts the transmission.
	send(m message, later bool) error
	Flush()

	// Close and CloseWith end the connection; queued messages still arrive.
	Close()
	CloseWith(reason Reason)
	Wait()

	Handshake() *engineio.Handshake
	Transport() engineio.Transport
	Admit() error
	OnProbation() bool
	Probe(ctx context.Context) error
}

// engineLink is a link over Engine.IO.
type engineLink struct{ *engineio.Session }

var _ link = engineLink{}

func (w engineLink) send(m message, later bool) error {
	if m.frames == nil {
		if err := w.Reserve(m.size()); err != nil {
			return err
		}
	}
	single := m.frames == nil && len(m.Attachments) == 0
	switch {
	case single && later:
		return w.SendLater(m.text())
	case single:
		return w.Session.Send(m.text())
	case later:
		return w.SendLater(m.encode()...)
	}
	return w.Session.Send(m.encode()...)
}
