package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// toolArgs are the arguments of one call as given in a shell. --arg has no types, so its values are
// interpreted twice:
//
//	--arg n=5 ─▶ guess: 5 ─▶ call ─▶ fits ─▶ done
//	                           │
//	                           └─ ARGS_INVALID with the schema (nothing was run) ─▶ read again by the schema: "5" ─▶ call
//
// The gateway checks arguments before it runs a tool, so a first attempt with wrong types has no
// effect.
type toolArgs struct {
	whole json.RawMessage // all arguments as one JSON object; nil if they were given one by one
	each  []oneArg
}

// oneArg is --arg name=text, or --arg name:=json.
type oneArg struct {
	name, text string
	exact      bool // text is JSON: do not interpret it
}

// parseToolArgs reads --arg flags and the JSON of --json.
func parseToolArgs(flags []string, whole string, stdin io.Reader) (toolArgs, error) {
	var args toolArgs
	switch {
	case whole != "" && len(flags) > 0:
		return args, failf(exitUsage, "give arguments with --arg or as JSON, not both")
	case whole != "":
		data, err := readJSONArg(whole, stdin)
		if err != nil {
			return args, err
		}
		args.whole = data
		return args, nil
	}
	for _, flag := range flags {
		name, text, ok := strings.Cut(flag, "=")
		one := oneArg{name: name, text: text}
		if one.name, one.exact = strings.CutSuffix(name, ":"); one.exact && !json.Valid([]byte(text)) {
			return args, failf(exitUsage, "--arg %s: what follows := must be JSON; for a text write %s=%s", flag, one.name, text)
		}
		if !ok || one.name == "" {
			return args, failf(exitUsage, "--arg %q must be NAME=VALUE, or NAME:=JSON", flag)
		}
		args.each = append(args.each, one)
	}
	return args, nil
}

// readJSONArg reads an object from the argument itself, from the file in @FILE, or from standard
// input for "-".
func readJSONArg(text string, stdin io.Reader) (json.RawMessage, error) {
	data, from := []byte(text), "the arguments"
	var err error
	if text == "-" {
		from = "standard input"
		data, err = io.ReadAll(io.LimitReader(stdin, maxArgs+1))
	} else if name, ok := strings.CutPrefix(text, "@"); ok {
		from = name
		data, err = readBounded(name)
	}
	if err != nil {
		return nil, failf(exitUsage, "reading arguments: %w", err)
	}
	if len(data) > maxArgs {
		return nil, failf(exitUsage, "%s: arguments of more than %d bytes", from, maxArgs)
	}
	data = bytes.TrimSpace(data)
	if !json.Valid(data) || data[0] != '{' {
		return nil, failf(exitUsage, `%s must be a JSON object such as {"path":"README.md"}, @FILE, or - for standard input`, from)
	}
	return data, nil
}

// maxArgs bounds the size of arguments: a gateway accepts requests up to 10 MB.
const maxArgs = 10 << 20

func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxArgs+1))
}

// json returns the arguments as an object. Without a schema, a value that looks like a number, a
// boolean or null becomes one. With a schema, each value gets the type that the schema asks for, if
// possible.
func (a toolArgs) json(schema json.RawMessage) (json.RawMessage, error) {
	if a.whole != nil {
		return a.whole, nil
	}
	var top schemaPart
	if schema != nil {
		if err := json.Unmarshal(schema, &top); err != nil {
			return nil, fmt.Errorf("the schema of the tool: %w", err)
		}
	}
	out := []byte{'{'}
	done := map[string]bool{}
	for _, one := range a.each {
		if done[one.name] {
			continue
		}
		done[one.name] = true
		var values []oneArg
		for _, other := range a.each {
			if other.name == one.name {
				values = append(values, other)
			}
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		name, err := json.Marshal(one.name)
		if err != nil {
			return nil, fmt.Errorf("the name of argument %q: %w", one.name, err)
		}
		out = append(append(out, name...), ':')
		part, known := top.Properties[one.name]
		out = append(out, valueOf(values, part, known && schema != nil)...)
	}
	return append(out, '}'), nil
}

// schemaPart is the part of a JSON Schema that determines the types of values.
type schemaPart struct {
	Type       schemaTypes           `json:"type"`
	Items      *schemaPart           `json:"items"`
	Properties map[string]schemaPart `json:"properties"`
	AnyOf      []schemaPart          `json:"anyOf"`
	OneOf      []schemaPart          `json:"oneOf"`
	Enum       []json.RawMessage     `json:"enum"`
	Const      json.RawMessage       `json:"const"`
}

// schemaTypes is the value of "type": one type, or a list.
type schemaTypes []string

// UnmarshalJSON accepts both forms and ignores anything else.
func (t *schemaTypes) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = schemaTypes{one}
		return nil
	}
	var many []string
	if json.Unmarshal(data, &many) == nil {
		*t = many
	}
	return nil
}

