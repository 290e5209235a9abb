package engineio

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/limit/memory"
)

// separator separates the packets of a poll or a POST.
const separator = 0x1e

// maxPollPackets is the maximum number of packets in one poll or POST. python-engineio refuses more
// than sixteen, on both sides, and drops the rest of the payload.
const maxPollPackets = 16

var errPacket = errors.New("not an Engine.IO packet")

// packet is one decoded packet. Its data is a slice of the input, except for base64.
type packet struct {
	kind   byte // one of the packet types; packetMessage if binary
	binary bool
	data   []byte
	hold   *memory.Hold // of data, for a keeper; nil: data is valid during the call
}

// parsePacket parses a text packet of a WebSocket text frame.
func parsePacket(text []byte) (packet, error) {
	if len(text) == 0 {
		return packet{}, fmt.Errorf("%w: empty", errPacket)
	}
	if kind := text[0]; kind >= packetOpen && kind <= packetNoop {
		if !utf8.Valid(text) {
			return packet{}, fmt.Errorf("%w: invalid UTF-8", errPacket)
		}
		return packet{kind: kind, data: text[1:]}, nil
	}
	return packet{}, fmt.Errorf("%w: unknown type %q", errPacket, text[0])
}

// decodePayload decodes all packets of a payload. One broken packet makes the whole payload an
// error. room counts the body, and gets the bytes of its binary packets as well; nil does not count.
func decodePayload(body []byte, room *memory.Hold) ([]packet, error) {
	packets := make([]packet, 0, min(maxPollPackets, 1+bytes.Count(body, []byte{separator})))
	size := int64(cap(body))
	for more := true; more; {
		var text []byte
		text, body, more = bytes.Cut(body, []byte{separator})
		if binary := len(text) > 0 && text[0] == 'b'; binary {
			if size += int64(base64.StdEncoding.DecodedLen(len(text))); !room.TryGrow(size) {
				return nil, ErrNoRoom
			}
		}
		p, err := payloadPacket(text)
		if err != nil {
			return nil, err
		}
		packets = append(packets, p)
	}
	return packets, nil
}

func payloadPacket(text []byte) (packet, error) {
	if len(text) == 0 || text[0] != 'b' {
		return parsePacket(text)
	}
	data, err := decodeBase64(text[1:])
	if err != nil {
		return packet{}, fmt.Errorf("%w: %w", errPacket, err)
	}
	return packet{kind: packetMessage, binary: true, data: data}, nil
}

// decodeBase64 accepts base64 with padding and, like other implementations, without.
func decodeBase64(text []byte) ([]byte, error) {
	encoding := base64.StdEncoding
	if len(text)%4 != 0 {
		encoding = base64.RawStdEncoding
	}
	data := make([]byte, encoding.DecodedLen(len(text)))
	n, err := encoding.Decode(data, text)
	return data[:n], err
}

// appendPacket appends a frame to a payload.
func appendPacket(dst []byte, f Frame) []byte {
	if len(dst) > 0 {
		dst = append(dst, separator)
	}
	if f.IsBinary() {
		return base64.StdEncoding.AppendEncode(append(dst, 'b'), f.packet())
	}
	return append(dst, f.packet()...)
}

// payloadSize returns the most bytes that appendPacket appends.
func payloadSize(f Frame) int {
	if f.IsBinary() {
		return 2 + base64.StdEncoding.EncodedLen(len(f.packet()))
	}
	return 1 + len(f.packet())
}
