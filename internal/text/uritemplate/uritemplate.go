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
	maxLen  = 4096
	maxVars = 64
)

// errInvalid is the cause of every error of Parse.
var errInvalid = errors.New("invalid URI template")

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
	// Several says that it stands for a list or an associative array: it has
	// the modifier * somewhere and a prefix length nowhere.
	Several bool
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
	if len(raw) > maxLen {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are taken", errInvalid, len(raw), maxLen)
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
			return nil, fmt.Errorf("%w: a } without its { at byte %d", errInvalid, len(raw)-len(rest)+open)
		case open > 0:
			t.parts = append(t.parts, part{literal: rest[:open]})
		}
		end := strings.IndexByte(rest[open:], '}')
		if end < 0 {
			return nil, fmt.Errorf("%w: a { without its } at byte %d", errInvalid, len(raw)-len(rest)+open)
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
	t.noteSeveral()
	if len(t.vars) > maxVars {
		return nil, fmt.Errorf("%w: %d variables, at most %d are taken", errInvalid, len(t.vars), maxVars)
	}
	var err error
	if t.match, err = regexp.Compile(t.pattern()); err != nil {
		return nil, fmt.Errorf("%w: it is too large to be matched", errInvalid)
	}
	return t, nil
}

// note adds a variable, which is optional if it is so wherever it stands.
func (t *Template) note(name string, optional bool) {
	i := slices.IndexFunc(t.vars, func(v Var) bool { return v.Name == name })
	if i < 0 {
		t.vars = append(t.vars, Var{Name: name, Optional: optional})
		return
	}
	t.vars[i].Optional = t.vars[i].Optional && optional
}

// noteSeveral finds the variables that stand for lists. A prefix is not defined
// for a list (RFC 6570 §2.4.1), so one prefix rules a list out.
func (t *Template) noteSeveral() {
	for i := range t.vars {
		exploded, cut := false, false
		for _, p := range t.parts {
			for _, s := range p.specs {
				if s.name == t.vars[i].Name {
					exploded, cut = exploded || s.explode, cut || s.prefix > 0
				}
			}
		}
		t.vars[i].Several = exploded && !cut
	}
}

var varName = regexp.MustCompile(`^(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*$`)

func expression(text string) (p part, err error) {
	bad := func() (part, error) { return part{}, fmt.Errorf("%w: {%.60s}", errInvalid, text) }
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
			case s.explode && p.op.named:
				// Elements of a list bear the variable's name, elements of an associative array
				// names of their own.
				one = "((?:(?:" + regexp.QuoteMeta(p.op.first) + "|" + regexp.QuoteMeta(p.op.sep) + ")" + value + "+(?:=" + value + "*)?)+?)"
			case s.explode:
				item := value + "+?(?:=" + value + "*?)?"
				one += "(" + item + "(?:" + regexp.QuoteMeta(p.op.sep) + item + ")*?)"
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

// Match reports whether the template may have made a URI, and with which values. Where several are
// possible, the earlier variables get as little as they can. The value of a list is its elements
// with commas between them, the value of an associative array is pairs such as key=value.
func (t *Template) Match(uri string) (values map[string]string, ok bool) {
	if len(uri) > 4*maxLen {
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
			value := uri[found[2*group]:found[2*group+1]]
			if s.explode {
				value = p.op.joined(s.name, value)
			}
			value = unescape(value)
			if before, twice := values[s.name]; twice && before != value && s.prefix == 0 {
				return nil, false // one variable, two values
			}
			values[s.name] = value
		}
	}
	return values, true
}

// joined is the value of an exploded variable in a URI, with commas between its elements.
func (op operator) joined(name, text string) string {
	if !op.named {
		return strings.ReplaceAll(text, op.sep, ",")
	}
	items := strings.Split(text[1:], op.sep) // behind the operator's first character
	for i, item := range items {
		if key, value, _ := strings.Cut(item, "="); key == name {
			items[i] = value
		}
	}
	return strings.Join(items, ",")
}

// unescape undoes percent-encoding; other text stays.
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
