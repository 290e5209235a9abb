package engineio

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"unicode/utf8"
)

// separator stands between the packets of a poll or a POST.
const separator = 0x1e

// maxPollPackets is how many packets one poll or POST carries at most. python-engineio refuses more than sixteen, on both
// sides, and drops the rest of the payload with it.
const maxPollPackets = 16

var errPacket = errors.New("not an Engine.IO packet")

// A packet is one decoded packet. Its data is a slice of what it was decoded from, except for base64.
type packet struct {
	kind   byte // one of the packet types; packetMessage where binary
	binary bool
	data   []byte
}

// parsePacket reads a text packet, as it stands in a WebSocket text frame.
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

// decodePayload reads all packets of a payload. A payload with a broken packet in it is refused whole.
func decodePayload(body []byte) ([]packet, error) {
	packets := make([]packet, 0, min(maxPollPackets, 1+bytes.Count(body, []byte{separator})))
	for more := true; more; {
		var text []byte
		text, body, more = bytes.Cut(body, []byte{separator})
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

// decodeBase64 accepts padded base64 and, as decoders of other implementations do, unpadded.
func decodeBase64(text []byte) ([]byte, error) {
	encoding := base64.StdEncoding
	if len(text)%4 != 0 {
		encoding = base64.RawStdEncoding
	}
	data := make([]byte, encoding.DecodedLen(len(text)))
	n, err := encoding.Decode(data, text)
	return data[:n], err
}

// appendPacket adds a frame to a payload under construction.
func appendPacket(dst []byte, f Frame) []byte {
	if len(dst) > 0 {
		dst = append(dst, separator)
	}
	if f.IsBinary() {
		return base64.StdEncoding.AppendEncode(append(dst, 'b'), f.packet())
	}
	return append(dst, f.packet()...)
}

// payloadSize is what appendPacket adds at most.
func payloadSize(f Frame) int {
	if f.IsBinary() {
		return 2 + base64.StdEncoding.EncodedLen(len(f.packet()))
	}
	return 1 + len(f.packet())
}
