package gateway

import (
	"net/url"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/rawjson"
)

// maxSchemaSteps bounds how many $ref, anyOf, oneOf and allOf are gone through to
// the schema of one place: schemas are an upstream's, and may lead in circles.
const maxSchemaSteps = 64

// schemas looks up what a tool's schema says of the places in its arguments.
type schemas struct{ root []byte }

// each calls f with every schema that holds for a place: that which stands there,
// what it refers to, and the members of its anyOf, oneOf and allOf. f returns
// whether to go on.
func (s schemas) each(schema []byte, f func([]byte) bool) {
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

// refer follows a JSON pointer into the tool's own schema; nil is nowhere.
func (s schemas) refer(ref string) []byte {
	pointer, own := strings.CutPrefix(ref, "#")
	if pointer, err := url.PathUnescape(pointer); own && err == nil {
		if pointer == "" {
			return s.root
		}
		if path, ok := strings.CutPrefix(pointer, "/"); ok {
			keys := strings.Split(path, "/")
			for i, key := range keys {
				keys[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
			}
			return rawjson.GetPath(s.root, keys...)
		}
	}
	return nil
}

// at is the schema that stands below one of a place's, nil where none says anything.
func (s schemas) at(schema []byte, path ...string) (found []byte) {
	s.each(schema, func(one []byte) bool {
		found = rawjson.GetPath(one, path...)
		return found == nil
	})
	return found
}

// wantsText reports whether a place takes a string and no array.
func (s schemas) wantsText(schema []byte) bool {
	var types []string
	s.each(schema, func(one []byte) bool {
		types = append(types, typesOf(one)...)
		return true
	})
	return slices.Contains(types, "string") && !slices.Contains(types, "array")
}
