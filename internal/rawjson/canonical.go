package rawjson

import (
	"bytes"
	"slices"
	"strings"
)

// AppendCanonical appends a JSON value in a form that is equal for equivalent values: keys sorted,
// no white space, strings with the fewest escapes. Numbers keep their digits, so none is rounded
// into another: 1 and 1.0 differ. The result is for comparing, not for sending. ok is false if raw
// is not valid, or if an object has a duplicate key.
func AppendCanonical(dst, raw []byte) (out []byte, ok bool) {
	i := SkipSpace(raw, 0)
	if i >= len(raw) {
		return dst, false
	}
	switch raw[i] {
	case '{':
		type member struct {
			key   string
			value []byte
		}
		var members []member
		if EachMember(raw, func(m Member) bool {
			members = append(members, member{string(m.Key), m.Value})
			return true
		}) != nil {
			return dst, false
		}
		slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.key, b.key) })
		dst = append(dst, '{')
		for n, m := range members {
			if n > 0 {
				if members[n-1].key == m.key {
					return dst, false
				}
				dst = append(dst, ',')
			}
			dst = append(AppendString(dst, m.key), ':')
			if dst, ok = AppendCanonical(dst, m.value); !ok {
				return dst, false
			}
		}
		return append(dst, '}'), true
	case '[':
		dst = append(dst, '[')
		start := len(dst)
		ok = true
		err := EachElement(raw, func(v []byte) bool {
			if len(dst) > start {
				dst = append(dst, ',')
			}
			dst, ok = AppendCanonical(dst, v)
			return ok
		})
		return append(dst, ']'), ok && err == nil
	case '"':
		raw = raw[i:]
		end, err := Skip(raw, 0)
		if err != nil {
			return dst, false
		}
		text := Text(raw[:end])
		if strings.ContainsRune(text, '\uFFFD') {
			// An invalid character, such as half of a surrogate pair, decodes to this one: keep
			// such strings as they were written.
			return append(append(dst, '\''), raw[:end]...), true
		}
		return AppendString(dst, text), true
	}
	if Valid(raw) != nil {
		return dst, false
	}
	return append(dst, bytes.TrimSpace(raw)...), true
}
