package result

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/work"
)

// JSONPath (RFC 9535) without functions, evaluated over raw bytes: matches are
// slices of the document, so numbers and key order stay as they are.
//
//	$                the document        $.name  $['any name']   a member
//	$[0]  $[-1]      an element          $[2:5]  $[::2]          a slice
//	$.*   $[*]       all members         $..name  $..[0]         at any depth
//	$['a','b',0]     several of them     $[?@.a>3]       those that fit; see pathFilter
//
// A path may leave out the "$" at its beginning.

type jsonPath struct {
	text     string // as it was given, the "$" added where it was left out
	segments []pathSegment
}

type pathSegment struct {
	selectors []pathSelector
	descend   bool // "..": here and at any depth below
}

type pathSelector struct {
	kind             selectorKind
	name             string
	index            int
	start, end, step *int
	filter           *pathFilter
}

type selectorKind uint8

const (
	selectName selectorKind = iota
	selectIndex
	selectSlice
	selectAll
	selectFilter
)

const (
	maxPathChars    = 1000
	maxPathSegments = 64
)

// definite reports whether the path can match one value at most.
func (p jsonPath) definite() bool {
	for _, s := range p.segments {
		if s.descend || len(s.selectors) != 1 || s.selectors[0].kind > selectIndex {
			return false
		}
	}
	return true
}

func parseJSONPath(text string) (jsonPath, error) {
	p := pathParser{text: text}
	var path jsonPath
	if len(text) > maxPathChars {
		return path, fmt.Errorf("is longer than %d characters", maxPathChars)
	}
	p.text = strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(p.text, "$"):
		p.at = 1
	case p.text == "":
		return path, fmt.Errorf("is empty; \"$\" is the whole document")
	case p.text[0] == '[' || p.text[0] == '.':
		p.text, p.at = "$"+p.text, 1
	default:
		p.text, p.at = "$."+p.text, 1
	}
	path.text = p.text
	for p.at < len(p.text) {
		s, err := p.segment()
		if err != nil {
			return path, fmt.Errorf("at character %d: %w", p.at, err)
		}
		if path.segments = append(path.segments, s); len(path.segments) > maxPathSegments {
			return path, fmt.Errorf("has more than %d segments", maxPathSegments)
		}
	}
	return path, nil
}

type pathParser struct {
	text    string
	at      int
	filters int // expressions of filters that are open here
}

func (p *pathParser) has(prefix string) bool {
	if strings.HasPrefix(p.text[p.at:], prefix) {
		p.at += len(prefix)
		return true
	}
	return false
}

func (p *pathParser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\n\r", p.text[p.at]) >= 0 {
		p.at++
	}
}

func (p *pathParser) segment() (pathSegment, error) {
	var s pathSegment
	p.space()
	switch {
	case p.has(".."):
		s.descend = true
		if p.has("[") {
			return s, p.bracket(&s)
		}
	case p.has("."):
	case p.has("["):
		return s, p.bracket(&s)
	default:
		return s, fmt.Errorf("expected \".\" or \"[\"")
	}
	if p.has("*") {
		s.selectors = []pathSelector{{kind: selectAll}}
		return s, nil
	}
	ends := ".[] '\""
	if p.filters > 0 {
		ends = ".[] '\"\t\n\r=!<>&|(),"
	}
	start := p.at
	for p.at < len(p.text) && strings.IndexByte(ends, p.text[p.at]) < 0 {
		p.at++
	}
	if p.at == start {
		return s, fmt.Errorf("a name is missing")
	}
	s.selectors = []pathSelector{{kind: selectName, name: p.text[start:p.at]}}
	return s, nil
}

func (p *pathParser) bracket(s *pathSegment) error {
	for {
		p.space()
		sel, err := p.selector()
		if err != nil {
			return err
		}
		s.selectors = append(s.selectors, sel)
		p.space()
		switch {
		case p.has("]"):
			return nil
		case !p.has(","):
			return fmt.Errorf("expected \"]\"")
		}
	}
}

func (p *pathParser) selector() (pathSelector, error) {
	if p.at >= len(p.text) {
		return pathSelector{}, fmt.Errorf("\"[\" is not closed")
	}
	switch c := p.text[p.at]; {
	case c == '*':
		p.at++
		return pathSelector{kind: selectAll}, nil
	case c == '\'' || c == '"':
		name, err := p.quoted(c)
		return pathSelector{kind: selectName, name: name}, err
	case c == '?':
		p.at++
		f, err := p.filter()
		return pathSelector{kind: selectFilter, filter: f}, err
	}
	var parts [3]*int
	n := 0
	for {
		p.space()
		if v, ok, err := p.number(); err != nil {
			return pathSelector{}, err
		} else if ok {
			parts[n] = &v
		}
		p.space()
		if n < 2 && p.has(":") {
			n++
			continue
		}
		break
	}
	if n == 0 {
		if parts[0] == nil {
			return pathSelector{}, fmt.Errorf("expected an index, a slice, a quoted name or \"*\"")
		}
		return pathSelector{kind: selectIndex, index: *parts[0]}, nil
	}
	return pathSelector{kind: selectSlice, start: parts[0], end: parts[1], step: parts[2]}, nil
}

