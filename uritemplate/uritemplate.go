// Package uritemplate expands and matches URI templates (RFC 6570), with which
// MCP servers offer resources by the thousand: file:///{path}, db://{table}/{id}.
//
//	"repo://{owner}/{name}{?ref}" ──Parse──▶ Template ──Expand(values)──▶ "repo://weir-mcp/weir?ref=main"
//	                                              └──Match(uri)──▶ values, if the template may have made it
//
// All operators and modifiers are known. Values are texts: a list or a map as a
// value, for which the RFC has further forms, is not. The package is pure, knows
// nothing of MCP, and takes time linear in its input.
package uritemplate

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of one template.
const (
	MaxLen  = 4096
	MaxVars = 64
)

// ErrInvalid is the cause of every error of Parse.
var ErrInvalid = errors.New("invalid URI template")

// Template is a parsed template. It is immutable.
type Template struct {
	raw   string
	parts []part
	vars  []Var
	match *regexp.Regexp
}

// Var is a variable of a template.
type Var struct {
	Name string
	// Optional says that the URI is whole without it: it stands in a query.
	Optional bool
}

// part is a literal, or an expression.
type part struct {
	literal string // "" for an expression
	op      operator
	specs   []spec
}

// spec is one variable of an expression.
type spec struct {
	name    string
	explode bool
	prefix  int // 0: whole
}

// operator is a row of the table in appendix A of the RFC.
type operator struct {
	char       byte // 0 for none
	first, sep string
	named      bool
	ifEmpty    string
	reserved   bool // reserved characters stay
	optional   bool
}

var operators = []operator{
	{0, "", ",", false, "", false, false},
	{'+', "", ",", false, "", true, false},
	{'#', "#", ",", false, "", true, true},
	{'.', ".", ".", false, "", false, false},
	{'/', "/", "/", false, "", false, false},
	{';', ";", ";", true, "", false, true},
	{'?', "?", "&", true, "=", false, true},
	{'&', "&", "&", true, "=", false, true},
}

// Parse reads a template. The error says where it is wrong.
func Parse(raw string) (*Template, error) {
	if len(raw) > MaxLen {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are taken", ErrInvalid, len(raw), MaxLen)
	}
	t := &Template{raw: raw}
	for rest := raw; rest != ""; {
		open := strings.IndexAny(rest, "{}")
		switch {
		case open < 0:
			t.parts = append(t.parts, part{literal: rest})
			rest = ""
			continue
		case rest[open] == '}':
			return nil, fmt.Errorf("%w: a } without its { at byte %d", ErrInvalid, len(raw)-len(rest)+open)
		case open > 0:
			t.parts = append(t.parts, part{literal: rest[:open]})
		}
		end := strings.IndexByte(rest[open:], '}')
		if end < 0 {
			return nil, fmt.Errorf("%w: a { without its } at byte %d", ErrInvalid, len(raw)-len(rest)+open)
		}
		p, err := expression(rest[open+1 : open+end])
		if err != nil {
			return nil, err
		}
		t.parts = append(t.parts, p)
		for _, s := range p.specs {
			t.note(s.name, p.op.optional)
		}
		rest = rest[open+end+1:]
	}
	if len(t.vars) > MaxVars {
		return nil, fmt.Errorf("%w: %d variables, at most %d are taken", ErrInvalid, len(t.vars), MaxVars)
	}
	var err error
	if t.match, err = regexp.Compile(t.pattern()); err != nil {
		return nil, fmt.Errorf("%w: it is too large to be matched", ErrInvalid)
	}
	return t, nil
}

// note adds a variable, which is optional if it is so wherever it stands.
func (t *Template) note(name string, optional bool) {
	i := slices.IndexFunc(t.vars, func(v Var) bool { return v.Name == name })
	if i < 0 {
		t.vars = append(t.vars, Var{name, optional})
		return
	}
	t.vars[i].Optional = t.vars[i].Optional && optional
}

var varName = regexp.MustCompile(`^(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*$`)

