package serverlog

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	// maxLine bounds a line in bytes. The rest of a longer one is counted and dropped.
	maxLine = 16 << 10
	// slack is read past maxLine before secrets are removed, so that the bound cannot cut a secret
	// into a part that is not recognised.
	slack = 4 << 10
	// maxHidden bounds the lines of a private key whose end is missing.
	maxHidden = 200
)

// A Program takes the standard error of one run of a server's program. It is safe for concurrent use.
type Program struct {
	book   *Book
	server string

	mu      sync.Mutex // guards below
	line    []byte     // the incomplete last line, at most maxLine+slack
	dropped int        // further bytes of it
	hidden  int        // lines of a private key so far; 0 outside of one
}

// Start records that a program of a server starts. The caller writes the program's standard error to
// the returned Program and calls End.
func (b *Book) Start(server string) *Program {
	b.add(server, "starts", true)
	return &Program{book: b, server: server}
}

// Write implements io.Writer. It never fails.
func (p *Program) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(text)
	for len(text) > 0 {
		part, rest, complete := bytes.Cut(text, []byte{'\n'})
		room := min(len(part), maxLine+slack-len(p.line))
		p.line = append(p.line, part[:room]...)
		p.dropped += len(part) - room
		if complete {
			p.flush()
		}
		text = rest
	}
	return n, nil
}

// End records the end of the program. how says why it ended, such as "exit status 1".
func (p *Program) End(how string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.line) > 0 {
		p.flush()
	}
	p.book.add(p.server, "ended: "+p.book.redact(how), true)
}

var keyBegins, keyEnds = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----`), regexp.MustCompile(`-----END [A-Z ]*PRIVATE KEY-----`)

// flush adds the line to the book. A private key takes several lines, each of which looks like any
// text, so all of them are left out. The caller holds mu.
func (p *Program) flush() {
	line, dropped := strings.TrimRight(string(p.line), "\r"), p.dropped
	p.line, p.dropped = p.line[:0], 0
	switch {
	case p.hidden > 0:
		if p.hidden++; p.hidden > maxHidden || keyEnds.MatchString(line) {
			p.hidden = 0
		}
		return
	case keyBegins.MatchString(line) && !keyEnds.MatchString(line):
		p.hidden = 1
	}
	text := p.book.redact(strings.ToValidUTF8(line, "\uFFFD"))
	if over := len(text) - maxLine; over > 0 {
		cut := maxLine
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		text, dropped = text[:cut], dropped+len(text)-cut
	}
	if dropped > 0 {
		text += fmt.Sprintf(" … %d bytes more", dropped)
	}
	p.book.add(p.server, text, false)
}
