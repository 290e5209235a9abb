package catalog

import (
	"bytes"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/text/token"
)

// Bounds of a signature.
const (
	maxSignatureParams = 8
	maxSignatureFields = 4 // of one argument
	maxSignatureTokens = 21
)

// signature returns the arguments of a tool and what it answers, in the form "(owner, repo, state?) → rows":
// the required ones first, in the order of the schema. A required argument that is an object, or a list of
// objects, has its fields: "(path, edits: [{old, new}])". It is "" if the schema names no argument, or if a call
// needs more of the schema: too many arguments, or objects in objects.
func (e *Entry) signature() string {
	if e.Kind != primitive.KindTool {
		return ""
	}
	properties := member(e.InputSchema, "properties")
	_, required := shape(e.InputSchema)
	var must, may []string
	seen, simple := 0, true
	members(properties, func(key, value []byte) bool {
		name := string(key)
		_, needed := slices.BinarySearch(required, name)
		plain := isPlainName(name)
		switch {
		case needed:
			seen++
			form, ok := written(value)
			simple = plain && ok
			must = append(must, name+form)
		case plain:
			may = append(may, name+"?")
		}
		return simple && len(must) <= maxSignatureParams
	})
	if !simple || seen < len(required) || len(must) > maxSignatureParams || len(must)+len(may) == 0 {
		return ""
	}
	tail := ")"
	if isRows(e.OutputSchema) {
		tail = ") → rows"
	}
	for n := min(len(may), maxSignatureParams-len(must)); n >= 0; n-- {
		names := slices.Concat(must, may[:n])
		if n < len(may) {
			names = append(names, "…")
		}
		if s := "(" + strings.Join(names, ", ") + tail; token.Count(s) <= maxSignatureTokens {
			return s
		}
	}
	return ""
}

// isPlainName reports whether the name of an argument may stand on a card: a server must not write sentences
// with it.
func isPlainName(name string) bool {
	return legalName(name) && len(name) <= 40
}

// written returns what stands after the name of a required argument: nothing after one that can be written
// without its schema, and the fields of an object or of a list of objects.
func written(schema []byte) (form string, ok bool) {
	if isScalar(schema) {
		return "", true
	}
	of, before, after := schema, ": {", "}"
	if kind, _ := stringOf(member(schema, "type")); kind == "array" {
		of, before, after = member(schema, "items"), ": [{", "}]"
	}
	if kind, _ := stringOf(member(of, "type")); kind != "object" {
		return "", false
	}
	_, required := shape(of)
	var must, may []string
	ok = true
	members(member(of, "properties"), func(key, value []byte) bool {
		name := string(key)
		_, needed := slices.BinarySearch(required, name)
		switch {
		case !isPlainName(name) || needed && !isScalar(value):
			ok = false
		case needed:
			must = append(must, name)
		default:
			may = append(may, name+"?")
		}
		return ok && len(must)+len(may) <= maxSignatureFields
	})
	fields := slices.Concat(must, may)
	if !ok || len(fields) == 0 || len(fields) > maxSignatureFields || len(must) < len(required) {
		return "", false
	}
	return before + strings.Join(fields, ", ") + after, true
}

// isScalar reports whether a value of a schema can be written without reading the schema: a text, a number, a
// truth value, or a list of them.
func isScalar(schema []byte) bool {
	switch kind, _ := stringOf(member(schema, "type")); kind {
	case "string", "number", "integer", "boolean":
		return true
	case "array":
		items, _ := stringOf(member(member(schema, "items"), "type"))
		return items == "string" || items == "number" || items == "integer"
	}
	return false
}

// isRows reports whether results with this schema are a table: a list of objects, or an object with one
// such list.
func isRows(schema []byte) bool {
	lists := 0
	isList := func(schema []byte) bool {
		kind, _ := stringOf(member(schema, "type"))
		items, _ := stringOf(member(member(schema, "items"), "type"))
		return kind == "array" && items == "object"
	}
	members(member(schema, "properties"), func(_, value []byte) bool {
		if isList(value) {
			lists++
		}
		return true
	})
	return lists == 1 || isList(schema)
}

// reads reports whether the name and the arguments of a tool say that it only reads: the answer of its server
// about it is missing.
func (e *Entry) reads() bool {
	name := strings.ToLower(e.Name)
	if rest, ok := strings.CutPrefix(name, e.Namespace); ok {
		name = strings.TrimLeft(rest, "_-.")
	}
	word := name
	if i := strings.IndexAny(name, "_-."); i >= 0 {
		word = name[:i]
	} else if i := strings.IndexFunc(e.Name, func(r rune) bool { return r >= 'A' && r <= 'Z' }); i > 0 && len(name) == len(e.Name) {
		word = name[:i]
	}
	if !slices.Contains(readingVerbs, word) {
		return false
	}
	writes := false
	members(member(e.InputSchema, "properties"), func(key, _ []byte) bool {
		key = bytes.ToLower(key)
		writes = slices.ContainsFunc(writingParams, func(p string) bool { return bytes.Contains(key, []byte(p)) })
		return !writes
	})
	return !writes
}

var (
	readingVerbs = []string{"count", "describe", "find", "get", "list", "read", "search", "show", "view"}
	// writingParams are parts of the names of arguments with which a tool can change something.
	writingParams = []string{"body", "code", "command", "content", "create", "data", "delete", "force", "mark", "method", "new", "output", "overwrite",
		"patch", "payload", "reset", "save", "script", "set", "sql", "statement", "update", "value", "write"}
)

// cardSections are headings in descriptions from which on a card has no room: the signature and the schema say
// the same.
var cardSections = []string{"args:", "arguments:", "params:", "parameters:", "returns:", "return:", "raises:", "example:", "examples:", "usage:", "input:",
	"inputs:", "output:", "outputs:", "response:"}

// withoutJunk returns a description without its sections about arguments, results and examples, without
// blocks of code, and without the marks of headings, bold words and tags.
func withoutJunk(description string) string {
	if !strings.ContainsAny(description, "\n*#<`") {
		return description
	}
	var kept []string
	code := false
	for line := range strings.Lines(description) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			code = !code
			continue
		}
		bare := strings.TrimSpace(strings.Trim(strings.TrimLeft(line, "#"), "* "))
		if len(kept) > 0 && slices.Contains(cardSections, strings.TrimSuffix(strings.ToLower(bare), ":")+":") {
			break
		}
		if strings.HasPrefix(line, "<") && strings.HasSuffix(line, ">") && !strings.Contains(line, " ") {
			continue // a tag on a line of its own
		}
		if strings.HasPrefix(line, "#") {
			line = bare
		}
		if line = strings.ReplaceAll(line, "**", ""); line != "" && !code {
			kept = append(kept, line)
		}
	}
	if len(kept) == 0 {
		return description
	}
	return strings.Join(kept, "\n")
}
