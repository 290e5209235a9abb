package rawjson

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// The functions of this file read values that have been checked: slices of a value that Valid,
// Skip, EachMember, EachElement, Fields or Scan has passed whole. They look only for the ends of
// values, so they pass over a long string six times as fast. Of other bytes they make an error or
// wrong values, but they do not panic.

// EachCheckedMember is EachMember for a checked object.
func EachCheckedMember(obj []byte, f func(m Member) bool) error {
	i := SkipSpace(obj, 0)
	if i >= len(obj) || obj[i] != '{' {
		return errNotObject
	}
	for i = SkipSpace(obj, i+1); i < len(obj) && obj[i] == '"'; i = SkipSpace(obj, i+1) {
		m := Member{Start: i}
		end := stringEnd(obj, i)
		m.Key = obj[i+1 : max(i+1, end-1)]
		if bytes.IndexByte(m.Key, '\\') >= 0 {
			s, err := String(obj[i:end])
			if err != nil {
				return err
			}
			m.Key = []byte(s)
		}
		i = SkipSpace(obj, min(SkipSpace(obj, end)+1, len(obj)))
		if m.End = valueEnd(obj, i); m.End == i {
			break
		}
		m.Value = obj[i:m.End:m.End]
		if !f(m) {
			return nil
		}
		if i = SkipSpace(obj, m.End); i >= len(obj) || obj[i] != ',' {
			break
		}
	}
	if i >= len(obj) || obj[i] != '}' {
		return syntaxError(i, "the object has not been checked")
	}
	return nil
}

// EachCheckedElement is EachElement for a checked array.
func EachCheckedElement(arr []byte, f func(value []byte) bool) error {
	i := SkipSpace(arr, 0)
	if i >= len(arr) || arr[i] != '[' {
		return errNotArray
	}
	for i = SkipSpace(arr, i+1); i < len(arr) && arr[i] != ']'; i = SkipSpace(arr, i+1) {
		end := valueEnd(arr, i)
		if end == i {
			break
		}
		if !f(arr[i:end:end]) {
			return nil
		}
		if i = SkipSpace(arr, end); i >= len(arr) || arr[i] != ',' {
			break
		}
	}
	if i >= len(arr) || arr[i] != ']' {
		return syntaxError(i, "the array has not been checked")
	}
	return nil
}

// CheckedFields is Fields for a checked object.
func CheckedFields(obj []byte, keys []string, out [][]byte) error {
	return fields(obj, keys, out, true)
}

// valueEnd returns the index behind the checked value that starts at i, and i if there is none.
func valueEnd(data []byte, i int) int {
	if i >= len(data) {
		return i
	}
	switch data[i] {
	case '"':
		return stringEnd(data, i)
	case '{', '[':
	default:
		for i < len(data) && !ends(data[i]) {
			i++
		}
		return i
	}
	for depth := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = stringEnd(data, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(data)
}

// ends reports whether c ends a number or a literal.
func ends(c byte) bool {
	switch c {
	case ',', '}', ']', ' ', '\t', '\r', '\n', ':', '"', '{', '[':
		return true
	}
	return false
}

// stringEnd returns the index behind the checked string whose opening quote is at i. A short string
// is examined eight bytes at once, a long one by the search for a single byte.
func stringEnd(data []byte, i int) int {
	i++
	for n := 0; ; {
		if n < shortWords && i+8 <= len(data) {
			n++
			stop := special(binary.LittleEndian.Uint64(data[i:]))
			if stop == 0 {
				i += 8
				continue
			}
			switch i += bits.TrailingZeros64(stop) / 8; data[i] {
			case '"':
				return i + 1
			case '\\':
				i += 2
			default:
				i++
			}
			continue
		}
		if i >= len(data) {
			return len(data)
		}
		quote := bytes.IndexByte(data[i:], '"')
		if quote < 0 {
			return len(data)
		}
		slashes := 0
		for slashes < quote && data[i+quote-1-slashes] == '\\' {
			slashes++
		}
		i += quote + 1
		if slashes%2 == 0 {
			return i
		}
		n = 0 // quotes follow each other closely in JSON that a string contains
	}
}