func expression(text string) (p part, err error) {
	bad := func() (part, error) { return part{}, fmt.Errorf("%w: {%.60s}", ErrInvalid, text) }
	p.op = operators[0]
	if text != "" {
		for _, op := range operators[1:] {
			if text[0] == op.char {
				p.op, text = op, text[1:]
				break
			}
		}
	}
	for name := range strings.SplitSeq(text, ",") {
		var s spec
		if plain, ok := strings.CutSuffix(name, "*"); ok {
			s.explode, name = true, plain
		} else if plain, length, ok := strings.Cut(name, ":"); ok {
			if s.prefix, err = strconv.Atoi(length); err != nil || s.prefix < 1 || s.prefix > 9999 {
				return bad()
			}
			name = plain
		}
		if !varName.MatchString(name) {
			return bad()
		}
		s.name = name
		p.specs = append(p.specs, s)
	}
	return p, nil
}

// String returns the template as it was written.
func (t *Template) String() string { return t.raw }

// Vars returns the variables in the order of their first appearance. The slice
// is shared and must not be changed.
func (t *Template) Vars() []Var { return t.vars }

// Expand returns the URI for values. A variable without a value is left out, as
// the RFC has it.
func (t *Template) Expand(values map[string]string) string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.literal != "" {
			escape(&b, p.literal, true)
			continue
		}
		written := 0
		for _, s := range p.specs {
			value, ok := values[s.name]
			if !ok {
				continue
			}
			if written == 0 {
				b.WriteString(p.op.first)
			} else {
				b.WriteString(p.op.sep)
			}
			written++
			if p.op.named {
				b.WriteString(s.name)
				if value == "" {
					b.WriteString(p.op.ifEmpty)
					continue
				}
				b.WriteByte('=')
			}
			if s.prefix > 0 {
				value = firstRunes(value, s.prefix)
			}
			escape(&b, value, p.op.reserved)
		}
	}
	return b.String()
}

func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

const reservedChars = ":/?#[]@!$&'()*+,;="

// escape writes s with everything but unreserved characters percent-encoded, and
// with reserved ones and what is encoded already as they are where asked.
func escape(b *strings.Builder, s string, reserved bool) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_', c == '~',
			reserved && strings.IndexByte(reservedChars, c) >= 0,
			reserved && c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			b.WriteByte(c)
		default:
			fmt.Fprintf(b, "%%%02X", c)
		}
	}
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// pattern is the regular expression of the URIs that the template can make.
func (t *Template) pattern() string {
	var b strings.Builder
	b.WriteString(`\A`)
	for _, p := range t.parts {
		if p.literal != "" {
			var lit strings.Builder
			escape(&lit, p.literal, true)
			b.WriteString(regexp.QuoteMeta(lit.String()))
			continue
		}
		value := `[A-Za-z0-9\-._~%]`
		if p.op.reserved {
			value = `[^{}\s]`
		}
		for i, s := range p.specs {
			sep := p.op.sep
			if i == 0 {
				sep = p.op.first
			}
			one := regexp.QuoteMeta(sep)
			switch {
			case p.op.named:
				// Whichever has a value first comes behind the operator.
				one = "(?:" + regexp.QuoteMeta(p.op.first) + "|" + regexp.QuoteMeta(p.op.sep) + ")" + regexp.QuoteMeta(s.name) + `(?:=(` + value + `*))?`
			default:
				one += `(` + value + `+?)`
			}
			if p.op.optional || i > 0 {
				one = "(?:" + one + ")?"
			}
			b.WriteString(one)
		}
	}
	b.WriteString(`\z`)
	return b.String()
}

// Match reports whether the template may have made a URI, and with what values.
// Where several are possible, the earlier variables get as little as they can.
func (t *Template) Match(uri string) (values map[string]string, ok bool) {
	if len(uri) > 4*MaxLen {
		return nil, false
	}
	found := t.match.FindStringSubmatchIndex(uri)
	if found == nil {
		return nil, false
	}
	values = map[string]string{}
	group := 0
	for _, p := range t.parts {
		for _, s := range p.specs {
			group++
			if found[2*group] < 0 {
				continue
			}
			value := unescape(uri[found[2*group]:found[2*group+1]])
			if before, twice := values[s.name]; twice && before != value && s.prefix == 0 {
				return nil, false // one variable, two values
			}
			values[s.name] = value
		}
	}
	return values, true
}

// unescape undoes percent-encoding; what is none stays.
func unescape(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]) {
			n, _ := strconv.ParseUint(s[i+1:i+3], 16, 8) // two hexadecimal digits
			b = append(b, byte(n))
			i += 2
			continue
		}
		b = append(b, s[i])
	}
	if !utf8.Valid(b) {
		return s
	}
	return string(b)
}
