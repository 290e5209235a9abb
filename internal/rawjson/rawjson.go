package rawjson

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// MaxDepth bounds how deep arrays and objects may nest. Deeper input is
// refused, so a hostile message cannot exhaust the stack.
const MaxDepth = 512

// Errors that Skip and everything built on it return. They are wrapped with
// the byte offset.
var (
	ErrSyntax    = errors.New("invalid JSON")
	ErrDepth     = errors.New("JSON nested too deep")
	ErrDuplicate = errors.New("duplicate key")
	ErrType      = errors.New("unexpected JSON type")
)

// Wrong types, which readers of optional members meet all the time: a value costs no allocation.
var (
	errNotObject = fmt.Errorf("%w: not an object", ErrType)
	errNotArray  = fmt.Errorf("%w: not an array", ErrType)
)

func syntaxError(i int, what string) error {
	return fmt.Errorf("%w at byte %d: %s", ErrSyntax, i, what)
}

// Valid reports whether data is exactly one JSON value, possibly within white space. The error has
// the position of the fault.
func Valid(data []byte) error {
	end, err := Skip(data, 0)
	if err != nil {
		return err
	}
	if end = SkipSpace(data, end); end != len(data) {
		return syntaxError(end, "text after the value")
	}
	return nil
}

// SkipSpace returns the index of the first byte at or after i that is not JSON
// white space.
func SkipSpace(data []byte, i int) int {
	for i < len(data) {
		switch data[i] {
		case ' ', '\t', '\r', '\n':
			i++
		default:
			return i
		}
	}
	return i
}

// Skip checks the value that starts at or after index i and returns the index
// just behind it. Everything inside the value is checked, too.
func Skip(data []byte, i int) (int, error) { return skip(data, i, 0) }

func skip(data []byte, i, depth int) (int, error) {
	i = SkipSpace(data, i)
	if i >= len(data) {
		return i, syntaxError(i, "a value is missing")
	}
	switch c := data[i]; {
	case c == '"':
		return skipString(data, i)
	case c == '{':
		if depth >= MaxDepth {
			return i, ErrDepth
		}
		i = SkipSpace(data, i+1)
		if i < len(data) && data[i] == '}' {
			return i + 1, nil
		}
		for {
			if i >= len(data) || data[i] != '"' {
				return i, syntaxError(i, "a key is missing")
			}
			var err error
			if i, err = skipString(data, i); err != nil {
				return i, err
			}
			i = SkipSpace(data, i)
			if i >= len(data) || data[i] != ':' {
				return i, syntaxError(i, "a colon is missing")
			}
			if i, err = skip(data, i+1, depth+1); err != nil {
				return i, err
			}
			i = SkipSpace(data, i)
			if i >= len(data) {
				return i, syntaxError(i, "the object is not closed")
			}
			if data[i] == '}' {
				return i + 1, nil
			}
			if data[i] != ',' {
				return i, syntaxError(i, "a comma is missing")
			}
			i = SkipSpace(data, i+1)
		}
	case c == '[':
		if depth >= MaxDepth {
			return i, ErrDepth
		}
		i = SkipSpace(data, i+1)
		if i < len(data) && data[i] == ']' {
			return i + 1, nil
		}
		for {
			var err error
			if i, err = skip(data, i, depth+1); err != nil {
				return i, err
			}
			i = SkipSpace(data, i)
			if i >= len(data) {
				return i, syntaxError(i, "the array is not closed")
			}
			if data[i] == ']' {
				return i + 1, nil
			}
			if data[i] != ',' {
				return i, syntaxError(i, "a comma is missing")
			}
			i++
		}
	case c == '-' || '0' <= c && c <= '9':
		return skipNumber(data, i)
	case c == 't':
		return skipLiteral(data, i, "true")
	case c == 'f':
		return skipLiteral(data, i, "false")
	case c == 'n':
		return skipLiteral(data, i, "null")
	}
	return i, syntaxError(i, "not a value")
}

func skipLiteral(data []byte, i int, lit string) (int, error) {
	if len(data)-i < len(lit) || string(data[i:i+len(lit)]) != lit {
		return i, syntaxError(i, "not a value")
	}
	return i + len(lit), nil
}

