package result

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	tables "github.com/weir-mcp/weir/s2sp/table"
)

// Filters of JSONPath (RFC 9535 §2.3.5), without its functions:
//
//	[?@.status=='late']        comparison: == != < <= > >=
//	[?@.note]                  existence
//	[?(@.a>3 && !(@.b || $.c))]  and, or, not, parentheses
//
// A comparison has a literal or a path of at most one value on each side. A value that is not
// there equals only another one that is not there.

// pathFilter is a logical expression. Exactly one of its fields is used, as its op says.
type pathFilter struct {
	op          filterOp
	parts       []pathFilter // of filterAnd, filterOr and filterNot
	left, right filterValue  // of a comparison; filterExists has only left
}

type filterOp uint8

const (
	filterExists filterOp = iota
	filterAnd
	filterOr
	filterNot
	filterEqual
	filterUnequal
	filterLess
	filterLessEqual
	filterGreater
	filterGreaterEqual
)

// comparisons are the operators of comparisons, longer ones first.
var comparisons = []struct {
	text string
	op   filterOp
}{
	{"==", filterEqual}, {"!=", filterUnequal}, {"<=", filterLessEqual}, {">=", filterGreaterEqual}, {"<", filterLess}, {">", filterGreater},
}

// filterValue is one side of a comparison: a literal or a query.
type filterValue struct {
	literal []byte // a JSON value; nil for a query
	query   *filterQuery
}

// filterQuery is a path within a filter.
type filterQuery struct {
	path jsonPath
	root bool // from "$", so that it has one result for the whole document; else from "@"
}

// filter parses a logical expression behind "?".
func (p *pathParser) filter() (*pathFilter, error) {
	p.filters++
	defer func() { p.filters-- }()
	f, err := p.chain("||", filterOr, func() (pathFilter, error) { return p.chain("&&", filterAnd, p.term) })
	return &f, err
}

// chain parses operands that an operator joins.
func (p *pathParser) chain(operator string, op filterOp, operand func() (pathFilter, error)) (pathFilter, error) {
	first, err := operand()
	if err != nil {
		return first, err
	}
	all := pathFilter{op: op, parts: []pathFilter{first}}
	for p.space(); p.has(operator); p.space() {
		next, err := operand()
		if err != nil {
			return next, err
		}
		all.parts = append(all.parts, next)
	}
	if len(all.parts) == 1 {
		return first, nil
	}
	return all, nil
}

// term parses a negation, an expression in parentheses, a comparison or a test of existence.
func (p *pathParser) term() (pathFilter, error) {
	p.space()
	if p.has("!") {
		inner, err := p.term()
		if err == nil && inner.op > filterNot {
			return inner, fmt.Errorf("\"!\" stands before an expression in parentheses or a path")
		}
		return pathFilter{op: filterNot, parts: []pathFilter{inner}}, err
	}
	if p.has("(") {
		inner, err := p.filter()
		if err != nil {
			return *inner, err
		}
		if p.space(); !p.has(")") {
			return *inner, fmt.Errorf("expected \")\"")
		}
		// In parentheses, a comparison may be negated.
		return pathFilter{op: filterAnd, parts: []pathFilter{*inner}}, nil
	}
	left, err := p.operand()
	if err != nil {
		return pathFilter{}, err
	}
	p.space()
	for _, c := range comparisons {
		if !p.has(c.text) {
			continue
		}
		p.space()
		right, err := p.operand()
		if err != nil {
			return pathFilter{}, err
		}
		for _, side := range []filterValue{left, right} {
			if side.query != nil && !side.query.path.definite() {
				return pathFilter{}, fmt.Errorf("only a path of at most one value can be compared, not %s", side.query.path.text)
			}
		}
		return pathFilter{op: c.op, left: left, right: right}, nil
	}
	switch {
	case p.has("="):
		return pathFilter{}, fmt.Errorf("\"=\" is no operator; comparisons are ==, !=, <, <=, >, >=")
	case left.query == nil:
		return pathFilter{}, fmt.Errorf("a literal has to be compared with something: ==, !=, <, <=, >, >=")
	}
	return pathFilter{op: filterExists, left: left}, nil
}

