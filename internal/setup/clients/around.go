package clients

import (
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/text/lazy"
	"github.com/weir-mcp/weir/internal/text/redact"
)

// mixed is a text in weir's form with variables. Its own characters are those outside of variables,
// and the texts of defaults: ${X:-text}.
type mixed struct {
	parts []mixedPart
	flat  string // the own characters, and a number in the place of each variable without a default
}

// mixedPart is a part of a text: some of its own characters, or the value of a variable.
type mixedPart struct {
	text string
	own  bool
	at   int // in flat
}

// span is a range of bytes of the flat text.
type span struct{ start, end int }

// nameOnly matches the text before the value of a secret: session= or admin:.
var nameOnly = lazy.Pattern(`^[A-Za-z_-]{1,30}[=:]$`)

// split returns the parts of a text.
func split(text string) *mixed {
	number := 10007 // a port, where a URL has one; no letters, which would look like a generated text
	for strings.Contains(text, strconv.Itoa(number)) {
		number++
	}
	m := &mixed{}
	add := func(part, flat string, own bool) {
		if part != "" {
			m.parts = append(m.parts, mixedPart{part, own, len(m.flat)})
			m.flat += flat
		}
	}
	open, from := 0, 0 // variables with a default that have not ended
	for at := 0; at < len(text); {
		rest := text[at:]
		switch {
		case strings.HasPrefix(rest, "$${"):
			at += 3
			continue
		case strings.HasPrefix(rest, "${"):
			add(text[from:at], text[from:at], true)
			end := strings.IndexByte(rest, '}') + 1
			if start := strings.Index(rest, ":-") + 2; start >= 2 && (end == 0 || start < end) {
				open++
				add(rest[:start], "", false)
				at += start
			} else {
				if end == 0 {
					end = len(rest)
				}
				add(rest[:end], strconv.Itoa(number), false)
				at += end
			}
		case open > 0 && rest[0] == '}':
			add(text[from:at], text[from:at], true)
			add("}", "", false)
			open--
			at++
		default:
			at++
			continue
		}
		from = at
	}
	add(text[from:], text[from:], true)
	return m
}

// replace returns the text with its own characters in the spans replaced, a piece at a time.
func (m *mixed) replace(spans []span, by func(piece string) string) string {
	var out strings.Builder
	for _, p := range m.parts {
		if !p.own {
			out.WriteString(p.text)
			continue
		}
		inside := make([]bool, len(p.text))
		for _, s := range spans {
			for i := max(s.start, p.at); i < min(s.end, p.at+len(p.text)); i++ {
				inside[i-p.at] = true
			}
		}
		for i := len(inside) - 1; i > 0; i-- {
			inside[i-1] = inside[i-1] || inside[i] && p.text[i-1] == '$' // "$" before a reference would escape it
		}
		for i := 0; i < len(inside); {
			end := i + 1
			for end < len(inside) && inside[end] == inside[i] {
				end++
			}
			piece := p.text[i:end]
			bare := strings.TrimSpace(piece)
			if inside[i] && telling(bare) {
				before, after, _ := strings.Cut(piece, bare)
				piece = before + by(bare) + after
			}
			out.WriteString(piece)
			i = end
		}
	}
	return out.String()
}

// telling reports whether a piece of a secret reveals something of it.
func telling(piece string) bool {
	return strings.ContainsFunc(piece, func(r rune) bool {
		return r > 0x7f || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}) && !harmless().MatchString(piece) && !nameOnly().MatchString(piece)
}

// where returns the spans of secrets in the flat text.
func (m *mixed) where(secrets []string) (spans []span) {
	for _, secret := range secrets {
		if secret = scheme().ReplaceAllString(secret, ""); secret == "" {
			continue
		}
		for from := 0; ; {
			at := strings.Index(m.flat[from:], secret)
			if at < 0 {
				break
			}
			spans = append(spans, span{from + at, from + at + len(secret)})
			from += at + len(secret)
		}
	}
	return spans
}

// shaped returns the spans of the values that their makers have marked as secrets, to the end of a word.
func (m *mixed) shaped() (spans []span) {
	for _, p := range m.parts {
		if found := prefix().FindStringSubmatchIndex(p.text); p.own && found != nil {
			start := p.at + found[2]
			end := len(m.flat)
			if n := strings.IndexAny(m.flat[start:], " \t"); n >= 0 && !strings.HasPrefix(m.flat[start:], "-----BEGIN") {
				end = start + n
			}
			spans = append(spans, span{start, end})
		}
	}
	return spans
}

// valued returns the spans of the secrets in the value of a variable, a header or an option, which
// starts at a byte of the flat text. secret says that its name is the name of a secret.
func (m *mixed) valued(from int, secret bool) []span {
	value := m.flat[from:]
	spans := m.shaped()
	if strings.Contains(value, "://") {
		return append(spans, m.where(redact.InURL(value))...)
	}
	start := from + len(scheme().FindString(value))
	if secret && !harmless().MatchString(strings.TrimSpace(m.flat[start:])) && !m.file() {
		spans = append(spans, span{start, len(m.flat)})
	}
	return spans
}

// file reports whether the text is a path below a folder that a variable names.
func (m *mixed) file() bool {
	if len(m.parts) < 2 || m.parts[0].own {
		return false
	}
	next := m.parts[1].text
	return next == "${/}" || next == "${pathSeparator}" || strings.ContainsAny(next[:1], `/\`)
}

// around replaces the secrets that stand around the variables of a text.
func (f *concealer) around(name, where string, m *mixed, spans []span) string {
	return m.replace(spans, func(piece string) string { return f.secret(name, where, unescape(piece)) })
}

// argument replaces the secrets in an argument with variables. found are those in all arguments, and
// option is the argument before it.
func (f *concealer) argument(where, option, arg string, found []string) string {
	m := split(arg)
	name, spans := "ARG", append(m.where(found), m.shaped()...)
	key, _, joined := strings.Cut(m.flat, "=")
	switch {
	case joined && tellingName().MatchString(key) && !strings.ContainsAny(key, " \t:/"):
		name, spans = key, m.valued(len(key)+1, true)
	case strings.HasPrefix(option, "-") && !strings.Contains(option, "=") && tellingName().MatchString(option) && !strings.HasPrefix(arg, "-"):
		name, spans = option, m.valued(0, true)
	}
	return f.around(f.server+"_"+name, where, m, spans)
}
