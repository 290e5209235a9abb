package config

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// field is one row of the table of keys, read from a struct's tags.
type field struct {
	key  string
	doc  string
	def  string   // the default as a file would have it; "" for the zero value
	enum []string // legal values; nil for any
	min  string   // smallest legal value as a file would have it; "" for none
	name string   // Go field that takes the mapping's key, for mappings of objects
	flag string   // key of an object that a bare true or false stands for; "" for none
	// safety is set for what keeps strangers or calls away: an unknown key within it,
	// or one that is nearly its name, is an error in foreign files, too.
	safety bool
	typ    reflect.Type
	at     int // index in the Go struct
}

// fieldsOf returns the rows for a struct type, in the order of its fields.
// Fields without a key tag are not in the file.
func fieldsOf(t reflect.Type) []field {
	var rows []field
	for i := range t.NumField() {
		f := t.Field(i)
		key, ok := f.Tag.Lookup("key")
		if !ok {
			continue
		}
		row := field{
			key: key, doc: f.Tag.Get("doc"), def: f.Tag.Get("default"),
			min: f.Tag.Get("min"), name: f.Tag.Get("name"), flag: f.Tag.Get("flag"), safety: f.Tag.Get("safety") == "true", typ: f.Type, at: i,
		}
		if enum := f.Tag.Get("enum"); enum != "" {
			row.enum = strings.Split(enum, ",")
		}
		rows = append(rows, row)
	}
	return rows
}

// keysOf returns the legal keys of a struct type.
func keysOf(t reflect.Type) []string {
	var keys []string
	for _, f := range fieldsOf(t) {
		keys = append(keys, f.key)
	}
	return keys
}

// kind is the form a value has in a file.
type kind int

const (
	kindText     kind = iota
	kindSecret        // a text that must not be shown
	kindBool          // true or false
	kindInt           // a whole number
	kindNumber        // a number
	kindDuration      // a Go duration, or a number of seconds
	kindBytes         // a number of bytes, or a text with a unit
	kindTexts         // a list of texts
	kindMap           // a mapping of any names to texts
	kindObject        // a mapping with keys of its own table
	kindObjects       // a list of such mappings
	kindNamed         // a mapping of any names to such mappings
)

func kindOf(f field) kind {
	switch f.typ {
	case reflect.TypeFor[Secret]():
		return kindSecret
	case reflect.TypeFor[time.Duration]():
		return kindDuration
	case reflect.TypeFor[Bytes]():
		return kindBytes
	}
	switch f.typ.Kind() {
	case reflect.Pointer:
		if f.typ.Elem().Kind() == reflect.Bool {
			return kindBool
		}
		return kindText
	case reflect.Bool:
		return kindBool
	case reflect.Float64:
		return kindNumber
	case reflect.Int:
		return kindInt
	case reflect.Map:
		return kindMap
	case reflect.Struct:
		return kindObject
	case reflect.Slice:
		switch {
		case f.name != "":
			return kindNamed
		case f.typ.Elem().Kind() == reflect.Struct:
			return kindObjects
		default:
			return kindTexts
		}
	default: // string
		return kindText
	}
}

// want says in words what a value must be.
func (k kind) want() string {
	switch k {
	case kindBool:
		return "true or false"
	case kindInt:
		return "a whole number"
	case kindNumber:
		return "a number"
	case kindDuration:
		return `a duration such as "30s", or a number of seconds`
	case kindBytes:
		return `a size such as "10MB", or a number of bytes`
	case kindTexts:
		return "a list of texts"
	case kindMap, kindObject, kindNamed:
		return "a mapping"
	case kindObjects:
		return "a list of mappings"
	default:
		return "a text"
	}
}

// objectOf returns the struct type behind an object, a list of them or a mapping
// of them.
func objectOf(f field) reflect.Type {
	t := f.typ
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// whereIs returns the path of the key with this name elsewhere in the table, so
// that a key at the wrong place can be sent to the right one; "" if there is none
// or more than one.
func whereIs(key string) string {
	var found []string
	var walk func(t reflect.Type, path string)
	walk = func(t reflect.Type, path string) {
		for _, f := range fieldsOf(t) {
			here := join(path, f.key)
			if f.key == key {
				found = append(found, here)
			}
			switch kindOf(f) {
			case kindObject:
				walk(f.typ, here)
			case kindObjects:
				walk(objectOf(f), here+"[]")
			case kindNamed:
				walk(objectOf(f), here+".NAME")
			}
		}
	}
	walk(reflect.TypeFor[Config](), "")
	// A top-level key is the plainest answer; otherwise guess only where there
	// is nothing to choose from.
	if slices.Contains(found, key) {
		return key
	}
	if len(found) == 1 {
		return found[0]
	}
	return ""
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