func (p *pathParser) number() (int, bool, error) {
	start := p.at
	if p.at < len(p.text) && p.text[p.at] == '-' {
		p.at++
	}
	for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	if p.at == start {
		return 0, false, nil
	}
	v, err := strconv.Atoi(p.text[start:p.at])
	if err != nil {
		return 0, false, fmt.Errorf("%q is not an index", p.text[start:p.at])
	}
	return v, true, nil
}

func (p *pathParser) quoted(quote byte) (string, error) {
	var b strings.Builder
	for i := p.at + 1; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == quote:
			p.at = i + 1
			return b.String(), nil
		case c == '\\' && i+1 < len(p.text):
			i++
			switch e := p.text[i]; e {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case 'r':
				b.WriteByte('\r')
			case 'b':
				b.WriteByte('\b')
			case 'f':
				b.WriteByte('\f')
			case 'u':
				if i+4 >= len(p.text) {
					return "", fmt.Errorf("a bad \\u escape")
				}
				v, err := strconv.ParseUint(p.text[i+1:i+5], 16, 16)
				if err != nil || !utf8.ValidRune(rune(v)) {
					return "", fmt.Errorf("a bad \\u escape")
				}
				b.WriteRune(rune(v))
				i += 4
			default:
				b.WriteByte(e)
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", fmt.Errorf("the quoted name is not closed")
}

// pathWalk is one evaluation. Work is bounded: several ".." in one path could
// otherwise visit a document more often than it has bytes.
type pathWalk struct {
	meter  *work.Meter
	budget int // bytes that may still be scanned
	f      func(match []byte) bool

	root  []byte
	roots map[*filterQuery][]byte // what paths from "$" in filters have found
	ended bool                    // the work is over a bound
}

// each calls f for every match in document order until f returns false, or until
// m ends it. It reports whether the work stayed within bounds.
func (p jsonPath) each(m *work.Meter, value []byte, f func(match []byte) bool) bool {
	w := pathWalk{meter: m, budget: 64*len(value) + 1<<20, f: f, root: value}
	w.match(value, p.segments)
	return w.budget >= 0
}

// scan counts that a value is gone over.
func (w *pathWalk) scan(value []byte) bool {
	w.budget -= len(value)
	if w.budget < 0 || w.meter.Spend(4+int64(len(value))/8) != nil {
		w.ended = true
	}
	return !w.ended
}

func (w *pathWalk) match(value []byte, segments []pathSegment) bool {
	if len(segments) == 0 {
		return w.f(value)
	}
	s := segments[0]
	for _, sel := range s.selectors {
		if !w.scan(value) {
			return false
		}
		goOn := sel.each(w.meter, value, func(v []byte) bool {
			if sel.kind == selectFilter && (!w.keeps(sel.filter, v) || w.ended) {
				return !w.ended
			}
			return w.match(v, segments[1:])
		})
		if !goOn {
			return false
		}
	}
	if !s.descend {
		return true
	}
	if !w.scan(value) {
		return false
	}
	return children(value, func(v []byte) bool { return w.match(v, segments) })
}

// children calls f for the values inside value. The document has been checked:
// there is no error to see here.
func children(value []byte, f func([]byte) bool) bool {
	goOn := true
	switch value[0] {
	case '{':
		_ = rawjson.EachMember(value, func(m rawjson.Member) bool {
			goOn = f(m.Value)
			return goOn
		})
	case '[':
		_ = rawjson.EachElement(value, func(v []byte) bool {
			goOn = f(v)
			return goOn
		})
	}
	return goOn
}

func (s pathSelector) each(m *work.Meter, value []byte, f func([]byte) bool) bool {
	switch s.kind {
	case selectAll, selectFilter:
		return children(value, f)
	case selectName:
		goOn := true
		if value[0] == '{' {
			_ = rawjson.EachMember(value, func(m rawjson.Member) bool {
				if string(m.Key) != s.name {
					return true
				}
				goOn = f(m.Value)
				return false
			})
		}
		return goOn
	}
	if value[0] != '[' {
		return true
	}
	if s.kind == selectIndex {
		i, goOn := s.index, true
		if i < 0 {
			i += countElements(value)
		}
		_ = rawjson.EachElement(value, func(v []byte) bool {
			if i == 0 {
				goOn = f(v)
			}
			i--
			return i >= 0
		})
		return goOn
	}
	var items [][]byte
	var full error
	_ = rawjson.EachElement(value, func(v []byte) bool {
		items, full = work.Append(m, items, v)
		return full == nil
	})
	return full == nil && s.slice(items, f)
}

// slice follows RFC 9535 §2.3.4.2.2.
func (s pathSelector) slice(items [][]byte, f func([]byte) bool) bool {
	n, step := len(items), 1
	if s.step != nil {
		step = *s.step
	}
	if step == 0 {
		return true
	}
	at := func(p *int, otherwise int) int {
		if p == nil {
			return otherwise
		}
		if *p < 0 {
			return n + *p
		}
		return *p
	}
	if step > 0 {
		for i := min(max(at(s.start, 0), 0), n); i < min(max(at(s.end, n), 0), n); i += step {
			if !f(items[i]) {
				return false
			}
			if step > n {
				break
			}
		}
		return true
	}
	for i := min(max(at(s.start, n-1), -1), n-1); i > min(max(at(s.end, -n-1), -1), n-1); i += step {
		if !f(items[i]) {
			return false
		}
		if step < -n {
			break
		}
	}
	return true
}
