package strict

import (
	"reflect"
	"strings"
	"time"
)

// A Field is one row of the table of keys, read from the tags of a struct.
type Field struct {
	Key     string
	Doc     string
	Default string   // as a file would have it; "" for the zero value
	Enum    []string // legal values; nil for any
	Min     string   // the smallest legal value as a file would have it; "" for none
	Max     string   // the largest; "" for none
	Name    string   // the Go field that takes the mapping's key, for mappings of objects
	Entries bool     // what is wrong within one entry of the mapping is kept apart
	Flag    string   // the key of an object that a bare true or false stands for; "" for none
	Text    string   // the key of an object that a bare text stands for; "" for none
	Empty   Empty    // what an empty list means
	// Safety is set for a key that keeps strangers or calls away.
	Safety bool
	Type   reflect.Type
	Index  []int // for reflect.Value.FieldByIndex
}

// Empty says what an empty list in a file means, by the tag empty. The zero value decides nothing: the
// list is the same as a key that is left out.
type Empty string

// The meanings.
const (
	EmptySame    Empty = "same"    // it is the same as a key that is left out, and both let nothing in
	EmptyNone    Empty = "none"    // none at all, where a key that is left out means all; a key without a value is refused
	EmptyRefused Empty = "refused" // a problem: it would be the same as a key that is left out, which means all
)

// Fields returns the rows for a struct type, in the order of its fields. Those of embedded structs are among them.
func Fields(t reflect.Type) []Field {
	var rows []Field
	for _, f := range reflect.VisibleFields(t) {
		key, ok := f.Tag.Lookup("key")
		if !ok {
			continue
		}
		row := Field{
			Key: key, Doc: f.Tag.Get("doc"), Default: f.Tag.Get("default"), Min: f.Tag.Get("min"), Max: f.Tag.Get("max"), Name: f.Tag.Get("name"),
			Entries: f.Tag.Get("entries") == "true", Flag: f.Tag.Get("flag"), Text: f.Tag.Get("text"), Empty: Empty(f.Tag.Get("empty")), Safety: f.Tag.Get("safety") == "true", Type: f.Type, Index: f.Index,
		}
		if enum := f.Tag.Get("enum"); enum != "" {
			row.Enum = strings.Split(enum, ",")
		}
		rows = append(rows, row)
	}
	return rows
}

// Keys returns the legal keys of a struct type.
func Keys(t reflect.Type) []string {
	var keys []string
	for _, f := range Fields(t) {
		keys = append(keys, f.Key)
	}
	return keys
}

// Kind is the form that a value has in a file.
type Kind int

// The kinds of values.
const (
	KindText     Kind = iota
	KindSecret        // a text that must not be shown
	KindBool          // true or false
	KindInt           // a whole number
	KindNumber        // a number
	KindDuration      // a Go duration, or a number of seconds
	KindBytes         // a number of bytes, or a text with a unit
	KindTexts         // a list of texts
	KindMap           // a mapping of any names to texts
	KindObject        // a mapping with keys of its own table
	KindObjects       // a list of such mappings
	KindNamed         // a mapping of any names to such mappings
	KindNode          // a value that is kept as it stands in the file
	KindOwn           // a value that reads itself
	kindSecrets       // KindTexts of secrets
)

// A Value reads itself from a node of the file and reports what is wrong with it by [Decoder.Fail] or [Decoder.Wrong].
type Value interface {
	DecodeStrict(d *Decoder, n *Node, path string)
}

// Kind returns the form that the field has in a file.
func (f Field) Kind() Kind {
	switch f.Type {
	case reflect.TypeFor[Secret]():
		return KindSecret
	case reflect.TypeFor[time.Duration]():
		return KindDuration
	case reflect.TypeFor[Bytes]():
		return KindBytes
	case reflect.TypeFor[*Node]():
		return KindNode
	}
	if reflect.PointerTo(f.Type).Implements(reflect.TypeFor[Value]()) {
		return KindOwn
	}
	switch f.Type.Kind() {
	case reflect.Pointer:
		if f.Type.Elem().Kind() == reflect.Bool {
			return KindBool
		}
		return KindText
	case reflect.Bool:
		return KindBool
	case reflect.Float64:
		return KindNumber
	case reflect.Int:
		return KindInt
	case reflect.Map:
		return KindMap
	case reflect.Struct:
		return KindObject
	case reflect.Slice:
		switch {
		case f.Name != "":
			return KindNamed
		case f.Type.Elem().Kind() == reflect.Struct:
			return KindObjects
		default:
			return KindTexts
		}
	default: // string
		return KindText
	}
}

// String says in words what a value of the kind must be.
func (k Kind) String() string {
	switch k {
	case KindBool:
		return "true or false"
	case KindInt:
		return "a whole number"
	case KindNumber:
		return "a number"
	case KindDuration:
		return `a duration such as "30s", or a number of seconds`
	case KindBytes:
		return `a size such as "10MB", or a number of bytes`
	case KindTexts, kindSecrets:
		return "a list of texts"
	case KindMap, KindObject, KindNamed:
		return "a mapping"
	case KindObjects:
		return "a list of mappings"
	default:
		return "a text"
	}
}

// Object returns the struct type behind an object, a list of objects or a mapping of them.
func (f Field) Object() reflect.Type {
	t := f.Type
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// SetDefaults sets the fields of the struct behind v, a pointer, to the defaults of its tags.
func SetDefaults(v any) { setDefaults(reflect.ValueOf(v).Elem()) }

func setDefaults(v reflect.Value) {
	for _, f := range Fields(v.Type()) {
		switch k := f.Kind(); {
		case k == KindObject:
			setDefaults(v.FieldByIndex(f.Index))
		case f.Default != "":
			assign(v.FieldByIndex(f.Index), k, f.Default, "")
		}
	}
}

// Reads reports whether a text, such as a default, is a value of the field.
func (f Field) Reads(text string) bool {
	return assign(reflect.New(f.Type).Elem(), f.Kind(), text, "") == assigned
}

// Join returns the path of a key within the object at path.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
