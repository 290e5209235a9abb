package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A Kind says what a frame is for.
type Kind byte

// Frames of the gateway, and frames of the worker.
const (
	Start  Kind = iota + 1 // head: Begin; body: source, then input
	Answer                 // body: the value for the request of the id
	Refuse                 // body: the error for the request of the id

	Ready // head: Hello; the worker waits for Start
	Call  // head: Request; body: the arguments
	Find  // head: Request; body: the options
	Open  // head: Request; body: the selector
	Log   // body: a line
	End   // body: the value of the program
	Fail  // head: Failure; the program has no value
)

// Version is of the frames. Gateway and worker are the same executable, so another one is an error.
const Version = 1

// headerSize is the size of a header in bytes.
const headerSize = 13

// MaxHead is the most bytes of a head.
const MaxHead = 64 << 10

// A Header starts a frame.
type Header struct {
	Kind       Kind
	ID         uint32
	Head, Body int // lengths in bytes
}

// ErrFrame is the error of bytes that are no frame.
var ErrFrame = errors.New("not a frame of a program's worker")

// parse reads a header. The body may have up to body bytes.
func parse(b []byte, body int64) (Header, error) {
	if len(b) != headerSize {
		return Header{}, fmt.Errorf("%w: a header of %d bytes", ErrFrame, len(b))
	}
	h := Header{Kind: Kind(b[0]), ID: binary.BigEndian.Uint32(b[1:])}
	head, size := binary.BigEndian.Uint32(b[5:]), binary.BigEndian.Uint32(b[9:])
	switch {
	case h.Kind < Start || h.Kind > Fail:
		return Header{}, fmt.Errorf("%w: kind %d", ErrFrame, b[0])
	case head > MaxHead:
		return Header{}, fmt.Errorf("%w: a head of %d bytes, at most %d", ErrFrame, head, MaxHead)
	case int64(size) > body:
		return Header{}, fmt.Errorf("%w: a body of %d bytes, at most %d", ErrFrame, size, body)
	}
	h.Head, h.Body = int(head), int(size)
	return h, nil
}

// Read reads a header from r; see parse.
func Read(r io.Reader, body int64) (Header, error) {
	var b [headerSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return Header{}, err
	}
	return parse(b[:], body)
}

// Append appends a header to b.
func (h Header) Append(b []byte) []byte {
	b = append(b, byte(h.Kind))
	b = binary.BigEndian.AppendUint32(b, h.ID)
	b = binary.BigEndian.AppendUint32(b, uint32(h.Head))
	return binary.BigEndian.AppendUint32(b, uint32(h.Body))
}

// small is the size up to which a frame is written at once.
const small = 16 << 10

// Write writes a frame.
func Write(w io.Writer, kind Kind, id uint32, head, body []byte) error {
	b := Header{kind, id, len(head), len(body)}.Append(make([]byte, 0, headerSize+len(head)+min(len(body), small)))
	b = append(b, head...)
	if len(body) <= small {
		b, body = append(b, body...), nil
	}
	if _, err := w.Write(b); err != nil || len(body) == 0 {
		return err
	}
	_, err := w.Write(body)
	return err
}
