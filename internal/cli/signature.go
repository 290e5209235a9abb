package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text/lazy"
)

// A param is a parameter of a tool, as its schema describes it.
type param struct {
	name        string
	required    bool
	description string
	schema      json.RawMessage // references to $defs are followed
	part        schemaPart
}

// maxRefs bounds how many references in a row are followed.
const maxRefs = 8

// paramsOf returns the parameters of a tool, required ones first, else in the order of the schema.
func paramsOf(schema json.RawMessage) []param {
	var required []string
	_ = json.Unmarshal(rawjson.Get(schema, "required"), &required) // absent, or wrong: then none is
	var params []param
	_ = rawjson.EachMember(rawjson.Get(schema, "properties"), func(m rawjson.Member) bool { // a schema without properties has no parameters
		p := param{name: string(m.Key), schema: dereferenced(schema, m.Value)}
		p.required = slices.Contains(required, p.name)
		if p.description = rawjson.Text(rawjson.Get(m.Value, "description")); p.description == "" {
			p.description = rawjson.Text(rawjson.Get(p.schema, "description"))
		}
		if json.Unmarshal(p.schema, &p.part) != nil {
			p.part = schemaPart{}
		}
		params = append(params, p)
		return true
	})
	slices.SortStableFunc(params, func(a, b param) int {
		switch {
		case a.required == b.required:
			return 0
		case a.required:
			return -1
		}
		return 1
	})
	return params
}

// dereferenced follows a reference to the definitions of a schema.
func dereferenced(whole, part json.RawMessage) json.RawMessage {
	for range maxRefs {
		ref := rawjson.Text(rawjson.Get(part, "$ref"))
		path, ok := strings.CutPrefix(ref, "#/")
		if !ok {
			break
		}
		to := rawjson.GetPath(whole, strings.Split(path, "/")...)
		if to == nil {
			break
		}
		part = to
	}
	return part
}

// values returns the values that the parameter lists, as they are written after NAME=.
func (p *param) values() []string {
	part := p.part
	if item, ok := part.item(); ok && len(part.Enum) == 0 {
		part = item
	}
	var values []string
	add := func(raw json.RawMessage) {
		text := string(raw)
		if len(raw) > 0 && raw[0] == '"' {
			text = rawjson.Text(raw)
		}
		if text != "" && !slices.Contains(values, text) {
			values = append(values, text)
		}
	}
	for _, of := range slices.Concat([]schemaPart{part}, part.AnyOf, part.OneOf) {
		for _, value := range of.Enum {
			add(value)
		}
		if of.Const != nil {
			add(of.Const)
		}
	}
	if len(values) == 0 && slices.Contains(part.types(), "boolean") {
		values = []string{"true", "false"}
	}
	return values
}

// many reports whether the parameter may be given several times.
func (p *param) many() bool { return slices.Contains(p.part.types(), "array") }

