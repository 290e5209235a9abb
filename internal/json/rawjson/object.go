package rawjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Member is one member of an object: its key unescaped, its value as it
// stands, and where the two are in the object.
type Member struct {
	Key   []byte // unescaped; a slice of the input when it holds no escape
	Value []byte // the value's bytes without white space around them
	Start int    // index of the key's opening quote
	End   int    // index just behind the value
}

// IsObject reports whether raw starts like an object.
func IsObject(raw []byte) bool {
	i := SkipSpace(raw, 0)
	return i < len(raw) && raw[i] == '{'
}

// IsArray reports whether raw starts like an array.
func IsArray(raw []byte) bool {
	i := SkipSpace(raw, 0)
	return i < len(raw) && raw[i] == '['
}

// IsEmptyObject reports whether obj, an object, has no members.
func IsEmptyObject(obj []byte) bool {
	i := SkipSpace(obj, 0) + 1
	i = SkipSpace(obj, i)
	return i < len(obj) && obj[i] == '}'
}

// IsEmptyArray is IsEmptyObject for an array.
func IsEmptyArray(list []byte) bool {
	i := SkipSpace(list, 0)
	if i >= len(list) || list[i] != '[' {
		return false
	}
	i = SkipSpace(list, i+1)
	return i < len(list) && list[i] == ']'
}

// EachMember calls f for each member of obj in order until f returns false. It checks the syntax of
// the members that it passes; after an early stop it ignores the rest. It does not detect
// duplicates: [Fields] does.
func EachMember(obj []byte, f func(m Member) bool) error {
	i := SkipSpace(obj, 0)
	if i >= len(obj) || obj[i] != '{' {
		return errNotObject
	}
	i = SkipSpace(obj, i+1)
	if i < len(obj) && obj[i] == '}' {
		return trailing(obj, i+1)
	}
	for {
		if i >= len(obj) || obj[i] != '"' {
			return syntaxError(i, "a key is missing")
		}
		m := Member{Start: i}
		end, err := skipString(obj, i)
		if err != nil {
			return err
		}
		m.Key = obj[i+1 : end-1]
		if bytes.IndexByte(m.Key, '\\') >= 0 {
			s, err := String(obj[i:end])
			if err != nil {
				return err
			}
			m.Key = []byte(s)
		}
		i = SkipSpace(obj, end)
		if i >= len(obj) || obj[i] != ':' {
			return syntaxError(i, "a colon is missing")
		}
		i = SkipSpace(obj, i+1)
		if end, err = skip(obj, i, 1); err != nil {
			return err
		}
		m.Value, m.End = obj[i:end:end], end
		if !f(m) {
			return nil
		}
		i = SkipSpace(obj, end)
		if i >= len(obj) {
			return syntaxError(i, "the object is not closed")
		}
		if obj[i] == '}' {
			return trailing(obj, i+1)
		}
		if obj[i] != ',' {
			return syntaxError(i, "a comma is missing")
		}
		i = SkipSpace(obj, i+1)
	}
}

func trailing(data []byte, i int) error {
	if i = SkipSpace(data, i); i != len(data) {
		return syntaxError(i, "text after the value")
	}
	return nil
}

// EachElement calls f for each element of arr in order until f returns false.
func EachElement(arr []byte, f func(value []byte) bool) error {
	i := SkipSpace(arr, 0)
	if i >= len(arr) || arr[i] != '[' {
		return errNotArray
	}
	i = SkipSpace(arr, i+1)
	if i < len(arr) && arr[i] == ']' {
		return trailing(arr, i+1)
	}
	for {
		i = SkipSpace(arr, i)
		end, err := skip(arr, i, 1)
		if err != nil {
			return err
		}
		if !f(arr[i:end:end]) {
			return nil
		}
		i = SkipSpace(arr, end)
		if i >= len(arr) {
			return syntaxError(i, "the array is not closed")
		}
		if arr[i] == ']' {
			return trailing(arr, i+1)
		}
		if arr[i] != ',' {
			return syntaxError(i, "a comma is missing")
		}
		i++
	}
}

// Fields finds several members of obj in one pass: out[n] becomes the value of
// keys[n], or nil where the key is absent. A key that stands twice is
// ErrDuplicate. len(out) must be at least len(keys). A nil or empty obj has no
// members.
func Fields(obj []byte, keys []string, out [][]byte) error {
	return fields(obj, keys, out, false)
}

func fields(obj []byte, keys []string, out [][]byte, checked bool) error {
	for n := range keys {
		out[n] = nil
	}
	if len(obj) == 0 {
		return nil
	}
	dup := -1
	take := func(m Member) bool {
		for n, key := range keys {
			if string(m.Key) == key {
				if out[n] != nil {
					dup = n
					return false
				}
				out[n] = m.Value
				break
			}
		}
		return true
	}
	var err error
	if checked { // not by a func value, for which keys and out would be on the heap
		err = EachCheckedMember(obj, take)
	} else {
		err = EachMember(obj, take)
	}
	if dup >= 0 {
		return fmt.Errorf("%w %q", ErrDuplicate, keys[dup])
	}
	return err
}

