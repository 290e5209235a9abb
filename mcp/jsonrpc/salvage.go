package jsonrpc

import (
	"bytes"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Salvage reads as much as possible of a message that Parse has refused: it may be cut off, nested
// too deeply, or malformed. answer reports whether the message has a part that only responses have
// (a result, an error object, or an id in an envelope) and no method. id is the response's id, or
// "" if it is missing or comes after the end of the text.
//
// Without Salvage the request would wait for its timeout, because nothing else shows that its
// answer has arrived.
func Salvage(data []byte) (id ID, answer bool) {
	e := scan(data)
	if e.method {
		return "", false
	}
	return e.id, e.outcome || e.rpc && e.id != ""
}

// envelope holds the readable parts of a message.
type envelope struct {
	id      ID   // "" if there is none, or more than one
	method  bool // the message is a request or a notification
	outcome bool // the message has a result or an error object
	rpc     bool // the message has a member jsonrpc
}

// scan reads the members of an object as far as possible.
func scan(data []byte) (e envelope) {
	s := salvage{data: data}
	if !s.next('{') {
		return e
	}
	for named := false; ; {
		key, ok := s.text()
		if !ok || !s.next(':') {
			return e
		}
		s.space()
		start := s.at
		whole := s.value()
		switch string(key) {
		case "method":
			e.method = true
		case "jsonrpc":
			e.rpc = true
		case "result":
			e.outcome = true
		case "error": // programs log objects with an error that is a text
			e.outcome = e.outcome || start < len(data) && data[start] == '{'
		case "id":
			if found := idOf(data[start:s.at]); whole && !named {
				e.id, named = found, true
			} else if found != e.id {
				e.id = "" // it is unknown whose it is
			}
		}
		if !whole || !s.next(',') {
			return e
		}
	}
}

// idOf returns a value as an id, or "" if the value cannot be one.
func idOf(value []byte) ID {
	value = bytes.TrimSpace(value)
	if len(value) == 0 || len(value) > maxIDBytes || rawjson.Valid(value) != nil || !utf8.Valid(value) || rawjson.HalfPair(value, 0) >= 0 {
		return ""
	}
	if c := value[0]; c != '"' && c != '-' && (c < '0' || c > '9') {
		return ""
	}
	return ID(value)
}

// salvage scans incomplete JSON. It knows strings and brackets, but not depth.
type salvage struct {
	data []byte
	at   int
}

func (s *salvage) space() { s.at = rawjson.SkipSpace(s.data, s.at) }

// next skips white space and, if the next byte is c, that byte.
func (s *salvage) next(c byte) bool {
	s.space()
	if s.at >= len(s.data) || s.data[s.at] != c {
		return false
	}
	s.at++
	return true
}

// text reads a string and returns the raw text between its quotes.
func (s *salvage) text() ([]byte, bool) {
	if !s.next('"') {
		return nil, false
	}
	for start := s.at; ; s.at++ {
		n := indexSpecial(s.data[s.at:])
		if n < 0 {
			s.at = len(s.data)
			return nil, false
		}
		if s.at += n; s.data[s.at] == '"' {
			s.at++
			return s.data[start : s.at-1], true
		}
		s.at++ // the escaped byte
		if s.at >= len(s.data) {
			return nil, false
		}
	}
}

// value skips a value and reports whether its end was found.
func (s *salvage) value() bool {
	for depth := 0; s.at < len(s.data); {
		switch s.data[s.at] {
		case '"':
			if _, ok := s.text(); !ok {
				return false
			}
			if depth == 0 {
				return true
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return true // of the object around a number or a word
			}
			if depth == 0 {
				s.at++
				return true
			}
		case ',':
			if depth == 0 {
				return true
			}
		}
		s.at++
	}
	return false
}
