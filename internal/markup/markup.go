package markup

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// Values are the values of a page or of an element of a list, by name: string, bool or []Values.
type Values map[string]any

// Page is a parsed source. It is immutable and safe for concurrent use.
type Page struct{ parts []part }

// part writes a part of a page. The innermost scope comes last.
type part interface {
	write(b *strings.Builder, scopes []Values)
}

// New parses a source. It panics if the source is wrong, or has a value anywhere but in text and in
// quoted attributes whose value is text or an address: sources belong to the program, and their tests call New.
func New(source string) *Page {
	p := &parser{rest: source}
	parts, end := p.block()
	if end != "" {
		panic("markup: {{" + end + "}} without a block")
	}
	return &Page{parts}
}

// Write writes the page with these values. A name without a value is "".
func (p *Page) Write(w io.Writer, values Values) error {
	var b strings.Builder
	write(&b, p.parts, []Values{values})
	_, err := io.WriteString(w, b.String())
	return err
}

func write(b *strings.Builder, parts []part, scopes []Values) {
	for _, p := range parts {
		p.write(b, scopes)
	}
}

// find returns the value of a name in the innermost scope that has it.
func find(scopes []Values, name string) any {
	for i := len(scopes) - 1; i >= 0; i-- {
		if v, ok := scopes[i][name]; ok {
			return v
		}
	}
	return nil
}

// literal is HTML of the source.
type literal string

func (l literal) write(b *strings.Builder, _ []Values) { b.WriteString(string(l)) }

// hole is the place of a value.
type hole struct {
	name string
	link bool // the value begins an address that browsers follow
}

func (h hole) write(b *strings.Builder, scopes []Values) {
	s, ok := find(scopes, h.name).(string)
	if !ok {
		return
	}
	if h.link && !followable(s) {
		s = "#"
	}
	b.WriteString(html.EscapeString(strings.ReplaceAll(s, "\x00", "\uFFFD")))
}

// followable reports whether an address is relative or has a scheme that runs nothing.
func followable(address string) bool {
	scheme, _, found := strings.Cut(address, ":")
	if !found || strings.ContainsAny(scheme, "/?#") {
		return true
	}
	return strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "http")
}

// choice is a block that depends on a value.
type choice struct {
	name    string
	yes, no []part
}

func (c choice) write(b *strings.Builder, scopes []Values) {
	parts := c.no
	switch v := find(scopes, c.name).(type) {
	case string:
		if v != "" {
			parts = c.yes
		}
	case bool:
		if v {
			parts = c.yes
		}
	case []Values:
		if len(v) > 0 {
			parts = c.yes
		}
	}
	write(b, parts, scopes)
}

// loop is a block for each element of a list.
type loop struct {
	name  string
	parts []part
}

func (l loop) write(b *strings.Builder, scopes []Values) {
	list, ok := find(scopes, l.name).([]Values)
	if !ok {
		return
	}
	for _, element := range list {
		write(b, l.parts, append(scopes[:len(scopes):len(scopes)], element))
	}
}

// parser reads a source from front to back, and knows where in the HTML it is.
type parser struct {
	rest      string
	tag       string // the element whose tag it is in; "": it is in text
	attribute string // whose quoted value it is in
	start     bool   // of that value
	begun     bool   // a value has begun it, and nothing has followed
	pathed    bool   // it has a / ? or #, behind which no scheme is
	raw       string // the element in it whose text is no HTML: script or style
}

