package socketio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// The packet types on the wire.
const (
	packetConnect      = '0'
	packetDisconnect   = '1'
	packetEvent        = '2'
	packetAck          = '3'
	packetConnectError = '4'
	packetBinaryEvent  = '5'
	packetBinaryAck    = '6'
)

const (
	mainNamespace = "/"

	maxIDDigits   = 20 // ack ids are opaque, but bounded
	maxNamespace  = 512
	maxAttachment = 1 << 20 // number in a header; the real bound is Config.MaxAttachments
)

var errPacket = errors.New("not a Socket.IO packet")

// packet is the text part of a packet. Its slices point into the parsed text.
type packet struct {
	kind        byte // packetEvent and packetAck also for the binary kinds
	attachments int
	nsp         []byte // "/" where the packet names none
	id          []byte // digits; nil: no ack id
	data        []byte // JSON; nil: none
}

// parsePacket splits a packet and checks the form of its JSON.
func parsePacket(text []byte) (p packet, err error) {
	if len(text) == 0 {
		return p, fmt.Errorf("%w: empty", errPacket)
	}
	kind, rest := text[0], text[1:]
	switch kind {
	case packetConnect, packetDisconnect, packetEvent, packetAck, packetConnectError:
		p.kind = kind
	case packetBinaryEvent, packetBinaryAck:
		p.kind = kind - packetBinaryEvent + packetEvent
		digits := countDigits(rest)
		if digits == 0 || digits == len(rest) || rest[digits] != '-' {
			return p, fmt.Errorf("%w: no number of attachments", errPacket)
		}
		if p.attachments, err = strconv.Atoi(string(rest[:digits])); err != nil || p.attachments > maxAttachment {
			return p, fmt.Errorf("%w: too many attachments", errPacket)
		}
		rest = rest[digits+1:]
	default:
		return p, fmt.Errorf("%w: unknown type %q", errPacket, kind)
	}
	p.nsp, rest, err = cutNamespace(rest)
	if err != nil {
		return p, err
	}
	if digits := countDigits(rest); digits > 0 {
		// A bare number could also be the data of a packet without an id, but no packet has such
		// data.
		if digits > maxIDDigits {
			return p, fmt.Errorf("%w: ack id of %d digits", errPacket, digits)
		}
		p.id, rest = rest[:digits], rest[digits:]
	}
	if len(rest) > 0 {
		p.data = rest
	}
	return p, p.check()
}

// check checks that the data fits the kind of the packet.
func (p packet) check() error {
	switch p.kind {
	case packetEvent:
		return nil // splitEvent checks it while reading it
	case packetAck:
		if p.id == nil {
			return fmt.Errorf("%w: ack without an id", errPacket)
		}
		return nil
	case packetDisconnect:
		return nil // some servers send a payload, which is ignored
	case packetConnectError:
		if p.data == nil {
			return nil
		}
	case packetConnect:
		if p.data == nil {
			return nil
		}
		if !rawjson.IsObject(p.data) {
			return fmt.Errorf("%w: CONNECT with data that is no object", errPacket)
		}
	}
	if err := rawjson.Valid(p.data); err != nil {
		return fmt.Errorf("%w: %w", errPacket, err)
	}
	return nil
}

func countDigits(b []byte) int {
	n := 0
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	return n
}

var mainNSP = []byte(mainNamespace)

// cutNamespace removes "/name,". Some clients omit the comma at the end of the packet.
func cutNamespace(b []byte) (nsp, rest []byte, err error) {
	if len(b) == 0 || b[0] != '/' {
		return mainNSP, b, nil
	}
	end := 0
	for end < len(b) && b[end] != ',' {
		end++
	}
	nsp = b[:end]
	if len(nsp) > maxNamespace {
		return nil, nil, fmt.Errorf("%w: namespace of %d bytes", errPacket, len(nsp))
	}
	if end == len(b) {
		return nsp, nil, nil
	}
	return nsp, b[end+1:], nil
}

// splitEvent checks the data of an EVENT and returns its raw name and its arguments, in room if they
// fit.
func splitEvent(data []byte, room []json.RawMessage) (name []byte, args []json.RawMessage, err error) {
	all, err := splitArray(data, room)
	if err != nil {
		return nil, nil, err
	}
	if len(all) == 0 {
		return nil, nil, fmt.Errorf("%w: event without a name", errPacket)
	}
	if first := all[0][0]; first != '"' && first != '-' && (first < '0' || first > '9') {
		return nil, nil, fmt.Errorf("%w: event name is no string", errPacket)
	}
	return all[0], all[1:], nil
}

