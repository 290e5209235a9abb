package table

import (
	"fmt"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Bounds of FindArrays.
const (
	maxInsideDepth  = 8
	maxInsideArrays = 16
)

// Array is an array that stands within a JSON object.
type Array struct {
	Path    string // JSONPath
	Value   []byte // a slice of the object
	Objects bool   // it has an element, and the first one is an object
}

// FindArrays returns the arrays within a JSON object that stand in no other array, at most 16 and at
// most eight members deep. object must be valid.
func FindArrays(object []byte) []Array { return findArrays(nil, object, "$", maxInsideDepth) }

func findArrays(found []Array, object []byte, path string, depth int) []Array {
	// object is valid: there is no error to see here.
	_ = rawjson.EachMember(object, func(m rawjson.Member) bool {
		switch m.Value[0] {
		case '[':
			i := rawjson.SkipSpace(m.Value, 1)
			found = append(found, Array{path + rawjson.PathStep(string(m.Key)), m.Value, m.Value[i] == '{'})
		case '{':
			if depth > 1 {
				found = findArrays(found, m.Value, path+rawjson.PathStep(string(m.Key)), depth-1)
			}
		}
		return len(found) < maxInsideArrays
	})
	return found
}

// inside reads the one array of objects within an object.
func inside(object []byte, opts Options) (*Table, error) {
	var all []Array
	for _, a := range FindArrays(object) {
		if a.Objects {
			all = append(all, a)
		}
	}
	switch len(all) {
	case 0:
		return nil, fmt.Errorf("%w: one object, and no array of objects in it", ErrNotTable)
	case 1:
		return indexAt(all[0].Value, all[0].Path, opts)
	}
	return nil, fmt.Errorf("%w: one object with several arrays of objects: %s", ErrNotTable, arrayNames(all))
}

// arrayNames lists the paths of some arrays.
func arrayNames(all []Array) string {
	const told = 5
	var names []string
	for _, a := range all[:min(len(all), told)] {
		names = append(names, a.Path)
	}
	if len(all) > told {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}
