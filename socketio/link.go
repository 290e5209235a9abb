package socketio

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/weir-mcp/weir/socketio/engineio"
)

// A message is one packet between two sockets, before it is encoded.
type message struct {
	kind  byte // packetConnect, packetDisconnect, packetConnectError, packetEvent or packetAck
	nsp   string
	id    []byte // of the ack; nil: none
	event string // name
	Payload
	data   []byte           // JSON of the other kinds; nil: none
	frames []engineio.Frame // the message encoded; nil: not yet
}

// encode returns the frames of the message.
func (m *message) encode() []engineio.Frame {
	switch {
	case m.frames != nil:
		return m.frames
	case m.kind == packetEvent:
		return encodeEvent(m.nsp, m.id, m.event, m.Payload)
	case m.kind == packetAck:
		return encodeAck(m.nsp, m.id, m.Payload)
	}
	return []engineio.Frame{encodeControl(m.kind, m.nsp, m.data)}
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
	out.frames = nil
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
		out.Args = append(out.Args, null) // as in encodeEvent
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
	if later {
		return w.SendLater(m.encode()...)
	}
	return w.Session.Send(m.encode()...)
}
