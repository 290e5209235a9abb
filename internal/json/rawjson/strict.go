package rawjson

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// errCase is the error for a member whose key differs from a known one in case
// only. Readers that ignore case would take it for the known one.
var errCase = errors.New("a key in another case")

// Sole returns the value of the member with this key, nil if there is none. Use it for members that
// a decision depends on: a duplicate key is ErrDuplicate, and a key that differs from it in case
// only is errCase, because another reader might use that member.
func Sole(obj []byte, key string) ([]byte, error) {
	if len(obj) == 0 {
		return nil, nil
	}
	var value []byte
	var problem error
	err := EachMember(obj, func(m Member) bool {
		switch {
		case string(m.Key) != key:
			problem = checkCase(m.Key, key)
		case value != nil:
			problem = fmt.Errorf("%w %q", ErrDuplicate, key)
		default:
			value = m.Value
		}
		return problem == nil
	})
	switch {
	case problem != nil:
		return nil, problem
	case err != nil:
		return nil, err
	}
	return value, nil
}

// CheckCase returns errCase where a member of obj has a key that differs from one
// of keys in case only.
func CheckCase(obj []byte, keys ...string) error {
	var problem error
	err := EachMember(obj, func(m Member) bool {
		for _, key := range keys {
			if string(m.Key) == key {
				return true
			}
			if problem == nil {
				problem = checkCase(m.Key, key)
			}
		}
		return problem == nil
	})
	if problem != nil {
		return problem
	}
	return err
}

func checkCase(found []byte, key string) error {
	if len(found) < len(key) || !strings.EqualFold(string(found), key) { // keys are ASCII, and nothing shorter folds to ASCII
		return nil
	}
	return fmt.Errorf("%w: %q, which some readers take for %q", errCase, found, key)
}

// AppendRewritten appends a JSON value in this package's own encoding: no white space, strings with
// the fewest escapes, members in their order, numbers digit by digit. All readers agree about the
// result: a duplicate key in an object, at any depth, is ErrDuplicate, and an invalid character,
// such as half of a surrogate pair, becomes U+FFFD. It reads raw once.
func AppendRewritten(dst, raw []byte) ([]byte, error) {
	out, end, err := rewrite(dst, raw, 0, 0)
	if err != nil {
		return dst, err
	}
	return out, trailing(raw, end)
}

// rewrite appends the value at or after index i, and returns the index behind it.
func rewrite(dst, data []byte, i, depth int) (out []byte, end int, err error) {
	i = SkipSpace(data, i)
	if i >= len(data) {
		return dst, i, syntaxError(i, "a value is missing")
	}
	switch data[i] {
	case '{', '[':
		if depth >= MaxDepth {
			return dst, i, ErrDepth
		}
		if data[i] == '{' {
			return rewriteObject(dst, data, i+1, depth+1)
		}
		return rewriteArray(dst, data, i+1, depth+1)
	case '"':
		dst, _, end, err = rewriteString(dst, data, i)
		return dst, end, err
	}
	end, err = skip(data, i, depth)
	if err != nil {
		return dst, i, err
	}
	return append(dst, data[i:end]...), end, nil
}

func rewriteObject(dst, data []byte, i, depth int) (out []byte, end int, err error) {
	dst = append(dst, '{')
	var seen keySet
	for first := true; ; first = false {
		i = SkipSpace(data, i)
		switch {
		case first && i < len(data) && data[i] == '}':
			return append(dst, '}'), i + 1, nil
		case i >= len(data) || data[i] != '"':
			return dst, i, syntaxError(i, "a key is missing")
		}
		var key []byte
		if dst, key, end, err = rewriteString(dst, data, i); err != nil {
			return dst, i, err
		}
		if !seen.add(key) {
			return dst, i, fmt.Errorf("%w %q", ErrDuplicate, key)
		}
		if i = SkipSpace(data, end); i >= len(data) || data[i] != ':' {
			return dst, i, syntaxError(i, "a colon is missing")
		}
		if dst, i, err = rewrite(append(dst, ':'), data, i+1, depth); err != nil {
			return dst, i, err
		}
		if i = SkipSpace(data, i); i >= len(data) {
			return dst, i, syntaxError(i, "the object is not closed")
		}
		switch data[i] {
		case '}':
			return append(dst, '}'), i + 1, nil
		case ',':
			dst = append(dst, ',')
			i++
		default:
			return dst, i, syntaxError(i, "a comma is missing")
		}
	}
}

func rewriteArray(dst, data []byte, i, depth int) (out []byte, end int, err error) {
	dst = append(dst, '[')
	if i = SkipSpace(data, i); i < len(data) && data[i] == ']' {
		return append(dst, ']'), i + 1, nil
	}
	for {
		if dst, i, err = rewrite(dst, data, i, depth); err != nil {
			return dst, i, err
		}
		if i = SkipSpace(data, i); i >= len(data) {
			return dst, i, syntaxError(i, "the array is not closed")
		}
		switch data[i] {
		case ']':
			return append(dst, ']'), i + 1, nil
		case ',':
			dst = append(dst, ',')
			i++
		default:
			return dst, i, syntaxError(i, "a comma is missing")
		}
	}
}

// rewriteString appends the string whose quote is at index i. text is its decoded text: a slice of
// data where nothing in it is escaped.
func rewriteString(dst, data []byte, i int) (out, text []byte, end int, err error) {
	if end, err = skipString(data, i); err != nil {
		return dst, nil, i, err
	}
	if text = data[i+1 : end-1]; bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text) {
		return append(dst, data[i:end]...), text, end, nil
	}
	if text, err = Unquote(data[i:end]); err != nil {
		return dst, nil, i, err
	}
	return AppendString(dst, string(text)), text, end, nil
}

// fewKeys is how many keys are compared one by one.
const fewKeys = 8

// keySet holds the keys of one object.
type keySet struct {
	few  [fewKeys][]byte
	n    int
	many map[string]struct{}
}

// add reports whether a key is new.
func (s *keySet) add(key []byte) bool {
	if s.many == nil {
		for _, k := range s.few[:s.n] {
			if bytes.Equal(k, key) {
				return false
			}
		}
		if s.n < fewKeys {
			s.few[s.n] = key
			s.n++
			return true
		}
		s.many = make(map[string]struct{}, 2*fewKeys)
		for _, k := range s.few {
			s.many[string(k)] = struct{}{}
		}
	}
	if _, ok := s.many[string(key)]; ok {
		return false
	}
	s.many[string(key)] = struct{}{}
	return true
}
