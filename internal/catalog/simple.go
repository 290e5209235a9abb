package catalog

import (
	"bytes"
	"reflect"
	"strconv"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// A simpleSchema is a schema with the keywords that most tools have and no others: types, properties,
// required properties, items, bounds of integers, and enums of texts. It finds most valid arguments
// without decoding them. All other arguments go to the validator, which also says how they are wrong.
type simpleSchema struct {
	kinds    simpleKinds
	enum     []string
	min, max int64 // of integers; both inclusive

	members  map[string]simpleMember // of objects
	required uint64                  // bits of members
	items    *simpleSchema           // of arrays; nil: simpleScalar
}

// simpleMember is a property of an object.
type simpleMember struct {
	schema *simpleSchema
	bit    uint64
}

// maxSimple bounds the properties of an object, which have a bit each.
const maxSimple = 64

// simpleKinds is a set of types.
type simpleKinds uint8

const (
	simpleNull simpleKinds = 1 << iota
	simpleBoolean
	simpleNumber
	simpleInteger
	simpleString
	simpleArray
	simpleObject
	simpleScalars = simpleNull | simpleBoolean | simpleNumber | simpleInteger | simpleString
)

var simpleKindOf = map[string]simpleKinds{
	"null": simpleNull, "boolean": simpleBoolean, "number": simpleNumber, "integer": simpleInteger,
	"string": simpleString, "array": simpleArray, "object": simpleObject,
}

// simpleFields are the keywords of a simpleSchema, and those that say nothing about values.
var simpleFields = map[string]bool{
	"DraftVersion": true, "Location": true, "ID": true, "Anchor": true, "DynamicAnchor": true,
	"Title": true, "Description": true, "Default": true, "Comment": true, "ReadOnly": true, "WriteOnly": true, "Examples": true,
	"Bool": true, "Types": true, "Enum": true, "Minimum": true, "Maximum": true, "Properties": true, "Required": true, "AdditionalProperties": true, "Items2020": true,
}

// otherFields are the indexes of all other fields, also of those that a later version of the validator
// adds.
var otherFields = sync.OnceValue(func() (indexes []int) {
	all := reflect.TypeFor[jsonschema.Schema]()
	for i := range all.NumField() {
		if f := all.Field(i); f.IsExported() && !simpleFields[f.Name] {
			indexes = append(indexes, i)
		}
	}
	return indexes
})

// simpleScalar admits scalars.
var simpleScalar = simpleSchema{kinds: simpleScalars, min: -maxSimpleInteger, max: maxSimpleInteger}

// simpleOf returns the simpleSchema of a compiled schema, nil if it has other keywords.
func simpleOf(s *jsonschema.Schema) *simpleSchema {
	fields := reflect.ValueOf(s).Elem()
	for _, i := range otherFields() {
		if !fields.Field(i).IsZero() {
			return nil
		}
	}
	if s.Bool != nil && !*s.Bool {
		return nil
	}
	out := new(simpleSchema)
	*out = simpleScalar
	switch {
	case s.Types == nil && len(s.Properties) > 0:
		out.kinds |= simpleObject
	case s.Types == nil && s.Items2020 != nil:
		out.kinds |= simpleArray
	case s.Types != nil:
		out.kinds = 0
		for _, name := range s.Types.ToStrings() {
			out.kinds |= simpleKindOf[name]
		}
	}
	if s.Enum != nil {
		out.kinds &= simpleString
		for _, v := range s.Enum.Values {
			if text, ok := v.(string); ok {
				out.enum = append(out.enum, text)
			}
		}
		if len(out.enum) == 0 {
			out.kinds = 0
		}
	}
	if s.Minimum != nil || s.Maximum != nil {
		out.kinds &^= simpleNumber
	}
	if m := s.Minimum; m != nil {
		if !m.IsInt() || !m.Num().IsInt64() {
			return nil
		}
		out.min = max(out.min, m.Num().Int64())
	}
	if m := s.Maximum; m != nil {
		if !m.IsInt() || !m.Num().IsInt64() {
			return nil
		}
		out.max = min(out.max, m.Num().Int64())
	}
	if s.Items2020 != nil {
		if out.items = simpleOf(s.Items2020); out.items == nil {
			return nil
		}
	}
	return out.withMembers(s)
}

// withMembers adds the properties of a compiled schema, and returns nil if they are not simple.
func (s *simpleSchema) withMembers(of *jsonschema.Schema) *simpleSchema {
	if len(of.Properties) > maxSimple {
		return nil
	}
	if len(of.Properties) > 0 {
		s.members = make(map[string]simpleMember, len(of.Properties))
	}
	for name, sub := range of.Properties {
		member := simpleMember{simpleOf(sub), 1 << len(s.members)}
		if member.schema == nil {
			return nil
		}
		s.members[name] = member
	}
	for _, name := range of.Required {
		member, ok := s.members[name]
		if !ok {
			return nil
		}
		s.required |= member.bit
	}
	return s
}

const (
	maxSimpleInteger = 1e15 // of the integers that a simpleSchema reads
	maxSimpleDigits  = 16   // with the sign
)

// admits reports whether a value is certainly valid. raw has no white space before it. A scalar must be
// valid JSON already: admits checks only the syntax of objects and arrays, with all their members.
func (s *simpleSchema) admits(raw []byte) bool {
	if len(raw) == 0 {
		return false
	}
	switch raw[0] {
	case '"':
		return s.kinds&simpleString != 0 && s.admitsText(raw)
	case '{':
		return s.kinds&simpleObject != 0 && s.admitsObject(raw)
	case '[':
		return s.kinds&simpleArray != 0 && s.admitsArray(raw)
	case 't', 'f':
		return s.kinds&simpleBoolean != 0
	case 'n':
		return s.kinds&simpleNull != 0
	}
	return s.kinds&(simpleInteger|simpleNumber) != 0 && s.admitsInteger(raw)
}

func (s *simpleSchema) admitsText(raw []byte) bool {
	if s.enum == nil {
		return true
	}
	text := raw[1 : len(raw)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		return false
	}
	for _, one := range s.enum {
		if string(text) == one {
			return true
		}
	}
	return false
}

func (s *simpleSchema) admitsInteger(raw []byte) bool {
	if len(raw) > maxSimpleDigits {
		return false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64) // an error for a fraction or an exponent
	return err == nil && n >= s.min && n <= s.max
}

func (s *simpleSchema) admitsArray(raw []byte) bool {
	items := s.items
	if items == nil {
		items = &simpleScalar
	}
	ok := true
	err := rawjson.EachElement(raw, func(v []byte) bool {
		ok = items.admits(v)
		return ok
	})
	return ok && err == nil
}

// admitsObject also refuses an unknown or repeated property.
func (s *simpleSchema) admitsObject(raw []byte) bool {
	var seen uint64
	ok := true
	err := rawjson.EachMember(raw, func(m rawjson.Member) bool {
		var member simpleMember
		member, ok = s.members[string(m.Key)]
		if ok = ok && seen&member.bit == 0 && member.schema.admits(m.Value); ok {
			seen |= member.bit
		}
		return ok
	})
	return ok && err == nil && seen&s.required == s.required
}
