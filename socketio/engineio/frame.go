package engineio

import (
	"encoding/binary"
	"math/rand/v2"
)

// Frame is one encoded message. It may be sent to many sessions, also concurrently. The bytes
// that it returns must not be changed; the bytes that it was made from may be.
//
// Frame holds an unmasked WebSocket frame, because servers write that most often. Polling and
// clients use parts of it:
//
//	wire: │ 0x81 len… │ 4 │ text │      or      │ 0x82 len… │ bytes │
//	      0           head                      0           head
type Frame struct {
	wire   []byte
	head   uint8 // length of the WebSocket header
	opcode uint8
}

const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA

	finBit  = 0x80
	maskBit = 0x80
)

// Text makes a text message of the concatenated parts. The text must be valid UTF-8; otherwise the
// peer may close the session.
func Text(parts ...[]byte) Frame {
	size := 1
	for _, p := range parts {
		size += len(p)
	}
	wire, head := newWire(opText, size)
	wire = append(wire, packetMessage)
	for _, p := range parts {
		wire = append(wire, p...)
	}
	return Frame{wire: wire, head: head, opcode: opText}
}

// Binary makes a binary message.
func Binary(data []byte) Frame {
	wire, head := newWire(opBinary, len(data))
	return Frame{wire: append(wire, data...), head: head, opcode: opBinary}
}

// controlFrame makes a packet that is not a message.
func controlFrame(packet byte, data string) Frame {
	wire, head := newWire(opText, 1+len(data))
	wire = append(wire, packet)
	return Frame{wire: append(wire, data...), head: head, opcode: opText}
}

// Data returns the message without its packet type. It must not be changed.
func (f Frame) Data() []byte {
	switch {
	case f.wire == nil:
		return nil
	case f.opcode == opBinary:
		return f.wire[f.head:]
	default:
		return f.wire[f.head+1:]
	}
}

// IsBinary reports whether the message is binary.
func (f Frame) IsBinary() bool { return f.opcode == opBinary }

// packet returns the text packet with its type, or the bytes of a binary packet.
func (f Frame) packet() []byte { return f.wire[f.head:] }

// size returns the number of bytes that the frame counts in a queue.
func (f Frame) size() int { return len(f.wire) }

// newWire allocates a WebSocket frame for a payload of exactly size bytes and writes its header.
func newWire(opcode byte, size int) ([]byte, uint8) {
	wire := make([]byte, 0, headerSize(size)+size)
	wire = appendHeader(wire, opcode, size, 0)
	return wire, uint8(len(wire))
}

func headerSize(size int) int {
	switch {
	case size < 126:
		return 2
	case size <= 0xFFFF:
		return 4
	default:
		return 10
	}
}

// appendHeader writes a final WebSocket frame's header without the masking key; mask is maskBit or 0.
func appendHeader(dst []byte, opcode byte, size int, mask byte) []byte {
	dst = append(dst, finBit|opcode)
	switch {
	case size < 126:
		return append(dst, mask|byte(size))
	case size <= 0xFFFF:
		return binary.BigEndian.AppendUint16(append(dst, mask|126), uint16(size))
	default:
		return binary.BigEndian.AppendUint64(append(dst, mask|127), uint64(size))
	}
}

// appendMasked writes a frame as clients must: masked with an unpredictable key (RFC 6455 §5.3).
// The operating system seeds the generator.
func appendMasked(dst []byte, f Frame) []byte {
	payload := f.wire[f.head:]
	dst = appendHeader(dst, f.opcode, len(payload), maskBit)
	var key [4]byte
	binary.LittleEndian.PutUint32(key[:], rand.Uint32())
	dst = append(dst, key[:]...)
	start := len(dst)
	dst = append(dst, payload...)
	maskBytes(key, dst[start:])
	return dst
}

// maskBytes XORs b with the repeated key, eight bytes at a time if possible.
func maskBytes(key [4]byte, b []byte) {
	half := uint64(binary.LittleEndian.Uint32(key[:]))
	wide := half<<32 | half
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^wide)
		b = b[8:]
	}
	for i := range b {
		b[i] ^= key[i&3]
	}
}
