package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// The functions in this file read JSON. Unlike in encoding/json, keys are case-sensitive.

// members calls yield with each key (unescaped) and value of an object, until
// yield returns false. It reports whether raw is an object.
func members(raw []byte, yield func(key, value []byte) bool) bool {
	err := rawjson.EachMember(raw, func(m rawjson.Member) bool { return yield(m.Key, m.Value) })
	return err == nil
}

// elements calls yield with each value of an array, until yield returns false.
// It reports whether raw is an array.
func elements(raw []byte, yield func(value []byte) bool) bool {
	return rawjson.EachElement(raw, yield) == nil
}

// member returns the value of a key of an object, the last one if there are
// several, or nil.
func member(raw []byte, name string) json.RawMessage {
	var found []byte
	members(raw, func(key, value []byte) bool {
		if string(key) == name {
			found = value
		}
		return true
	})
	return found
}

// texts returns the strings among the elements of an array; nil if raw is no array.
func texts(raw []byte) (out []string) {
	elements(raw, func(value []byte) bool {
		if s, ok := stringOf(value); ok {
			out = append(out, s)
		}
		return true
	})
	return out
}

// stringOf returns the string value of raw as valid UTF-8.
func stringOf(raw []byte) (string, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	body := raw[1 : len(raw)-1]
	if bytes.IndexByte(body, '\\') < 0 {
		return validText(body), true
	}
	s, err := rawjson.String(raw)
	return s, err == nil
}

// validText returns b as valid UTF-8. Checking first is ten times cheaper than strings.ToValidUTF8,
// and b is nearly always valid.
func validText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// isTrue reports whether raw is the literal true.
func isTrue(raw []byte) bool { return string(bytes.TrimSpace(raw)) == "true" }

// absent reports whether raw is missing or null.
func absent(raw []byte) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}

// kindOf names the JSON type of a value, for messages.
func kindOf(raw []byte) string {
	i := rawjson.SkipSpace(raw, 0)
	if i == len(raw) {
		return "nothing"
	}
	switch raw[i] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

const (
	maxValueDepth  = 128  // nesting of decoded values
	maxNumberBytes = 1000 // length of a number literal
	maxExponent    = 1000 // of a number literal, either way
)

// duplicates decides about duplicate keys in an object.
type duplicates bool

const (
	uniqueKeys  duplicates = false // error, because two readers might use different values
	lastKeyWins duplicates = true
)

// decode decodes a value to map[string]any, []any, string, json.Number, bool or nil, without
// rounding. It refuses numbers and nesting whose processing would cost far more than their size
// suggests.
func decode(raw []byte, keys duplicates) (any, error) {
	return decoder{keys: keys}.decode(raw)
}

// decoder has the options of decode.
type decoder struct {
	keys duplicates
	clip int // of texts, see clipText
}

func (d decoder) decode(raw []byte) (any, error) {
	raw = raw[rawjson.SkipSpace(raw, 0):]
	if !rawjson.IsObject(raw) && !rawjson.IsArray(raw) { // containers are validated while they are read
		if err := malformed(rawjson.Valid(raw)); err != nil {
			return nil, err
		}
		raw = bytes.TrimSpace(raw)
	}
	return d.value(raw, 0)
}

// malformed converts an error of rawjson, nil if there is none.
func malformed(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rawjson.ErrDepth):
		return fmt.Errorf("nested deeper than %d levels", maxValueDepth)
	}
	return fmt.Errorf("not valid JSON")
}

func (d decoder) value(raw []byte, depth int) (any, error) {
	if depth > maxValueDepth {
		return nil, fmt.Errorf("nested deeper than %d levels", maxValueDepth)
	}
	switch raw[0] {
	case '{':
		object := map[string]any{}
		var err error
		if e := rawjson.EachMember(raw, func(m rawjson.Member) bool {
			name := validText(m.Key)
			if _, ok := object[name]; ok && d.keys == uniqueKeys {
				err = fmt.Errorf("key %q comes twice", clip(name, 80))
				return false
			}
			object[name], err = d.value(m.Value, depth+1)
			return err == nil
		}); err == nil {
			err = malformed(e)
		}
		return object, err
	case '[':
		array := []any{}
		var err error
		if e := rawjson.EachElement(raw, func(value []byte) bool {
			var v any
			v, err = d.value(value, depth+1)
			array = append(array, v)
			return err == nil
		}); err == nil {
			err = malformed(e)
		}
		return array, err
	case '"':
		s, _ := stringOf(clipText(raw, d.clip))
		return s, nil
	case 't':
		return true, nil
	case 'f':
		return false, nil
	case 'n':
		return nil, nil
	}
	if err := checkNumber(raw); err != nil {
		return nil, err
	}
	return json.Number(raw), nil
}

// checkNumber refuses a number whose exact value would be huge.
func checkNumber(raw []byte) error {
	if len(raw) > maxNumberBytes {
		return fmt.Errorf("number of %d digits is too long", len(raw))
	}
	e := bytes.IndexAny(raw, "eE")
	if e < 0 {
		return nil
	}
	exponent := 0
	for _, c := range raw[e+1:] {
		if c == '+' || c == '-' {
			continue
		}
		if exponent = exponent*10 + int(c-'0'); exponent > maxExponent {
			return fmt.Errorf("number %s is out of range", clip(string(raw), 40))
		}
	}
	return nil
}

// clip cuts s to at most n characters. The last one is … if it was cut.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	count := 0
	for i := range s {
		if count == n-1 && utf8.RuneCountInString(s[i:]) > 1 {
			return s[:i] + "…"
		}
		count++
	}
	return s
}

const hexDigits = "0123456789abcdef"

// appendASCII appends s as a JSON string in ASCII, as Python's json.dumps writes it: the canonical
// form for hashes (spec/gateway §1.3).
func appendASCII(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r >= ' ' && r <= '~':
			dst = append(dst, byte(r))
		case r > 0xFFFF:
			r -= 0x10000
			dst = appendEscaped(dst, 0xD800+r>>10)
			dst = appendEscaped(dst, 0xDC00+r&0x3FF)
		default:
			dst = appendEscaped(dst, r)
		}
	}
	return append(dst, '"')
}

func appendEscaped(dst []byte, r rune) []byte {
	switch r {
	case '\b':
		return append(dst, `\b`...)
	case '\t':
		return append(dst, `\t`...)
	case '\n':
		return append(dst, `\n`...)
	case '\f':
		return append(dst, `\f`...)
	case '\r':
		return append(dst, `\r`...)
	}
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}
