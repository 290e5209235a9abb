package jsonrpc

import (
	"errors"
	"fmt"
	"io"
)

// Head is the envelope of a large message.
type Head struct {
	ID       ID   // zero if there is none, or if it is too long
	Request  bool // the message has a method
	Response bool // the message has a result or an error
}

const (
	skimBuffer = 64 << 10
	maxSkimID  = 256 // a longer id is not one that weir has sent
)

// Skim reads the envelope of a message, only as far as necessary, and stores nothing else. It does
// not check the message; Parse does. The Head of a batch is zero. Keys that are written with
// escapes are not found.
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

// Skimmer is Skim for a message that arrives in pieces. The zero value is ready for use.
type Skimmer struct {
	Head    Head // the envelope so far
	depth   int
	text    bool // inside a string
	escaped bool // after a backslash in a string
	value   bool // at depth 1: after a colon
	keeping bool // word is being filled with a key or the value of id
	word    []byte
	key     string // at depth 1: the key of the current value
	done    bool   // the rest adds nothing
}

// Feed reads the next piece. done means that the rest adds nothing. Pieces after that are ignored.
func (s *Skimmer) Feed(p []byte) (done bool) {
	if !s.done {
		s.done = s.feed(p)
	}
	return s.done
}

func (s *Skimmer) feed(p []byte) (done bool) {
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
	if s.key == "id" && s.keeping {
		s.Head.ID = idOf(s.word)
	}
	s.value, s.keeping, s.key = false, false, ""
}

func (s *Skimmer) known() bool {
	return s.Head.ID != "" && (s.Head.Request || s.Head.Response)
}