// splitArray checks and returns the elements of an array, in room if they fit. Missing data is an
// empty array: some peers send an empty ack so.
func splitArray(data []byte, room []json.RawMessage) ([]json.RawMessage, error) {
	if len(data) == 0 {
		return nil, nil
	}
	if data[0] != '[' {
		return nil, fmt.Errorf("%w: payload is no array", errPacket)
	}
	i := rawjson.SkipSpace(data, 1)
	if i < len(data) && data[i] == ']' {
		return nil, endOf(data, i+1)
	}
	elements := room[:0]
	for {
		start := rawjson.SkipSpace(data, i)
		end, err := rawjson.Skip(data, start)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errPacket, err)
		}
		elements = append(elements, data[start:end:end])
		if i = rawjson.SkipSpace(data, end); i == len(data) {
			return nil, fmt.Errorf("%w: payload is not closed", errPacket)
		}
		switch data[i] {
		case ',':
			i++
		case ']':
			return elements, endOf(data, i+1)
		default:
			return nil, fmt.Errorf("%w: payload is no array", errPacket)
		}
	}
}

func endOf(data []byte, i int) error {
	if rawjson.SkipSpace(data, i) != len(data) {
		return fmt.Errorf("%w: text after the payload", errPacket)
	}
	return nil
}

// reserved reports whether an event name is reserved by the protocol.
func reserved(name string) bool {
	switch name {
	case "connect", "connect_error", "disconnect", "disconnecting", "newListener", "removeListener":
		return true
	}
	return false
}

// --- encoding ---

// appendHead appends a packet up to its data. kind is one of the kinds without attachments.
func appendHead(dst []byte, kind byte, attachments int, nsp string, id []byte) []byte {
	if attachments > 0 {
		kind += packetBinaryEvent - packetEvent
		dst = append(strconv.AppendInt(append(dst, kind), int64(attachments), 10), '-')
	} else {
		dst = append(dst, kind)
	}
	if nsp != mainNamespace {
		dst = append(append(dst, nsp...), ',') // also at the end: some clients need the comma
	}
	return append(dst, id...)
}

var (
	comma   = []byte{','}
	bracket = []byte{']'}
	null    = json.RawMessage("null")
)

// eventText returns the first frame of an event. An event without arguments gets a null, because
// some clients take the name of a bare event for its argument.
func eventText(nsp string, id []byte, event string, p Payload) engineio.Frame {
	var room [256]byte
	head := appendHead(room[:0], packetEvent, len(p.Attachments), nsp, id)
	head = rawjson.AppendString(append(head, '['), event)
	args := p.Args
	if len(args) == 0 {
		args = []json.RawMessage{null}
	}
	return textOf(append(head, ','), args)
}

// ackText returns the first frame of an ack. An ack without arguments has an empty array, because
// some clients otherwise drop its id.
func ackText(nsp string, id []byte, p Payload) engineio.Frame {
	var room [256]byte
	head := append(appendHead(room[:0], packetAck, len(p.Attachments), nsp, id), '[')
	return textOf(head, p.Args)
}

// encodeControl returns the frame of a packet that is neither an event nor an ack.
func encodeControl(kind byte, nsp string, data []byte) engineio.Frame {
	return engineio.Text(appendHead(nil, kind, 0, nsp, nil), data)
}

func orNull(arg json.RawMessage) []byte {
	if len(arg) == 0 {
		return null
	}
	return arg
}

// textOf returns the text of a packet whose array is open after head. head does not escape, so that
// callers can keep it on their stacks.
func textOf(head []byte, args []json.RawMessage) engineio.Frame {
	switch len(args) {
	case 0:
		return engineio.Text(head, bracket)
	case 1:
		return engineio.Text(head, orNull(args[0]), bracket)
	}
	parts := make([][]byte, 0, 2*len(args)+1)
	parts = append(parts, bytes.Clone(head), orNull(args[0]))
	for _, arg := range args[1:] {
		parts = append(parts, comma, orNull(arg))
	}
	return engineio.Text(append(parts, bracket)...)
}

func withAttachments(head engineio.Frame, attachments [][]byte) []engineio.Frame {
	frames := make([]engineio.Frame, 1, 1+len(attachments))
	frames[0] = head
	for _, data := range attachments {
		frames = append(frames, engineio.Binary(data))
	}
	return frames
}
