package table

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/work"
)

// Operators lists the operators of conditions. Values of different kinds are never equal and have
// no order. All operators except exists treat an absent value as null.
//
//	eq ne           equal, numbers by value: 1 is 1.0; ne also where there is nothing
//	lt le gt ge     numbers, strings or booleans
//	in not_in       value is an array
//	contains        a string in the string, or an element of the array
//	prefix suffix   of a string
//	regex           RE2, somewhere in the string, or in what else stands there
//	exists          the row has the field, null or not; value false turns it around
//	null            null or absent; value false turns it around
//
// =, ==, !=, <, <=, >, >= are accepted as well.
func Operators() []string {
	return []string{"eq", "ne", "lt", "le", "gt", "ge", "in", "not_in", "contains", "not_contains", "prefix", "suffix", "regex", "exists", "null"}
}

var symbols = map[string]string{"=": "eq", "==": "eq", "!=": "ne", "<>": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}

// maxPattern bounds the length of a regular expression. An instruction of its program takes
// instructionBytes, with its share of the matcher's memory.
const (
	maxPattern       = 1000
	instructionBytes = 200
)

// check returns the error of compile, without the set that compile makes of a long list of values.
func (c Condition) check(param string) error {
	if c.Op == "in" || c.Op == "not_in" {
		value := bytes.TrimSpace(c.Value)
		if len(value) > 0 && value[0] == '[' && rawjson.Valid(value) == nil {
			return nil
		}
	}
	_, err := c.compile(param, nil)
	return err
}

// compile returns the test of a condition. m has the memory that the test holds. Only regular
// expressions are counted in m as work and can fail, because other tests cost no more than reading
// the value.
func (c Condition) compile(param string, m *work.Meter) (func([]byte) (bool, error), error) {
	if c.Op == "regex" {
		return c.compileRegex(param, m)
	}
	test, err := c.compileSimple(param, m)
	if err != nil {
		return nil, err
	}
	return func(v []byte) (bool, error) { return test(v), nil }, nil
}

func (c Condition) compileSimple(param string, m *work.Meter) (func([]byte) bool, error) {
	op := c.Op
	if name, ok := symbols[op]; ok {
		op = name
	}
	if !slices.Contains(Operators(), op) {
		return nil, badQuery(param+".op", "is %.40q, and there are %s", c.Op, strings.Join(Operators(), ", "))
	}
	value := bytes.TrimSpace(c.Value)
	if len(value) > 0 && rawjson.Valid(value) != nil {
		return nil, badQuery(param+".value", "is no JSON")
	}
	switch op {
	case "exists", "null":
		want := true
		switch string(value) {
		case "", "true":
		case "false":
			want = false
		default:
			return nil, badQuery(param+".value", "of %s is a boolean or absent, not %.40s", op, value)
		}
		if op == "exists" {
			return func(v []byte) bool { return (v != nil) == want }, nil
		}
		return func(v []byte) bool { return (kindOf(v) >= kindNull) == want }, nil
	}
	if len(value) == 0 {
		return nil, badQuery(param+".value", "is missing")
	}
	switch op {
	case "eq", "ne":
		want := op == "eq"
		if kindOf(value) == kindNull {
			return func(v []byte) bool { return (kindOf(v) >= kindNull) == want }, nil
		}
		return func(v []byte) bool { return equal(v, value) == want }, nil
	case "lt", "le", "gt", "ge":
		k := kindOf(value)
		if k > kindBoolean {
			return nil, badQuery(param+".value", "of %s is a number, a string or a boolean, not a %s", op, k)
		}
		return func(v []byte) bool {
			if kindOf(v) != k {
				return false
			}
			c := compare(k, v, value)
			switch op {
			case "lt":
				return c < 0
			case "le":
				return c <= 0
			case "gt":
				return c > 0
			}
			return c >= 0
		}, nil
	case "in", "not_in":
		set, null, err := valueSet(m, param, op, value)
		if err != nil {
			return nil, err
		}
		want := op == "in"
		var scratch []byte
		return func(v []byte) bool {
			if kindOf(v) >= kindNull {
				return null == want
			}
			scratch = identity(scratch[:0], v)
			return set[string(scratch)] == want
		}, nil
	}
	return compileText(param, op, value)
}