// block reads up to the end of a block, and returns the mark there: end, else, or "" at the end of
// the source.
func (p *parser) block() (parts []part, end string) {
	for {
		before, after, found := strings.Cut(p.rest, "{{")
		if before != "" {
			p.follow(before)
			parts = append(parts, literal(before))
		}
		if !found {
			return parts, ""
		}
		mark, after, found := strings.Cut(after, "}}")
		if !found {
			panic("markup: {{ without }}")
		}
		p.rest = after
		word, name, named := strings.Cut(mark, " ")
		if block := word == "if" || word == "each"; !isWord(word) || named != block || named && !isWord(name) {
			panic("markup: {{" + mark + "}} is no mark")
		}
		switch word {
		case "end", "else":
			p.inText(mark)
			return parts, word
		case "if":
			p.inText(mark)
			c := choice{name: name}
			last := ""
			if c.yes, last = p.block(); last == "else" {
				c.no, last = p.block()
			}
			if last != "end" {
				panic("markup: {{" + mark + "}} has no end")
			}
			parts = append(parts, c)
		case "each":
			p.inText(mark)
			inner, last := p.block()
			if last != "end" {
				panic("markup: {{" + mark + "}} has no end")
			}
			parts = append(parts, loop{name, inner})
		default:
			parts = append(parts, p.hole(mark))
		}
	}
}

func (p *parser) inText(mark string) {
	if p.tag != "" || p.raw != "" {
		panic("markup: {{" + mark + "}} is not in text")
	}
}

// hole returns the place of a value.
func (p *parser) hole(name string) hole {
	if p.raw != "" || p.tag != "" && p.attribute == "" {
		panic("markup: {{" + name + "}} is neither in text nor in a quoted attribute")
	}
	h := hole{name: name}
	switch a := p.attribute; a {
	case "", "alt", "class", "for", "id", "lang", "name", "nonce", "placeholder", "title", "value":
	case "action", "formaction", "href", "src":
		if !p.start && !p.pathed {
			panic("markup: {{" + name + "}} may be a part of a scheme")
		}
		h.link = p.start
	default:
		if !strings.HasPrefix(a, "aria-") && !strings.HasPrefix(a, "data-") {
			panic("markup: {{" + name + "}} is in the attribute " + a)
		}
	}
	p.start, p.begun = false, h.link
	return h
}

// isWord reports whether a text has letters of ASCII, digits and - and nothing else.
func isWord(text string) bool {
	for _, r := range text {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' {
			return false
		}
	}
	return text != ""
}

// follow follows HTML of the source, which must be as weir writes it: attributes have double quotes.
func (p *parser) follow(text string) {
	for text != "" {
		switch {
		case p.raw != "":
			_, after, found := strings.Cut(text, "</"+p.raw+">")
			if !found {
				return
			}
			text, p.raw = after, ""
		case p.tag == "":
			_, after, found := strings.Cut(text, "<")
			if !found {
				return
			}
			name := after
			if i := strings.IndexAny(after, " \t\r\n\f>"); i >= 0 {
				name = after[:i]
			}
			if !isWord(strings.Trim(name, "!/")) {
				panic("markup: <" + name + " is no tag")
			}
			p.tag, text = strings.ToLower("<"+name), after[len(name):]
		case p.attribute != "":
			value, after, found := strings.Cut(text, `"`)
			if p.begun && value != "" && strings.IndexByte("/?#", value[0]) < 0 {
				panic(fmt.Sprintf("markup: the value that begins %s has no end before %s", p.attribute, value))
			}
			p.pathed = p.pathed || strings.ContainsAny(value, "/?#")
			if p.start, p.begun = false, p.begun && value == ""; !found {
				return
			}
			text, p.attribute, p.begun = after, "", false
		default:
			i := strings.IndexAny(text, `>"'`)
			if i < 0 {
				return
			}
			switch text[i] {
			case '\'':
				panic(fmt.Sprintf("markup: a quote ' in the tag %s", p.tag))
			case '>':
				if p.tag == "<script" || p.tag == "<style" {
					p.raw = p.tag[1:]
				}
				p.tag = ""
			default:
				words := strings.Fields(text[:i])
				name, is := "", false
				if len(words) > 0 {
					name, is = strings.CutSuffix(words[len(words)-1], "=")
				}
				if !is || !isWord(name) {
					panic(fmt.Sprintf("markup: a quote without an attribute in the tag %s", p.tag))
				}
				p.attribute, p.start, p.pathed = strings.ToLower(name), true, false
			}
			text = text[i+1:]
		}
	}
}
