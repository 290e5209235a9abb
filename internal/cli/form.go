package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// maxFields bounds the fields of a form.
const maxFields = 50

// A form is a question of a server to a person: a message and flat fields.
type form struct {
	message string
	fields  []formField
}

// A formField is one field of a form. Its kind is string, number, integer, boolean, enum or list (of
// options).
type formField struct {
	name        string
	title       string
	description string
	required    bool
	kind        string
	options     []formOption
	initial     json.RawMessage // the default; nil if there is none

	format               string
	minLength, maxLength *int
	minimum, maximum     *float64
	minItems, maxItems   *int
}

// A formOption is a value to choose, and its name for people.
type formOption struct{ value, label string }

// readForm reads the params of an elicitation/create.
func readForm(params json.RawMessage) (*form, error) {
	var given struct {
		Mode    string `json:"mode"`
		Message string `json:"message"`
		Schema  struct {
			Properties json.RawMessage `json:"properties"`
			Required   []string        `json:"required"`
		} `json:"requestedSchema"`
	}
	if err := json.Unmarshal(params, &given); err != nil {
		return nil, fmt.Errorf("the form cannot be read: %w", err)
	}
	if given.Mode != "" && given.Mode != "form" {
		return nil, fmt.Errorf("it asks by %q, and a shell shows forms only", given.Mode)
	}
	f := &form{message: given.Message}
	var bad error
	err := rawjson.EachMember(given.Schema.Properties, func(m rawjson.Member) bool {
		var field formField
		if field, bad = readField(string(m.Key), m.Value); bad == nil && len(f.fields) == maxFields {
			bad = fmt.Errorf("the form has more than %d fields", maxFields)
		}
		field.required = slices.Contains(given.Schema.Required, field.name)
		f.fields = append(f.fields, field)
		return bad == nil
	})
	if bad != nil {
		return nil, bad
	}
	if err != nil && len(given.Schema.Properties) > 0 {
		return nil, fmt.Errorf("the form cannot be read: %w", err)
	}
	return f, nil
}

// fieldSchema is the schema of a field, in the forms that MCP allows.
type fieldSchema struct {
	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Default     json.RawMessage `json:"default"`
	Format      string          `json:"format"`
	MinLength   *int            `json:"minLength"`
	MaxLength   *int            `json:"maxLength"`
	Minimum     *float64        `json:"minimum"`
	Maximum     *float64        `json:"maximum"`
	MinItems    *int            `json:"minItems"`
	MaxItems    *int            `json:"maxItems"`
	Items       *choices        `json:"items"`
	choices
}

// choices are the values that a schema lists.
type choices struct {
	Enum      []string `json:"enum"`
	EnumNames []string `json:"enumNames"`
	OneOf     []titled `json:"oneOf"`
	AnyOf     []titled `json:"anyOf"`
}

type titled struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

func (c *choices) options() (options []formOption) {
	for i, value := range c.Enum {
		o := formOption{value: value}
		if i < len(c.EnumNames) {
			o.label = c.EnumNames[i]
		}
		options = append(options, o)
	}
	for _, t := range slices.Concat(c.OneOf, c.AnyOf) {
		options = append(options, formOption{t.Const, t.Title})
	}
	return options
}

func readField(name string, raw json.RawMessage) (formField, error) {
	var s fieldSchema
	if err := json.Unmarshal(raw, &s); err != nil {
		return formField{}, fmt.Errorf("the field %q is none that a person can fill in: %w", name, err)
	}
	f := formField{
		name: name, title: s.Title, description: s.Description, kind: s.Type, format: s.Format,
		minLength: s.MinLength, maxLength: s.MaxLength, minimum: s.Minimum, maximum: s.Maximum, minItems: s.MinItems, maxItems: s.MaxItems,
	}
	if len(s.Default) > 0 && string(s.Default) != "null" {
		f.initial = s.Default
	}
	switch s.Type {
	case "string":
		if f.options = s.options(); len(f.options) > 0 {
			f.kind = "enum"
		}
	case "array":
		if f.kind = "list"; s.Items != nil {
			f.options = s.Items.options()
		}
		if len(f.options) == 0 {
			return f, fmt.Errorf("the field %q is a list without options", name)
		}
	case "number", "integer", "boolean":
	default:
		return f, fmt.Errorf("the field %q has the type %q; forms have strings, numbers, booleans and options only", name, s.Type)
	}
	return f, nil
}