func skipNumber(data []byte, i int) (int, error) {
	start := i
	if data[i] == '-' {
		i++
	}
	digits := func() bool {
		n := i
		for i < len(data) && '0' <= data[i] && data[i] <= '9' {
			i++
		}
		return i > n
	}
	switch {
	case i < len(data) && data[i] == '0':
		i++
	case !digits():
		return i, syntaxError(start, "not a number")
	}
	if i < len(data) && data[i] == '.' {
		i++
		if !digits() {
			return i, syntaxError(start, "not a number")
		}
	}
	if i < len(data) && (data[i] == 'e' || data[i] == 'E') {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		if !digits() {
			return i, syntaxError(start, "not a number")
		}
	}
	return i, nil
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080

	// After so many words, a string counts as long, and is looked through in
	// pieces of so many bytes.
	shortWords = 8
	longPiece  = 1024
)

// special has the high bit of a byte set if w has a quote, a backslash or a control character
// there; above the lowest such byte, others may be set as well. Flipping bit 2 makes the quote,
// 0x22, adjacent to the control characters.
func special(w uint64) uint64 {
	slash := w ^ '\\'*ones
	return ((w^2*ones-0x21*ones)&^w | (slash-ones)&^slash) & highs
}

// printable has the high bit of each byte set that is no control character; its other bits have no
// meaning.
func printable(w uint64) uint64 { return (w&^highs + 0x60*ones) | w }

// skipPlain returns the index of the first byte at or after i that is a quote, a backslash or a
// control character, or len(data). It examines eight bytes at once. For a long string it uses the
// search for single bytes, whose vector instructions are worth their start there.
func skipPlain(data []byte, i int) int {
	for n := 0; n < shortWords && i+8 <= len(data); n++ {
		if stop := special(binary.LittleEndian.Uint64(data[i:])); stop != 0 {
			return i + bits.TrailingZeros64(stop)/8
		}
		i += 8
	}
	for i < len(data) {
		piece := data[i:min(i+longPiece, len(data))]
		whole := len(piece)
		if n := bytes.IndexByte(piece, '"'); n >= 0 {
			piece = piece[:n]
		}
		if n := bytes.IndexByte(piece, '\\'); n >= 0 {
			piece = piece[:n]
		}
		if n := indexControl(piece); n >= 0 {
			piece = piece[:n]
		}
		i += len(piece)
		if len(piece) < whole {
			return i
		}
	}
	return i
}

func indexControl(data []byte) int {
	rest := data
	for len(rest) >= 32 {
		a, b := binary.LittleEndian.Uint64(rest), binary.LittleEndian.Uint64(rest[8:])
		c, d := binary.LittleEndian.Uint64(rest[16:]), binary.LittleEndian.Uint64(rest[24:])
		if printable(a)&printable(b)&printable(c)&printable(d)&highs != highs {
			break
		}
		rest = rest[32:]
	}
	for n, c := range rest {
		if c < 0x20 {
			return len(data) - len(rest) + n
		}
	}
	return -1
}

// skipString expects data[i] == '"'.
func skipString(data []byte, i int) (int, error) {
	start := i
	i++
	for {
		i = skipPlain(data, i)
		if i >= len(data) {
			return i, syntaxError(start, "the string is not closed")
		}
		switch c := data[i]; {
		case c == '"':
			return i + 1, nil
		case c < 0x20:
			return i, syntaxError(i, "a control character in a string")
		}
		if i+1 >= len(data) {
			return i, syntaxError(start, "the string is not closed")
		}
		switch data[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			if i+6 > len(data) || !isHex(data[i+2:i+6]) {
				return i, syntaxError(i, "a bad escape in a string")
			}
			i += 6
		default:
			return i, syntaxError(i, "a bad escape in a string")
		}
	}
}

func isHex(b []byte) bool {
	for _, c := range b {
		if ('0' > c || c > '9') && ('a' > c || c > 'f') && ('A' > c || c > 'F') {
			return false
		}
	}
	return true
}

// StripNewlines appends raw to dst without the CR and LF bytes between tokens. Inside strings JSON
// allows neither, so the value is the same and fits on one line.
func StripNewlines(dst, raw []byte) []byte {
	// IndexByte searches with vector instructions, which IndexAny does not.
	for len(raw) > 0 {
		line, rest := raw, raw[len(raw):]
		if n := bytes.IndexByte(raw, '\n'); n >= 0 {
			line, rest = raw[:n], raw[n+1:]
		}
		for n := bytes.IndexByte(line, '\r'); n >= 0; n = bytes.IndexByte(line, '\r') {
			dst = append(dst, line[:n]...)
			line = line[n+1:]
		}
		dst, raw = append(dst, line...), rest
	}
	return dst
}
