package rawjson

import (
	"bytes"
	"errors"
	"fmt"
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

// Skip checks the value that starts at or after index i and returns the index just behind it.
// Everything inside the value is checked as well.
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
