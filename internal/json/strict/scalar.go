package strict

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
)

// expect reports a value of the wrong form.
func (d *Decoder) expect(n *Node, form yaml.Kind, path string, k Kind) bool {
	if n.Kind == form {
		return true
	}
	d.wrong(n, path, k)
	return false
}

func (d *Decoder) wrong(n *Node, path string, k Kind) {
	got := describe(n)
	switch {
	case n.Kind != yaml.ScalarNode || IsNull(n):
	case k == KindSecret:
		got = "nothing" // only null gets here; never show the value
	case k == kindSecrets || k == KindMap:
		got = "a text" // a secret without the list or the mapping around it
	}
	hint := ""
	switch {
	case (k == KindTexts || k == kindSecrets) && n.Kind == yaml.ScalarNode:
		hint = "; put it in [ ]"
	case k == KindText && n.Kind == yaml.SequenceNode && strings.HasSuffix(path, ".command"):
		hint = "; the program goes into command and the rest into args"
	case IsNull(n):
		hint = `; write "" for an empty text`
	}
	d.Fail(n, path, "%s must be %s, not %s%s", orTop(path), k, got, hint)
}

// Wrong reports that a value must be want, such as "a list of folders".
func (d *Decoder) Wrong(n *Node, path, want string) {
	d.Fail(n, path, "%s must be %s, not %s", orTop(path), want, describe(n))
}

// Text returns a scalar as a text, with its variables replaced. A number or a boolean counts as the text that stands
// in the file; anything else is reported.
func (d *Decoder) Text(n *Node, path string) (string, bool) { return d.text(n, path, KindText) }

func (d *Decoder) text(n *Node, path string, k Kind) (string, bool) {
	if n.Kind != yaml.ScalarNode || IsNull(n) || !plainTag(n) {
		d.wrong(n, path, k)
		return "", false
	}
	if d.o.Text == nil {
		return n.Value, true
	}
	return d.o.Text(n, path, k == KindSecret)
}

func plainTag(n *Node) bool {
	switch n.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp":
		return true
	}
	return false
}