// label names the field for people: its name, type, whether it is required, and the default.
func (f *formField) label() string {
	kind := f.kind
	switch {
	case kind == "enum":
		kind = "one of these"
	case kind == "list":
		kind = "some of these, with commas"
	case kind == "boolean":
		kind = "y or n"
	case f.format != "":
		kind = f.format
	}
	if !f.required {
		kind += ", optional"
	}
	name := f.name
	if f.title != "" && f.title != f.name {
		name = f.title
	}
	label := fmt.Sprintf("%s (%s)", oneLine(name), oneLine(kind))
	if f.initial != nil {
		label += " [" + f.initialText() + "]"
	}
	return label
}

// initialText returns the default as a person would type it.
func (f *formField) initialText() string {
	var list []string
	if json.Unmarshal(f.initial, &list) == nil {
		return oneLine(strings.Join(list, ", "))
	}
	if f.initial[0] == '"' {
		return oneLine(rawjson.Text(f.initial))
	}
	if f.kind == "boolean" {
		return map[bool]string{true: "y", false: "n"}[string(f.initial) == "true"]
	}
	return oneLine(string(f.initial))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// value returns the JSON of an answer, nil for an empty answer to an optional field. The error says
// what is wrong with the answer, for the person who typed it.
func (f *formField) value(answer string) (json.RawMessage, error) {
	if strings.TrimSpace(answer) == "" {
		switch {
		case f.initial != nil:
			return f.initial, nil
		case f.required:
			return nil, errors.New("it is needed")
		}
		return nil, nil
	}
	switch f.kind {
	case "boolean":
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes", "true":
			return json.RawMessage("true"), nil
		case "n", "no", "false":
			return json.RawMessage("false"), nil
		}
		return nil, errors.New("it must be y or n")
	case "number", "integer":
		return f.number(strings.TrimSpace(answer))
	case "enum":
		value, err := f.option(strings.TrimSpace(answer))
		if err != nil {
			return nil, err
		}
		return quote(value), nil
	case "list":
		return f.list(answer)
	}
	return f.text(answer)
}

func (f *formField) number(answer string) (json.RawMessage, error) {
	n, err := strconv.ParseFloat(answer, 64)
	switch {
	case err != nil || !isNumber(answer):
		return nil, errors.New("it must be a number")
	case f.kind == "integer" && n != math.Trunc(n):
		return nil, errors.New("it must be a whole number")
	case f.minimum != nil && n < *f.minimum:
		return nil, fmt.Errorf("it must be at least %v", *f.minimum)
	case f.maximum != nil && n > *f.maximum:
		return nil, fmt.Errorf("it must be at most %v", *f.maximum)
	}
	return json.RawMessage(answer), nil
}

// option returns the value of an option that was typed by its value, its label or its number. A value
// wins over a number: options may be numbers themselves.
func (f *formField) option(answer string) (string, error) {
	for _, o := range f.options {
		if o.value == answer {
			return o.value, nil
		}
	}
	for _, o := range f.options {
		if o.label != "" && strings.EqualFold(o.label, answer) {
			return o.value, nil
		}
	}
	if n, err := strconv.Atoi(answer); err == nil && n >= 1 && n <= len(f.options) {
		return f.options[n-1].value, nil
	}
	return "", fmt.Errorf("%q is none of the options", oneLine(answer))
}

func (f *formField) list(answer string) (json.RawMessage, error) {
	values := []string{}
	for word := range strings.SplitSeq(answer, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		value, err := f.option(word)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	switch {
	case f.minItems != nil && len(values) < *f.minItems:
		return nil, fmt.Errorf("choose at least %d", *f.minItems)
	case f.maxItems != nil && len(values) > *f.maxItems:
		return nil, fmt.Errorf("choose at most %d", *f.maxItems)
	}
	return json.Marshal(values)
}

func (f *formField) text(answer string) (json.RawMessage, error) {
	n := utf8.RuneCountInString(answer)
	switch {
	case f.minLength != nil && n < *f.minLength:
		return nil, fmt.Errorf("it must have at least %s", counted(*f.minLength, "character"))
	case f.maxLength != nil && n > *f.maxLength:
		return nil, fmt.Errorf("it must have at most %s", counted(*f.maxLength, "character"))
	}
	switch f.format {
	case "email":
		if at, err := mail.ParseAddress(answer); err != nil || at.Address != answer {
			return nil, errors.New("it must be an e-mail address, such as ann@example.com")
		}
	case "uri":
		if u, err := url.Parse(answer); err != nil || u.Scheme == "" {
			return nil, errors.New("it must be a URL, such as https://example.com")
		}
	case "date":
		if _, err := time.Parse(time.DateOnly, answer); err != nil {
			return nil, errors.New("it must be a date, such as 2026-01-31")
		}
	case "date-time":
		if _, err := time.Parse(time.RFC3339, answer); err != nil {
			return nil, errors.New("it must be a time, such as 2026-01-31T12:00:00Z")
		}
	}
	return quote(answer), nil
}
