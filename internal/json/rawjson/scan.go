package rawjson

import (
	"fmt"
	"strings"
)

// A Field is a member that [Scan] looks for, and where its value goes.
type Field struct {
	key   string
	value *[]byte
}

// Key returns the Field that puts the value of the member key into value.
func Key(key string, value *[]byte) Field { return Field{key: key, value: value} }

// Scan finds members of obj in one pass: each value becomes a slice of obj, nil
// where the member is absent. A member that stands twice is [ErrDuplicate]. A nil
// or empty obj has no members. Scan allocates nothing.
//
//	var p struct{ name, arguments []byte }
//	err := rawjson.Scan(params, rawjson.Key("name", &p.name), rawjson.Key("arguments", &p.arguments))
func Scan(obj []byte, fields ...Field) error {
	for _, f := range fields {
		*f.value = nil
	}
	if len(obj) == 0 {
		return nil
	}
	twice := -1
	err := EachMember(obj, func(m Member) bool {
		for n, f := range fields {
			if string(m.Key) != f.key {
				continue
			}
			if *f.value != nil {
				twice = n
				return false
			}
			*f.value = m.Value
			break
		}
		return true
	})
	if twice >= 0 {
		// The copy keeps the compiler from taking all that fields point to for escaping.
		return fmt.Errorf("%w %q", ErrDuplicate, strings.Clone(fields[twice].key))
	}
	return err
}
