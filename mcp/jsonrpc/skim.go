package jsonrpc

import (
	"errors"
	"fmt"
	"io"
)

// Head is what a large message says of itself.
type Head struct {
	ID       ID   // zero where it has none, or one that is long
	Request  bool // it has a method
	Response bool // it has a result or an error
}

const (
	skimBuffer = 64 << 10
	maxSkimID  = 256 // longer ids are no message's that weir has sent
)

// Skim reads a message as far as it takes to know whose it is, and keeps nothing
// else of it. It does not check the message: Parse does. A batch is a Head of
// nothing. Keys that are written with escapes are not found.
func Skim(r io.Reader) (Head, error) {
	s := Skimmer{}
	buf := make([]byte, skimBuffer)
	for {
		n, err := r.Read(buf)
		if s.Feed(buf[:n]) || errors.Is(err, io.EOF) {
			return s.Head, nil
		}
		if err != nil {
			return Head{}, fmt.Errorf("skimming a message: %w", err)
		}
	}
}

// Skimmer is Skim for a message that comes in pieces. The zero value is ready for
// use.
type Skimmer struct {
	Head    Head // what is known so far
	depth   int
	text    bool // within a string
	escaped bool // behind a backslash in one
	value   bool // at depth 1: behind a colon
	keeping bool // word is being filled: a key, or the value of id
	word    []byte
	key     string // at depth 1: that of the value
}

// Feed takes the next piece, and reports whether the rest tells nothing new.
func (s *Skimmer) Feed(p []byte) (done bool) {
	for _, c := range p {
		if s.text {
			s.inText(c)
			continue
		}
		switch c {
		case '"':
			s.text = true
			if s.depth == 1 && !s.value {
				s.keeping, s.word = true, s.word[:0]
			} else if s.keeping {
				s.keep(c)
			}
		case '{', '[':
			if s.depth++; s.depth == 1 && c == '[' {
				return true
			}
			s.keeping = false
		case '}', ']':
			s.depth--
			if s.depth == 0 {
				s.endValue()
				return true
			}
		case ':':
			if s.depth == 1 {
				if s.beginValue(); s.known() {
					return true
				}
			}
		case ',':
			if s.depth == 1 {
				if s.endValue(); s.known() {
					return true
				}
			}
		case ' ', '\t', '\r', '\n':
		default:
			if s.keeping {
				s.keep(c)
			}
		}
	}
	return false
}

func (s *Skimmer) inText(c byte) {
	switch {
	case s.escaped:
		s.escaped = false
	case c == '\\':
		s.escaped = true
	case c == '"':
		s.text = false
		if s.keeping && !s.value {
			s.keeping = false
			return
		}
	}
	if s.keeping {
		s.keep(c)
	}
}

func (s *Skimmer) keep(c byte) {
	if len(s.word) < maxSkimID {
		s.word = append(s.word, c)
	} else {
		s.word, s.keeping = s.word[:0], false
	}
}

func (s *Skimmer) beginValue() {
	s.value, s.key = true, string(s.word)
	s.word = s.word[:0]
	switch s.key {
	case "id":
		s.keeping = true
	case "method":
		s.Head.Request = true
	case "result", "error":
		s.Head.Response = true
	}
}

func (s *Skimmer) endValue() {
	if s.key == "id" && s.keeping && string(s.word) != "null" {
		s.Head.ID = ID(s.word)
	}
	s.value, s.keeping, s.key = false, false, ""
}

func (s *Skimmer) known() bool {
	return s.Head.ID != "" && (s.Head.Request || s.Head.Response)
}
