package jsonrpc

import "bytes"

// IDFinder finds the id of a request in text that passes through it. It keeps
// nothing of the text but the id, so that a message that is refused for its size
// can still be answered by its id, wherever that stands:
//
//	{"method":"tools/call","params":{ … },"id":7}
//	                       depth > 1: passed over
//
// Its result is as good as the text: it checks no grammar.
type IDFinder struct {
	depth   int
	quoted  bool // inside a string
	escaped bool // after a backslash
	ended   bool // after the message, or the text is not a message

	token  []byte // the current key, or the value of a key that matters; at depth 1
	key    string // the key of the value being read, "" elsewhere
	id     ID
	named  bool // an id was found
	method bool
}

// maxToken is the stored length of a key or an id: the longest id and one more byte.
const maxToken = maxIDBytes + 1

// Write takes the next part of the text. It never fails.
func (f *IDFinder) Write(p []byte) (int, error) {
	for at := 0; at < len(p) && !f.ended; at++ {
		if f.quoted && !f.escaped && !f.keeps() {
			n := indexSpecial(p[at:]) // most of a large message is in strings
			if n < 0 {
				break
			}
			at += n
		}
		f.step(p[at])
	}
	return len(p), nil
}

// window bounds how far indexSpecial looks for a quote before it looks for a backslash.
const window = 256

// indexSpecial returns the index of the first quote or backslash, or -1. It searches window by window:
// a search for a distant quote, repeated at each backslash, would take quadratic time.
func indexSpecial(p []byte) int {
	// Text with many escapes has the next one near, where a search costs more than a look.
	near := min(len(p), 16)
	for i, c := range p[:near] {
		if c == '"' || c == '\\' {
			return i
		}
	}
	for at := near; at < len(p); at += window {
		part := p[at:min(at+window, len(p))]
		quote := bytes.IndexByte(part, '"')
		if quote >= 0 {
			part = part[:quote]
		}
		if escape := bytes.IndexByte(part, '\\'); escape >= 0 {
			return at + escape
		}
		if quote >= 0 {
			return at + quote
		}
	}
	return -1
}

// ID returns the id of the request. It returns "" if there is none, if there are two, or if the
// text was a message that is not a request.
func (f *IDFinder) ID() ID {
	if f.ended && !f.method {
		return ""
	}
	return f.id
}

func (f *IDFinder) step(c byte) {
	switch {
	case f.quoted:
		switch {
		case f.escaped:
			f.escaped = false
		case c == '\\':
			f.escaped = true
		case c == '"':
			f.quoted = false
		}
	case c == '"':
		f.quoted = true
	case c == '{', c == '[':
		f.depth++
		if f.depth == 1 {
			f.ended = c == '[' // a batch has no id of its own
			return
		}
	case c == '}', c == ']':
		f.depth--
		if f.depth <= 0 {
			f.member()
			f.ended = true
			return
		}
	case f.depth == 1 && c == ':':
		f.key = string(bytes.TrimSpace(f.token))
		f.token = f.token[:0]
		return
	case f.depth == 1 && c == ',':
		f.member()
		return
	}
	if f.keeps() {
		f.token = append(f.token, c)
	}
}

// keeps reports whether the text is a key of the message, or the value of its id.
func (f *IDFinder) keeps() bool {
	return (f.depth == 1 && f.key == "" || f.key == `"id"`) && len(f.token) < maxToken
}

// member ends a member of the message.
func (f *IDFinder) member() {
	switch f.key {
	case `"method"`:
		f.method = true
	case `"id"`:
		if found := idOf(bytes.Clone(f.token)); !f.named {
			f.id, f.named = found, true
		} else if found != f.id {
			f.id = "" // two ids: which one is meant is unknown
		}
	}
	f.key, f.token = "", f.token[:0]
}