// operand parses a literal or a path that starts with "@" or "$".
func (p *pathParser) operand() (filterValue, error) {
	rest := p.text[p.at:]
	if rest == "" {
		return filterValue{}, fmt.Errorf("the filter is not complete")
	}
	switch c := rest[0]; {
	case c == '@' || c == '$':
		return p.query(c == '$')
	case c == '\'' || c == '"':
		s, err := p.quoted(c)
		return filterValue{literal: rawjson.Quote(s)}, err
	}
	end := strings.IndexAny(rest, " \t\n\r=!<>&|(),]")
	if end < 0 {
		end = len(rest)
	}
	word := rest[:end]
	if literal := []byte(word); word != "" && rawjson.Valid(literal) == nil {
		p.at += end
		return filterValue{literal: literal}, nil
	}
	if strings.HasPrefix(rest[end:], "(") && word != "" {
		return filterValue{}, fmt.Errorf("functions such as %s() are not supported", word)
	}
	return filterValue{}, fmt.Errorf("expected a path such as @.name, a number, a quoted string, true, false or null")
}

// query parses a path of a filter.
func (p *pathParser) query(root bool) (filterValue, error) {
	start := p.at
	q := &filterQuery{root: root}
	for p.at++; ; {
		behind := p.at
		p.space()
		if p.at == len(p.text) || p.text[p.at] != '.' && p.text[p.at] != '[' {
			p.at = behind
			break
		}
		s, err := p.segment()
		if err != nil {
			return filterValue{}, err
		}
		if q.path.segments = append(q.path.segments, s); len(q.path.segments) > maxPathSegments {
			return filterValue{}, fmt.Errorf("the path has more than %d segments", maxPathSegments)
		}
	}
	q.path.text = p.text[start:p.at]
	return filterValue{query: q}, nil
}

// keeps reports whether a filter is true for a value. The answer means nothing once w has ended.
func (w *pathWalk) keeps(f *pathFilter, current []byte) bool {
	switch f.op {
	case filterAnd:
		for i := range f.parts {
			if !w.keeps(&f.parts[i], current) {
				return false
			}
		}
		return true
	case filterOr:
		for i := range f.parts {
			if w.keeps(&f.parts[i], current) {
				return true
			}
		}
		return false
	case filterNot:
		return !w.keeps(&f.parts[0], current)
	case filterExists:
		return w.operand(f.left, current) != nil
	}
	left, right := w.operand(f.left, current), w.operand(f.right, current)
	switch f.op {
	case filterEqual:
		return w.same(left, right)
	case filterUnequal:
		return !w.same(left, right)
	case filterLess:
		return less(left, right)
	case filterGreater:
		return less(right, left)
	case filterLessEqual:
		return less(left, right) || w.same(left, right)
	}
	return less(right, left) || w.same(left, right)
}

// operand returns what one side of a comparison is, nil where it is nothing.
func (w *pathWalk) operand(v filterValue, current []byte) []byte {
	if v.query == nil {
		return v.literal
	}
	if !v.query.root {
		return w.first(v.query.path, current)
	}
	found, known := w.roots[v.query]
	if !known {
		found = w.first(v.query.path, w.root)
		if w.roots == nil {
			w.roots = map[*filterQuery][]byte{}
		}
		w.roots[v.query] = found
	}
	return found
}

// first returns the first match of a path, nil where there is none. Its work is w's.
func (w *pathWalk) first(p jsonPath, value []byte) (found []byte) {
	outer := w.f
	w.f = func(match []byte) bool { found = match; return false }
	w.match(value, p.segments)
	w.f = outer
	return found
}

// same reports whether two values are equal: numbers by value, strings by their text, arrays and
// objects by what they hold.
func (w *pathWalk) same(a, b []byte) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	switch a[0] {
	case '"':
		return b[0] == '"' && rawjson.Text(a) == rawjson.Text(b)
	case '{', '[':
		return a[0] == b[0] && w.scan(a) && w.scan(b) && sameJSON(a, b)
	case 't', 'f', 'n':
		return bytes.Equal(a, b)
	}
	return isNumber(a) && isNumber(b) && tables.CompareNumbers(a, b) == 0
}

// less reports whether a is less than b. Only two numbers or two strings have an order.
func less(a, b []byte) bool {
	switch {
	case a == nil || b == nil:
		return false
	case a[0] == '"' && b[0] == '"':
		return rawjson.Text(a) < rawjson.Text(b)
	}
	return isNumber(a) && isNumber(b) && tables.CompareNumbers(a, b) < 0
}

// isNumber reports whether a JSON value is a number.
func isNumber(v []byte) bool { return v[0] == '-' || v[0] >= '0' && v[0] <= '9' }
