package table

import (
	"bytes"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// kind is the kind of a value. Kinds sort in the order of these constants.
type kind uint8

const (
	kindNumber kind = iota
	kindString
	kindBoolean
	kindNested // arrays and objects
	kindNull
	kindAbsent
)

func kindOf(v []byte) kind {
	if len(v) == 0 {
		return kindAbsent
	}
	switch v[0] {
	case '"':
		return kindString
	case 't', 'f':
		return kindBoolean
	case 'n':
		return kindNull
	case '{', '[':
		return kindNested
	}
	return kindNumber
}

func (k kind) String() string {
	return [...]string{"number", "string", "boolean", "nested value", "null", "nothing"}[k]
}

// compare orders two values of one kind: numbers by value, strings by their
// Unicode text, false before true, nested values by their bytes.
func compare(k kind, a, b []byte) int {
	switch k {
	case kindNumber:
		return CompareNumbers(a, b)
	case kindString:
		return compareStrings(a, b)
	case kindBoolean, kindNested:
		// "false" sorts before "true" as bytes as well.
		return bytes.Compare(a, b)
	}
	return 0
}

func compareStrings(a, b []byte) int {
	if bytes.IndexByte(a, '\\') < 0 && bytes.IndexByte(b, '\\') < 0 {
		return bytes.Compare(a[1:len(a)-1], b[1:len(b)-1])
	}
	return bytes.Compare(plain(a), plain(b))
}

// equal reports whether two values have the same kind and are equal.
func equal(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	k := kindOf(a)
	return k == kindOf(b) && compare(k, a, b) == 0
}

// identity appends a text that is the same for equal values and only for them.
func identity(dst, v []byte) []byte {
	switch kindOf(v) {
	case kindNumber:
		d := parseDecimal(v)
		return d.canonical(append(dst, '#'))
	case kindString:
		if bytes.IndexByte(v, '\\') < 0 {
			return append(append(dst, '"'), v[1:len(v)-1]...)
		}
		return append(append(dst, '"'), rawjson.Text(v)...)
	case kindAbsent, kindNull:
		return append(dst, 'n')
	}
	return append(dst, v...)
}