// Get returns the value of one member. It returns nil if obj is empty, is not an object, lacks the
// key or is not valid JSON. A duplicate key counts as absent: no reader may pick one of two.
func Get(obj []byte, key string) []byte {
	var keys = [1]string{key}
	var out [1][]byte
	if Fields(obj, keys[:], out[:]) != nil {
		return nil
	}
	return out[0]
}

// GetPath follows keys from object to object.
func GetPath(obj []byte, path ...string) []byte {
	for _, key := range path {
		if obj = Get(obj, key); obj == nil {
			return nil
		}
	}
	return obj
}

// Set returns a copy of obj in which key has the given value: at its old place if the key exists,
// else as the last member. An empty obj counts as {}. If obj is not a valid object, Set returns an
// error.
func Set(obj []byte, key string, value []byte) ([]byte, error) {
	if len(bytes.TrimSpace(obj)) == 0 {
		obj = []byte("{}")
	}
	var at Member
	found, members, last := 0, 0, 0
	take := func(m Member) bool {
		members++
		last = m.End
		if string(m.Key) == key {
			found++
			at = m
		}
		return true
	}
	err := EachMember(obj, take)
	switch {
	case err != nil:
		return nil, err
	case found > 1:
		return nil, fmt.Errorf("%w %q", ErrDuplicate, key)
	case found == 1:
		start := at.End - len(at.Value)
		out := make([]byte, 0, len(obj)-len(at.Value)+len(value))
		out = append(out, obj[:start]...)
		out = append(out, value...)
		return append(out, obj[at.End:]...), nil
	}
	out := make([]byte, 0, len(obj)+len(key)+len(value)+4)
	if members == 0 {
		last = SkipSpace(obj, 0) + 1
	}
	out = append(out, obj[:last]...)
	if members > 0 {
		out = append(out, ',')
	}
	out = AppendString(out, key)
	out = append(out, ':')
	out = append(out, value...)
	return append(out, obj[last:]...), nil
}

// SetPath sets a member of a nested object and makes the objects on the way
// where they are missing.
func SetPath(obj []byte, value []byte, path ...string) ([]byte, error) {
	if len(path) == 1 {
		return Set(obj, path[0], value)
	}
	inner, err := SetPath(Get(obj, path[0]), value, path[1:]...)
	if err != nil {
		return nil, err
	}
	return Set(obj, path[0], inner)
}

// Delete returns a copy of obj without key, or obj itself where the key is
// absent.
func Delete(obj []byte, key string) ([]byte, error) {
	if len(obj) == 0 {
		return obj, nil
	}
	var at Member
	found, prevEnd, nextStart, members := false, 0, 0, 0
	err := EachMember(obj, func(m Member) bool {
		members++
		switch {
		case string(m.Key) == key && !found:
			found, at = true, m
		case !found:
			prevEnd = m.End
		case nextStart == 0:
			nextStart = m.Start
		}
		return true
	})
	if err != nil || !found {
		return obj, err
	}
	out := make([]byte, 0, len(obj))
	switch {
	case nextStart > 0:
		out = append(append(out, obj[:at.Start]...), obj[nextStart:]...)
	case prevEnd > 0:
		out = append(append(out, obj[:prevEnd]...), obj[at.End:]...)
	default:
		out = append(append(out, obj[:at.Start]...), obj[at.End:]...)
	}
	return Delete(out, key)
}

// String unquotes a JSON string.
func String(raw []byte) (string, error) {
	body, err := Unquote(raw)
	return string(body), err
}

// Unquote returns the text of a JSON string as bytes. Without escapes it is a slice of raw. If raw
// is not a string, the error is ErrType.
func Unquote(raw []byte) ([]byte, error) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return nil, fmt.Errorf("%w: not a string", ErrType)
	}
	body := raw[1 : len(raw)-1]
	if utf8.Valid(body) {
		n := bytes.IndexByte(body, '\\')
		if n < 0 {
			return body, nil
		}
		if out, _, ok := unescape(append(make([]byte, 0, len(body)), body[:n]...), body[n:], math.MaxInt); ok {
			return out, nil
		}
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrSyntax, err)
	}
	return []byte(s), nil
}

