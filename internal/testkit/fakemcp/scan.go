package fakemcp

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// space gives the index of the first byte from i on that is no white space.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString gives the index behind the string that starts at b[i], or -1.
func skipString(b []byte, i int) int {
	for i++; ; i++ {
		n := bytes.IndexByte(b[min(i, len(b)):], '"')
		if n < 0 {
			return -1
		}
		i += n
		backslashes := 0
		for b[i-1-backslashes] == '\\' {
			backslashes++
		}
		if backslashes%2 == 0 {
			return i + 1
		}
	}
}

// skipValue gives the index behind the value that starts at b[i], or -1. It looks for where the
// value ends, not whether it is one.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		depth := 0
		for i < len(b) {
			switch b[i] {
			case '"':
				if i = skipString(b, i); i < 0 {
					return -1
				}
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return -1
	}
	start := i
	for i < len(b) && bytes.IndexByte([]byte(" \t\r\n,]}"), b[i]) < 0 {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

// members calls f with the key, without its quotes, and the value of each member of an
// object. Both are slices of the object. It reports whether the object was well formed.
func members(object []byte, f func(key, value []byte)) bool {
	i := space(object, 0)
	if i >= len(object) || object[i] != '{' {
		return false
	}
	i = space(object, i+1)
	if i < len(object) && object[i] == '}' {
		return space(object, i+1) == len(object)
	}
	for i < len(object) && object[i] == '"' {
		end := skipString(object, i)
		if end < 0 {
			return false
		}
		key := object[i+1 : end-1]
		if i = space(object, end); i >= len(object) || object[i] != ':' {
			return false
		}
		i = space(object, i+1)
		if end = skipValue(object, i); end < 0 {
			return false
		}
		f(key, object[i:end])
		switch i = space(object, end); {
		case i >= len(object):
			return false
		case object[i] == '}':
			return space(object, i+1) == len(object)
		case object[i] != ',':
			return false
		}
		i = space(object, i+1)
	}
	return false
}

// member gives the value of one member of an object, or nil.
func member(object []byte, name string) (found []byte) {
	members(object, func(key, value []byte) {
		if string(key) == name {
			found = value
		}
	})
	return found
}

// unquote gives the text of a JSON string, "" for anything else. It copies only where the
// string has escapes.
func unquote(value []byte) []byte {
	if len(value) < 2 || value[0] != '"' {
		return nil
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return value[1 : len(value)-1]
	}
	var text string
	if json.Unmarshal(value, &text) != nil {
		return nil
	}
	return []byte(text)
}

// number gives the value of a JSON integer, or fallback for anything else.
func number(value []byte, fallback int) int {
	n, err := strconv.Atoi(string(value))
	if err != nil {
		return fallback
	}
	return n
}

// appendString appends text as a JSON string.
func appendString[T string | []byte](dst []byte, text T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
			i++
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			i++
		case c < utf8.RuneSelf:
			dst = append(dst, c)
			i++
		default:
			r, size := utf8.DecodeRuneInString(string(text[i:min(len(text), i+utf8.UTFMax)]))
			dst = utf8.AppendRune(dst, r) // invalid bytes become U+FFFD
			i += size
		}
	}
	return append(dst, '"')
}
