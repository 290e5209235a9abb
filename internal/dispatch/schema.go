package dispatch

import (
	"net/url"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// maxSchemaSteps bounds how many $ref, anyOf, oneOf and allOf are followed to the schema of one
// place: an upstream's schema may contain cycles.
const maxSchemaSteps = 64

// Schemas finds the parts of a tool's schema that apply to places in its arguments.
type Schemas struct{ Root []byte }

// each calls f with every schema that applies to a place: the schema itself, its references, and
// the members of its anyOf, oneOf and allOf. f returns whether to continue.
func (s Schemas) each(schema []byte, f func([]byte) bool) {
	steps := 0
	var visit func([]byte) bool
	visit = func(schema []byte) bool {
		if steps++; steps > maxSchemaSteps || !rawjson.IsObject(schema) {
			return true
		}
		if !f(schema) {
			return false
		}
		if ref := rawjson.Text(rawjson.Get(schema, "$ref")); ref != "" && !visit(s.refer(ref)) {
			return false
		}
		for _, word := range []string{"anyOf", "oneOf", "allOf"} {
			list := rawjson.Get(schema, word)
			if !rawjson.IsArray(list) {
				continue
			}
			on := true
			if rawjson.EachElement(list, func(member []byte) bool { on = visit(member); return on }) != nil || !on {
				return on
			}
		}
		return true
	}
	visit(schema)
}

// refer resolves a JSON pointer in the tool's own schema, or returns nil.
func (s Schemas) refer(ref string) []byte {
	pointer, own := strings.CutPrefix(ref, "#")
	if pointer, err := url.PathUnescape(pointer); own && err == nil {
		if pointer == "" {
			return s.Root
		}
		if path, ok := strings.CutPrefix(pointer, "/"); ok {
			keys := strings.Split(path, "/")
			for i, key := range keys {
				keys[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
			}
			return rawjson.GetPath(s.Root, keys...)
		}
	}
	return nil
}

// At returns the schema at a path below a place's schema, or nil.
func (s Schemas) At(schema []byte, path ...string) (found []byte) {
	s.each(schema, func(one []byte) bool {
		found = rawjson.GetPath(one, path...)
		return found == nil
	})
	return found
}

// Find calls f with the schema of a place, with those that it refers to, and with their alternatives, until f
// returns true.
func (s Schemas) Find(schema []byte, f func(one []byte) bool) (found bool) {
	s.each(schema, func(one []byte) bool {
		found = f(one)
		return !found
	})
	return found
}

// Takes reports whether a place accepts a value of a JSON type, such as "array".
func (s Schemas) Takes(schema []byte, name string) bool { return s.types(schema)&schemaType(name) != 0 }

// typeSet is a set of the types that a value may have.
type typeSet uint8

const (
	schemaString typeSet = 1 << iota
	schemaInteger
	schemaNumber // includes integers
	schemaBoolean
	schemaNull
	schemaObject
	schemaArray

	schemaAny = 1<<iota - 1
)

// schemaType returns the type of a name in a schema. An unknown name allows any type.
func schemaType(name string) typeSet {
	switch name {
	case "string":
		return schemaString
	case "integer":
		return schemaInteger
	case "number":
		return schemaNumber
	case "boolean":
		return schemaBoolean
	case "null":
		return schemaNull
	case "object":
		return schemaObject
	case "array":
		return schemaArray
	}
	return schemaAny
}

// and returns the intersection of both sets.
func (t typeSet) and(u typeSet) typeSet {
	both := t & u
	if t&schemaNumber != 0 && u&schemaInteger != 0 || u&schemaNumber != 0 && t&schemaInteger != 0 {
		both |= schemaInteger
	}
	return both
}

// types returns the types that a place may have, as far as type, $ref, anyOf, oneOf and allOf say
// so. What they do not say within maxSchemaSteps steps may be anything.
func (s Schemas) types(schema []byte) typeSet {
	var f composed
	if !f.read(schema) {
		return schemaAny
	}
	if f.simple() { // the usual case
		return f.declared()
	}
	steps := 0
	var visit func([]byte) typeSet
	visit = func(schema []byte) typeSet {
		var f composed
		if steps++; steps > maxSchemaSteps || !f.read(schema) {
			return schemaAny
		}
		types := f.declared()
		if ref := rawjson.Text(f[1]); ref != "" {
			types = types.and(visit(s.refer(ref)))
		}
		for _, one := range f[2:4] {
			if rawjson.IsArray(one) {
				types = types.and(eachType(one, visit))
			}
		}
		if rawjson.IsArray(f[4]) {
			// An error means that the list is malformed; the types so far count.
			_ = rawjson.EachElement(f[4], func(all []byte) bool {
				types = types.and(visit(all))
				return true
			})
		}
		return types
	}
	return visit(schema)
}

// composed holds the members of a schema that determine a value's type: type, $ref, anyOf, oneOf,
// allOf.
type composed [5][]byte

// read returns false if the schema is not an object, or a boolean.
func (c *composed) read(schema []byte) bool {
	return rawjson.IsObject(schema) && rawjson.Fields(schema, []string{"type", "$ref", "anyOf", "oneOf", "allOf"}, c[:]) == nil
}

// simple reports whether type is the only member.
func (c *composed) simple() bool { return c[1] == nil && c[2] == nil && c[3] == nil && c[4] == nil }

// declared returns the types in type.
func (c *composed) declared() typeSet {
	switch {
	case c[0] == nil:
		return schemaAny
	case rawjson.IsArray(c[0]):
		return eachType(c[0], func(name []byte) typeSet { return schemaType(rawjson.Text(name)) })
	}
	return schemaType(rawjson.Text(c[0]))
}

// eachType returns the union of f over the elements of a list.
func eachType(list []byte, f func([]byte) typeSet) (types typeSet) {
	if rawjson.EachElement(list, func(v []byte) bool {
		types |= f(v)
		return true
	}) != nil {
		return schemaAny
	}
	return types
}