// WriteText writes the text of a JSON string to w in pieces: the result of Unquote, without a copy
// of all of it. It returns errors of w. If raw is no string, or holds invalid UTF-8 or an escape
// that JSON does not know, the error is ErrType or ErrSyntax; then w may have got a part.
func WriteText(w io.Writer, raw []byte) error {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return fmt.Errorf("%w: not a string", ErrType)
	}
	body := raw[1 : len(raw)-1]
	if !utf8.Valid(body) {
		return fmt.Errorf("%w: a string that is not UTF-8", ErrSyntax)
	}
	piece, ok := make([]byte, 0, 2*textPiece), true
	for len(body) > 0 {
		if piece, body, ok = unescape(piece[:0], body, textPiece); !ok {
			if len(body) < 6 || body[1] != 'u' || !isHex(body[2:6]) {
				return fmt.Errorf("%w: a bad escape in a string", ErrSyntax)
			}
			piece, body = append(piece, "\uFFFD"...), body[6:] // half of a surrogate pair
		}
		if _, err := w.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// textPiece is about how much of a text WriteText writes at once.
const textPiece = 64 << 10

// escapes maps the character after a backslash to its meaning.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unescape appends the text of the inside of a JSON string until dst has about most bytes, and
// returns the rest of body. It fails at invalid escapes and at halves of surrogate pairs, which the
// rest then begins with.
func unescape(dst, body []byte, most int) (out, rest []byte, ok bool) {
	for len(body) > 0 && len(dst) < most {
		window := body[:min(len(body), most)]
		stop := skipPlain(window, 0)
		dst = append(dst, window[:stop]...)
		if body = body[stop:]; stop == len(window) {
			continue
		}
		if body[0] != '\\' || len(body) < 2 {
			return dst, body, false
		}
		if c := escapes[body[1]]; c != 0 {
			dst = append(dst, c)
			body = body[2:]
			continue
		}
		if body[1] != 'u' || len(body) < 6 || !isHex(body[2:6]) {
			return dst, body, false
		}
		r, err := strconv.ParseUint(string(body[2:6]), 16, 32)
		if err != nil || utf16.IsSurrogate(rune(r)) && len(body) < 12 {
			return dst, body, false
		}
		if !utf16.IsSurrogate(rune(r)) {
			dst = utf8.AppendRune(dst, rune(r))
			body = body[6:]
			continue
		}
		if body[6] != '\\' || body[7] != 'u' || !isHex(body[8:12]) {
			return dst, body, false
		}
		low, err := strconv.ParseUint(string(body[8:12]), 16, 32)
		pair := utf16.DecodeRune(rune(r), rune(low))
		if err != nil || pair == utf8.RuneError {
			return dst, body, false
		}
		dst = utf8.AppendRune(dst, pair)
		body = body[12:]
	}
	return dst, body, true
}

// Text is String for callers that treat other values as "".
func Text(raw []byte) string {
	if len(raw) == 0 || raw[0] != '"' { // absent members cost nothing
		return ""
	}
	s, err := String(raw)
	if err != nil {
		return ""
	}
	return s
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. It escapes only the characters that JSON wants escaped:
// no HTML escaping, and invalid UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(dst, s[start:i]...)
				dst = append(dst, "\uFFFD"...)
				start = i + 1
			}
			i += size
			continue
		}
		dst = appendEscape(append(dst, s[start:i]...), c)
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// AppendText is AppendString for text that is there as bytes.
func AppendText(dst, text []byte) []byte {
	if !utf8.Valid(text) {
		return AppendString(dst, string(text))
	}
	dst = append(dst, '"')
	for {
		stop := skipPlain(text, 0)
		dst = append(dst, text[:stop]...)
		if stop == len(text) {
			return append(dst, '"')
		}
		dst = appendEscape(dst, text[stop])
		text = text[stop+1:]
	}
}

// appendEscape appends the escape of a quote, a backslash or a control character.
func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// QuotedLen returns how many bytes AppendText appends for text that is UTF-8.
func QuotedLen(text []byte) int {
	n := len(text) + 2
	for _, c := range text {
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		n++
		if c < 0x20 && c != '\n' && c != '\r' && c != '\t' {
			n += 4
		}
	}
	return n
}

// EscapeTail replaces dst[at:], which is UTF-8, by its form in a JSON string, without the quotes. It
// takes no memory where dst has room for it.
func EscapeTail(dst []byte, at int) []byte {
	from, more := len(dst), QuotedLen(dst[at:])-len(`""`)-len(dst[at:])
	dst = slices.Grow(dst, more)[:from+more]
	for to := len(dst); from < to; { // from the end, as the bytes there have been read by then
		from--
		c := dst[from]
		if c >= 0x20 && c != '"' && c != '\\' {
			to--
			dst[to] = c
			continue
		}
		var room [6]byte
		escape := appendEscape(room[:0], c)
		to -= len(escape)
		copy(dst[to:], escape)
	}
	return dst
}

// Quote returns s as a JSON string.
func Quote(s string) []byte { return AppendString(make([]byte, 0, len(s)+2), s) }

// QuoteText returns text as a JSON string, in one allocation where it is UTF-8.
func QuoteText(text []byte) []byte { return AppendText(make([]byte, 0, QuotedLen(text)), text) }

// MayHold reports whether data may have a member key, or a string with that text, at any depth. It
// is much faster than a scan and never false for data that has one.
func MayHold(data []byte, key string) bool {
	return Contains(data, key) || Contains(data, `\u`)
}
