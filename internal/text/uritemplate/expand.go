package uritemplate

import (
	"fmt"
	"strings"
)

// Value is the value of a variable: a text, a list of texts or an associative array. The zero Value
// is the empty text.
type Value struct {
	kind  valueKind
	items []string // of an associative array: key, value, key, value
	text  string
}

type valueKind uint8

const (
	isText valueKind = iota
	isList
	isPairs
)

// Text returns a text as a Value.
func Text(text string) Value { return Value{text: text} }

// List returns a list as a Value. It keeps items.
func List(items ...string) Value { return Value{kind: isList, items: items} }

// Pairs returns an associative array as a Value, in the order of its arguments:
// key, value, key, value. It keeps them.
func Pairs(keysAndValues ...string) Value { return Value{kind: isPairs, items: keysAndValues} }

// defined reports whether the value counts as one: a list and an associative array
// without elements do not (RFC 6570 §2.3).
func (v Value) defined() bool { return v.kind == isText || len(v.items) > 0 }

// Expand returns the URI for values. A variable without a value is left out, as
// the RFC has it.
func (t *Template) Expand(values map[string]Value) string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.literal != "" {
			escape(&b, p.literal, true)
			continue
		}
		written := 0
		for _, s := range p.specs {
			value, ok := values[s.name]
			if !ok || !value.defined() {
				continue
			}
			if written == 0 {
				b.WriteString(p.op.first)
			} else {
				b.WriteString(p.op.sep)
			}
			written++
			p.op.expand(&b, s, value)
		}
	}
	return b.String()
}

// expand writes one variable (RFC 6570 §3.2.1).
func (op operator) expand(b *strings.Builder, s spec, value Value) {
	assign := func(text string) {
		if text == "" && op.named {
			b.WriteString(op.ifEmpty)
			return
		}
		b.WriteByte('=')
		escape(b, text, op.reserved)
	}
	switch {
	case value.kind == isText:
		text := value.text
		if s.prefix > 0 {
			text = firstRunes(text, s.prefix)
		}
		if op.named {
			b.WriteString(s.name)
			assign(text)
			return
		}
		escape(b, text, op.reserved)
	case !s.explode:
		if op.named {
			b.WriteString(s.name)
			b.WriteByte('=')
		}
		for i, item := range value.items {
			if i > 0 {
				b.WriteByte(',')
			}
			escape(b, item, op.reserved)
		}
	case value.kind == isList:
		for i, item := range value.items {
			if i > 0 {
				b.WriteString(op.sep)
			}
			if op.named {
				b.WriteString(s.name)
				assign(item)
			} else {
				escape(b, item, op.reserved)
			}
		}
	default:
		for i := 0; i+1 < len(value.items); i += 2 {
			if i > 0 {
				b.WriteString(op.sep)
			}
			escape(b, value.items[i], op.reserved)
			assign(value.items[i+1])
		}
	}
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

// escape writes s with everything but unreserved characters percent-encoded, where asked with
// reserved characters and encoded texts unchanged.
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