// scalar decodes one text, number or boolean.
func (d *Decoder) scalar(n *Node, path string, v reflect.Value, f Field, k Kind) {
	text, ok := d.text(n, path, k)
	if !ok {
		return
	}
	// A quoted text is not a number, unless it is there for a variable in it.
	tag := n.ShortTag()
	if text != n.Value || d.o.Quoted && tag == "!!str" {
		tag = ""
	}
	switch assign(v, k, text, tag) {
	case assigned:
	case noUnit:
		d.Fail(n, path, "%s: %s has no unit; write %ss, or the number of seconds without quotes", path, quote(n), n.Value)
		return
	default:
		d.wrong(n, path, k)
		return
	}
	if f.Enum != nil && !slices.Contains(f.Enum, text) {
		if canonical := spelling(text, f.Enum); d.o.Lenient && canonical != "" {
			v.SetString(canonical)
			return
		}
		hint := ""
		if near := Nearest(text, f.Enum); near != "" {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		d.Fail(n, path, "%s must be %s, not %s%s", path, OneOf(f.Enum), quote(n), hint)
	}
	bound := func(text string) int64 {
		b := reflect.New(v.Type()).Elem()
		assign(b, k, text, "")
		return b.Int()
	}
	if f.Min != "" && v.Int() < bound(f.Min) {
		d.Fail(n, path, "%s must be at least %s, not %s", path, bounded(f.Min, v), quote(n))
	}
	if f.Max != "" && v.Int() > bound(f.Max) {
		d.Fail(n, path, "%s must be at most %s, not %s", path, bounded(f.Max, v), quote(n))
	}
}

// bounded returns the bound of a value as people write it: that of a size has a unit.
func bounded(bound string, v reflect.Value) string {
	if v.Type() != reflect.TypeFor[Bytes]() {
		return bound
	}
	n, ok := parseBytes(bound)
	if !ok {
		return bound
	}
	return n.short()
}

// spelling finds the legal value that other clients write a little differently, such as streamableHttp.
func spelling(text string, enum []string) string {
	for _, e := range enum {
		if Flatten(e) == Flatten(text) {
			return e
		}
	}
	return ""
}

type outcome int

const (
	assigned outcome = iota
	wrongForm
	noUnit
)

// assign reads a scalar of one kind into v. The tag is the file's ("!!int"), or "" where any text that reads as the
// kind will do.
func assign(v reflect.Value, k Kind, text, tag string) outcome {
	number := tag == "!!int" || tag == "!!float"
	if v.Kind() == reflect.Pointer {
		element := reflect.New(v.Type().Elem())
		out := assign(element.Elem(), k, text, tag)
		if out == assigned {
			v.Set(element)
		}
		return out
	}
	switch k {
	case KindBool:
		if (tag == "!!bool" || tag == "") && (text == "true" || text == "false") {
			v.SetBool(text == "true")
			return assigned
		}
	case KindInt:
		n, err := strconv.ParseInt(text, 0, 64)
		if (tag == "!!int" || tag == "") && err == nil && n == int64(int(n)) {
			v.SetInt(n)
			return assigned
		}
	case KindNumber:
		f, err := strconv.ParseFloat(text, 64)
		if (number || tag == "") && err == nil {
			v.SetFloat(f)
			return assigned
		}
	case KindDuration:
		if number {
			d, ok := parseSeconds(text)
			return setInt(v, int64(d), ok)
		}
		d, ok := ParseDuration(text)
		if !ok && tag == "" {
			d, ok = parseSeconds(text)
		}
		if _, bare := parseSeconds(text); !ok && bare {
			return noUnit
		}
		if tag == "!!str" || tag == "" {
			return setInt(v, int64(d), ok)
		}
	case KindBytes:
		if tag == "!!str" || tag == "!!int" || tag == "" {
			b, ok := parseBytes(strings.ReplaceAll(text, "_", ""))
			return setInt(v, int64(b), ok)
		}
	default:
		v.SetString(text)
		return assigned
	}
	return wrongForm
}

// setInt sets v if a text was read, so that a wrong value keeps its default.
func setInt(v reflect.Value, n int64, ok bool) outcome {
	if !ok {
		return wrongForm
	}
	v.SetInt(n)
	return assigned
}

// IsNull reports whether a value is null or nothing at all.
func IsNull(n *Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// In says at which path something is, and nothing for the top level.
func In(path string) string {
	if path == "" {
		return ""
	}
	return " in " + path
}

func orTop(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

// describe names a value that has the wrong form.
func describe(n *Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!int", "!!float":
		return "the number " + Clip(n.Value)
	case "!!bool":
		return Clip(n.Value)
	case "!!str", "!!timestamp":
		return "the text " + quote(n)
	}
	return "a value with the tag " + Clip(n.ShortTag())
}

func quote(n *Node) string { return strconv.Quote(Clip(n.Value)) }

// Clip bounds what a message repeats of a file.
func Clip(s string) string { return text.Fit(s, 61) }

// OneOf lists values as a message does: "a", "b" or "c".
func OneOf(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = strconv.Quote(v)
	}
	if len(quoted) == 1 {
		return quoted[0]
	}
	last := len(quoted) - 1
	return strings.Join(quoted[:last], ", ") + " or " + quoted[last]
}

// JSON returns a value as JSON, its keys in their order and its numbers as they stand in the file.
func JSON(n *Node) (json.RawMessage, error) {
	w := rawjson.NewWriter(nil)
	if err := writeJSON(w, n, 0); err != nil {
		return nil, err
	}
	return w.Bytes(), nil
}

func writeJSON(w *rawjson.Writer, n *Node, depth int) error {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	if depth > 64 || len(w.Bytes()) > 1<<20 {
		return errors.New("too deep, or too large")
	}
	switch n.Kind {
	case yaml.MappingNode:
		w.Object()
		seen := map[string]bool{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			if seen[key] {
				return fmt.Errorf("the key %q stands twice", Clip(key))
			}
			seen[key] = true
			if err := writeJSON(w.Key(key), n.Content[i+1], depth+1); err != nil {
				return err
			}
		}
		w.EndObject()
		return nil
	case yaml.SequenceNode:
		w.Array()
		for _, item := range n.Content {
			if err := writeJSON(w, item, depth+1); err != nil {
				return err
			}
		}
		w.EndArray()
		return nil
	}
	switch n.ShortTag() {
	case "!!null":
		w.Null()
	case "!!bool":
		w.Bool(strings.EqualFold(n.Value, "true"))
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			w.Raw([]byte(n.Value))
			return nil
		}
		var v any
		if err := n.Decode(&v); err != nil {
			return err
		}
		b, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("the number %s has no form in JSON", Clip(n.Value))
		}
		w.Raw(b)
	default:
		w.String(n.Value)
	}
	return nil
}

// oneLine returns s with a space for each control character, so that a message stays on one line whatever it quotes.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
}