func valueSet(m *work.Meter, param, op string, value []byte) (set map[string]bool, null bool, err error) {
	if value[0] != '[' {
		return nil, false, badQuery(param+".value", "of %s is an array, not a %s", op, kindOf(value))
	}
	set = map[string]bool{}
	var full error
	err = rawjson.EachElement(value, func(e []byte) bool {
		if kindOf(e) == kindNull {
			null = true
			return true
		}
		id := identity(nil, e)
		if full = m.Take(entryBytes + int64(len(id))); full == nil {
			set[string(id)] = true
		}
		return full == nil
	})
	if full != nil {
		err = full
	}
	return set, null, err
}

// compileText returns the tests on text.
func compileText(param, op string, value []byte) (func([]byte) bool, error) {
	if op == "contains" || op == "not_contains" {
		want := op == "contains"
		text := plain(value)
		return func(v []byte) bool {
			found := false
			switch {
			case len(v) > 0 && v[0] == '[':
				_ = rawjson.EachElement(v, func(e []byte) bool { // cannot fail: parsed before
					found = equal(e, value)
					return !found
				})
			case kindOf(v) == kindString && value[0] == '"':
				found = bytes.Contains(plain(v), text)
			}
			return found == want
		}, nil
	}
	if value[0] != '"' {
		return nil, badQuery(param+".value", "of %s is a string, not a %s", op, kindOf(value))
	}
	text := plain(value)
	if op == "prefix" {
		return func(v []byte) bool { return kindOf(v) == kindString && bytes.HasPrefix(plain(v), text) }, nil
	}
	return func(v []byte) bool { return kindOf(v) == kindString && bytes.HasSuffix(plain(v), text) }, nil
}

// plain returns the text of a string. It is a part of v if v has no escapes. Of another value it is
// empty.
func plain(v []byte) []byte {
	if kindOf(v) == kindString && bytes.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1]
	}
	return []byte(rawjson.Text(v))
}

// compileRegex returns the test of a regular expression.
func (c Condition) compileRegex(param string, m *work.Meter) (func([]byte) (bool, error), error) {
	value := bytes.TrimSpace(c.Value)
	switch {
	case len(value) == 0:
		return nil, badQuery(param+".value", "is missing")
	case rawjson.Valid(value) != nil:
		return nil, badQuery(param+".value", "is no JSON")
	case value[0] != '"':
		return nil, badQuery(param+".value", "of regex is a string, not a %s", kindOf(value))
	}
	text := rawjson.Text(value)
	if len(text) > maxPattern {
		return nil, badQuery(param+".value", "is a pattern of %d bytes, and at most %d are taken", len(text), maxPattern)
	}
	pattern, err := work.Compile(text)
	var large *work.TooLargeError
	switch {
	case errors.As(err, &large):
		return nil, badQuery(param+".value", "is a pattern that %v: make it simpler", large)
	case err != nil:
		return nil, badQuery(param+".value", "is no RE2 pattern: %v", err)
	}
	if err := m.Take(instructionBytes * int64(pattern.Instructions())); err != nil {
		return nil, err
	}
	return func(v []byte) (bool, error) {
		var text string
		switch kindOf(v) {
		case kindNull, kindAbsent:
			return false, nil
		case kindString:
			text = rawjson.Text(v)
		default:
			text = string(v)
		}
		found, err := pattern.Match(m, text)
		if errors.Is(err, work.ErrLimit) {
			err = badQuery(param+".value", "is a pattern too expensive for so many rows: make it simpler, or put a condition before it that leaves fewer rows")
		}
		return found, err
	}, nil
}

// String returns the condition as a person would write it.
func (c Condition) String() string { return fmt.Sprintf("%s %s %s", c.Column, c.Op, c.Value) }
