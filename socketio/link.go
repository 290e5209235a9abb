package socketio

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"github.com/weir-mcp/weir/socketio/engineio"
)

// A message is one packet between two sockets, before it is encoded.
type message struct {
	kind  byte // packetConnect, packetDisconnect, packetConnectError, packetEvent or packetAck
	nsp   string
	id    []byte // of the ack; empty: none
	event string // name
	Payload
	data   []byte           // JSON of the other kinds; nil: none
	frames []engineio.Frame // the message encoded; nil: not yet
}

// drafts has messages for newDraft.
var drafts = sync.Pool{New: func() any { return new(message) }}

// maxDraftArgs bounds the arguments that a message in drafts has room for.
const maxDraftArgs = 64

// newDraft returns a message to be sent at once, and then released. Its slices are its own, the
// bytes of its arguments and attachments are not. Links are called through an interface, so
// everything in a message is on the heap: this keeps what the senders pass off it.
func newDraft(kind byte, nsp, event string, p Payload) *message {
	m := drafts.Get().(*message)
	m.kind, m.nsp, m.event = kind, nsp, event
	m.Args, m.Attachments = append(m.Args, p.Args...), append(m.Attachments, p.Attachments...)
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

// textSize is about what the text of the packet takes.
func (m *message) textSize() int {
	size := len(m.nsp) + len(m.id) + len(m.event) + len(m.data) + 8
	for _, arg := range m.Args {
		size += len(arg) + 1
	}
	return size
}

// size is textSize with the attachments.
func (m *message) size() int {
	size := m.textSize()
	for _, a := range m.Attachments {
		size += len(a)
	}
	return size
}

// clone copies the bytes that the sender still owns: they may be valid only as long as its request.
func (m *message) clone() message {
	out := *m
	out.frames, out.id = nil, nil
	if len(m.id) > 0 {
		out.id = bytes.Clone(m.id)
	}
	out.data = bytes.Clone(m.data)
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

// A link carries messages to the peer of one connection: over Engine.IO (engineLink), or to a peer of this
// process (localEnd). Its methods may be called by any goroutine, and all but Wait and Probe return
// at once.
type link interface {
	// send queues a message and does not keep its bytes. later leaves it to Flush, or to the
	// next send, to get the message on its way.
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

// An engineLink is a link over Engine.IO.
type engineLink struct{ *engineio.Session }

var _ link = engineLink{}

func (w engineLink) send(m message, later bool) error {
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