// UnmarshalJSON also accepts the schemas true and false; they restrict no type.
func (p *schemaPart) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '{' {
		*p = schemaPart{}
		return nil
	}
	type plain schemaPart
	// Ignore members of an unexpected shape: the gateway checks the arguments, this code only reads
	// them.
	var out plain
	if err := json.Unmarshal(data, &out); err != nil {
		*p = schemaPart{}
		return nil
	}
	*p = schemaPart(out)
	return nil
}

// types returns the types that a schema allows, alternatives included.
func (p schemaPart) types() []string {
	types := slices.Clone(p.Type)
	for _, alternatives := range [][]schemaPart{p.AnyOf, p.OneOf} {
		for _, other := range alternatives {
			types = append(types, other.types()...)
		}
	}
	values := p.Enum
	if p.Const != nil {
		values = append(slices.Clone(values), p.Const)
	}
	if len(types) == 0 && len(values) > 0 && !slices.ContainsFunc(values, func(v json.RawMessage) bool { return len(v) == 0 || v[0] != '"' }) {
		types = append(types, "string")
	}
	return types
}

// item returns the schema of an array's elements.
func (p schemaPart) item() (schemaPart, bool) {
	if p.Items != nil {
		return *p.Items, true
	}
	for _, alternatives := range [][]schemaPart{p.AnyOf, p.OneOf} {
		for _, other := range alternatives {
			if item, ok := other.item(); ok {
				return item, true
			}
		}
	}
	return schemaPart{}, false
}

// valueOf returns the JSON of all values given for one name.
func valueOf(values []oneArg, part schemaPart, typed bool) []byte {
	types := part.types()
	list := len(values) > 1
	if typed && slices.Contains(types, "array") && !list {
		one := values[0]
		if one.exact || (strings.HasPrefix(strings.TrimSpace(one.text), "[") && json.Valid([]byte(one.text))) {
			return []byte(one.text)
		}
		list = !allows(types, one.text)
	}
	if !list {
		return scalar(values[0], types, typed)
	}
	item, itemTyped := part.item()
	out := []byte{'['}
	for i, one := range values {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, scalar(one, item.types(), typed && itemTyped)...)
	}
	return append(out, ']')
}

// allows reports whether a text is a valid value of one of the types, arrays excepted.
func allows(types []string, text string) bool {
	for _, t := range types {
		switch t {
		case "string":
			return true
		case "number", "integer":
			if isNumber(text) {
				return true
			}
		case "boolean":
			if text == "true" || text == "false" {
				return true
			}
		}
	}
	return false
}

// scalar returns the JSON of one text. A text that does not fit the schema is sent as its best
// guess, so that the gateway reports the mistake.
func scalar(one oneArg, types []string, typed bool) []byte {
	text := one.text
	if one.exact {
		return []byte(text)
	}
	if typed && len(types) > 0 {
		if slices.Contains(types, "string") && !looksLikeOther(text, types) {
			return quote(text)
		}
		if b, err := strconv.ParseBool(strings.ToLower(text)); err == nil && slices.Contains(types, "boolean") && !isNumber(text) {
			return strconv.AppendBool(nil, b)
		}
		if (slices.Contains(types, "object") || slices.Contains(types, "array")) && json.Valid([]byte(text)) {
			return []byte(text)
		}
	}
	if isNumber(text) || text == "true" || text == "false" || text == "null" {
		return []byte(text)
	}
	if strings.HasPrefix(text, "{") && json.Valid([]byte(text)) {
		return []byte(text)
	}
	return quote(text)
}

// looksLikeOther reports whether a text looks like another allowed type than string: for [string,
// integer], 5 is a number.
func looksLikeOther(text string, types []string) bool {
	others := slices.DeleteFunc(slices.Clone(types), func(t string) bool { return t == "string" })
	return allows(others, text) || (text == "null" && slices.Contains(types, "null"))
}

// isNumber reports whether text is a JSON number.
func isNumber(text string) bool {
	if text == "" || (text[0] != '-' && (text[0] < '0' || text[0] > '9')) {
		return false
	}
	return json.Valid([]byte(text))
}

func quote(text string) []byte {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err) // cannot happen: a string
	}
	return out
}