// initial returns the default as JSON, nil if there is none.
func (p *param) initial() json.RawMessage {
	raw := rawjson.Get(p.schema, "default")
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// typeText returns the type of the parameter in short: string, "a"|"b", integer[], string|null.
func (p *param) typeText() string { return typeText(p.part) }

func typeText(part schemaPart) string {
	if len(part.Enum) > 0 {
		values := make([]string, len(part.Enum))
		for i, v := range part.Enum {
			values[i] = string(v)
		}
		return strings.Join(values, "|")
	}
	if part.Const != nil {
		return string(part.Const)
	}
	if alternatives := slices.Concat(part.AnyOf, part.OneOf); len(part.Type) == 0 && len(alternatives) > 0 {
		var texts []string
		for _, of := range alternatives {
			if text := typeText(of); !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
		return strings.Join(texts, "|")
	}
	var texts []string
	for _, t := range part.Type {
		if t == "array" {
			t = "any[]"
			if part.Items != nil {
				if t = typeText(*part.Items) + "[]"; strings.Contains(t, "|") {
					t = "(" + strings.TrimSuffix(t, "[]") + ")[]"
				}
			}
		}
		texts = append(texts, t)
	}
	if len(texts) == 0 {
		return "any"
	}
	return strings.Join(texts, "|")
}

// signature returns a tool as one line: name(path: string, head?: integer = 10).
func signature(name string, params []param) string {
	texts := make([]string, len(params))
	for i, p := range params {
		texts[i] = p.name
		if !p.required {
			texts[i] += "?"
		}
		texts[i] += ": " + typeText(shortened(p.part))
		if value := p.initial(); value != nil {
			texts[i] += " = " + compact(value)
		}
	}
	return oneLine(name + "(" + strings.Join(texts, ", ") + ")")
}

// maxListed bounds the values of one parameter in a signature.
const maxListed = 6

// shortened returns a schema with no more values than a signature shows.
func shortened(part schemaPart) schemaPart {
	if len(part.Enum) > maxListed {
		part.Enum = append(slices.Clone(part.Enum[:maxListed-1]), json.RawMessage("…"))
	}
	if part.Items != nil {
		item := shortened(*part.Items)
		part.Items = &item
	}
	for _, list := range []*[]schemaPart{&part.AnyOf, &part.OneOf} {
		*list = slices.Clone(*list)
		for i := range *list {
			(*list)[i] = shortened((*list)[i])
		}
	}
	return part
}

func compact(raw json.RawMessage) string {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return string(raw)
	}
	return out.String()
}

// exampleCall returns a command that calls a tool, with its required parameters.
func exampleCall(id string, params []param) string {
	words := []string{"weir", "call", shellQuote(id)}
	for _, p := range params {
		if !p.required {
			continue
		}
		value := p.example()
		word := p.name + ":=" + compact(value)
		switch {
		case len(value) > 0 && value[0] == '"' && !looksLikeOther(rawjson.Text(value), p.part.types()):
			word = p.name + "=" + rawjson.Text(value)
		case isNumber(string(value)) || string(value) == "true" || string(value) == "false":
			word = p.name + "=" + string(value)
		}
		words = append(words, "--arg", shellQuote(word))
	}
	return strings.Join(words, " ")
}

// plainWord are the words that no shell changes.
var plainWord = lazy.Pattern(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellQuote quotes a word for a POSIX shell where it needs that.
func shellQuote(word string) string {
	if plainWord().MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// maxExample bounds an example that a schema gives, in bytes.
const maxExample = 200

// example returns a value for an example: of the schema's own examples, its default, its listed
// values, or one of its type.
func (p *param) example() json.RawMessage {
	var given []json.RawMessage
	_ = json.Unmarshal(rawjson.Get(p.schema, "examples"), &given) // absent: none
	given = append(given, rawjson.Get(p.schema, "example"), p.initial())
	given = append(given, p.part.Enum...)
	given = append(given, p.part.Const)
	for _, value := range given {
		if len(value) > 0 && len(value) <= maxExample && string(value) != "null" {
			return value
		}
	}
	if told := toldExample().FindStringSubmatch(p.description); told != nil && slices.Equal(p.part.types(), []string{"string"}) {
		return quote(told[1])
	}
	return exampleOf(p.name, p.schema, p.part, 0)
}

// maxExampleDepth bounds how deep an example is made.
const maxExampleDepth = 3

// exampleOf makes a value of a schema's type.
func exampleOf(name string, raw json.RawMessage, part schemaPart, depth int) json.RawMessage {
	if len(part.Enum) > 0 {
		return part.Enum[0]
	}
	for _, t := range part.types() {
		switch t {
		case "string":
			return quote(exampleText(name, rawjson.Text(rawjson.Get(raw, "format"))))
		case "integer", "number":
			for _, key := range []string{"minimum", "maximum"} {
				if bound := rawjson.Get(raw, key); bound != nil && string(bound) != "0" {
					return bound
				}
			}
			return json.RawMessage("1")
		case "boolean":
			return json.RawMessage("true")
		case "array":
			item, ok := part.item()
			if !ok || depth == maxExampleDepth {
				return json.RawMessage("[]")
			}
			value := exampleOf(strings.TrimSuffix(name, "s"), rawjson.Get(raw, "items"), item, depth+1)
			return slices.Concat([]byte("["), value, []byte("]"))
		case "object":
			return exampleObject(raw, depth)
		}
	}
	return quote(exampleText(name, ""))
}

// exampleObject makes an object of the required properties of a schema.
func exampleObject(raw json.RawMessage, depth int) json.RawMessage {
	out := []byte("{")
	if depth < maxExampleDepth {
		for _, p := range paramsOf(raw) {
			if !p.required {
				continue
			}
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(append(out, quote(p.name)...), ':')
			out = append(out, exampleOf(p.name, p.schema, p.part, depth+1)...)
		}
	}
	return append(out, '}')
}

// exampleText is a text for a string of a name and a format.
func exampleText(name, format string) string {
	switch format {
	case "date":
		return "2026-01-31"
	case "date-time":
		return "2026-01-31T12:00:00Z"
	case "email":
		return "ann@example.com"
	case "uri", "url":
		return "https://example.com"
	}
	words := nameWords().FindAllString(name, -1)
	for _, hint := range []struct{ word, text string }{
		{"url", "https://example.com"}, {"uri", "https://example.com"}, {"email", "ann@example.com"}, {"date", "2026-01-31"},
		{"path", "README.md"}, {"file", "README.md"}, {"filename", "README.md"}, {"dir", "."}, {"directory", "."}, {"folder", "."},
	} {
		if slices.ContainsFunc(words, func(word string) bool { return strings.EqualFold(word, hint.word) }) {
			return hint.text
		}
	}
	return "TEXT"
}

// nameWords are the words of a parameter's name: file_path, filePath.
var nameWords = lazy.Pattern(`[A-Z]?[a-z]+|[A-Z]+`)

// toldExample is an example in a description: article number, such as BIK-001.
var toldExample = lazy.Pattern(`(?i)(?:such as|e\.g\.,?|for example:?)\s+["'` + "`" + `]?([\w@+-](?:[\w./:@+-]*[\w/])?)`)
