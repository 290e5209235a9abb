package config

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxValues bounds the values that one file may stand for. It only stops texts
// in which YAML aliases multiply.
const maxValues = 500_000

// maxMerges bounds how deep YAML merge keys may refer to one another.
const maxMerges = 16

// decoder turns nodes into a Config by the table of keys and collects what is
// wrong on the way. It never stops at a problem; a value that is wrong keeps its
// default, so that later checks still mean something.
type decoder struct {
	file    string
	foreign bool
	dir     string

	problems []Problem
	bad      map[string]bool // keys with a problem
	warnings []Problem
	at       map[string]*yaml.Node // place of each key that the file sets, by path
	values   int
	stopped  bool                // values passed its bound
	merging  map[*yaml.Node]bool // mappings whose merge keys are being followed

	expand *expander // nil outside the entries of mcpServers

	entry     string               // path of the entry of mcpServers that is being read or checked; may be ""
	faults    map[string][]Problem // what is wrong within entries, by their path
	paths     map[*Server]string   // of the entries
	flat      map[*Server]bool     // entries that are no mapping
	startable func(*Server) error  // why a program could not be started; may be nil
	whole     bool                 // an entry that is wrong makes the file wrong
	closed    int                  // how many of the objects being read are safety sections
	gemini    dialect
}

func (d *decoder) report(n *yaml.Node, path string, err error, format string, args ...any) {
	p := Problem{File: d.file, Key: path, Message: oneLine(fmt.Sprintf(format, args...)), err: err}
	if n != nil {
		p.Line, p.Column = n.Line, n.Column
	}
	d.bad[path] = true
	if d.entry != "" {
		d.faults[d.entry] = append(d.faults[d.entry], p)
		return
	}
	d.problems = append(d.problems, p)
}

func (d *decoder) fail(n *yaml.Node, path, format string, args ...any) {
	d.report(n, path, nil, format, args...)
}

func (d *decoder) warn(n *yaml.Node, path, format string, args ...any) {
	p := Problem{File: d.file, Key: path, Message: oneLine(fmt.Sprintf(format, args...))}
	if n != nil {
		p.Line, p.Column = n.Line, n.Column
	}
	d.warnings = append(d.warnings, p)
}

// strict is an error in weir's own file and a warning in a foreign one: something
// that has no effect, which another client may have a use for.
func (d *decoder) strict(n *yaml.Node, path, format string, args ...any) {
	if d.foreign {
		d.warn(n, path, format, args...)
	} else {
		d.fail(n, path, format, args...)
	}
}

// set reports whether the file has the key at this path.
func (d *decoder) set(path string) bool { return d.at[path] != nil }

// resolve follows YAML aliases and counts the value.
func (d *decoder) resolve(n *yaml.Node) *yaml.Node {
	d.values++
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

// exhausted reports, once, that the file stands for too many values.
func (d *decoder) exhausted(n *yaml.Node) bool {
	if d.values > maxValues && !d.stopped {
		d.stopped = true
		d.entry = "" // what comes later is not read, in no entry
		d.fail(n, "", "the file stands for more than %d values; look for aliases that multiply", maxValues)
	}
	return d.stopped
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// pair is one key of a mapping with its value.
type pair struct{ key, value *yaml.Node }

// pairs returns the keys of a mapping in the file's order, each once. Duplicates
// are reported; YAML merge keys (<<) add what the mapping does not set itself.
func (d *decoder) pairs(n *yaml.Node, path string, merges int) []pair {
	var own, merged []pair
	first := make(map[string]*yaml.Node)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := d.resolve(n.Content[i]), d.resolve(n.Content[i+1])
		if d.exhausted(key) {
			return nil
		}
		switch {
		case key.Kind != yaml.ScalarNode:
			d.fail(key, path, "a key%s must be a text, not %s", in(path), describe(key))
		case key.ShortTag() == "!!merge":
			merged = append(merged, d.merge(value, path, merges)...)
		case first[key.Value] != nil:
			entry := d.entry
			if path == "mcpServers" {
				entry = join(path, key.Value)
			}
			d.within(entry, func() {
				d.fail(key, join(path, key.Value), "duplicate key %q%s; it is set on line %d already", key.Value, in(path), first[key.Value].Line)
			})
		default:
			first[key.Value] = key
			own = append(own, pair{key, value})
		}
	}
	for _, p := range merged {
		if first[p.key.Value] == nil {
			first[p.key.Value] = p.key
			own = append(own, p)
		}
	}
	return own
}

func (d *decoder) merge(n *yaml.Node, path string, merges int) []pair {
	if merges == maxMerges {
		d.fail(n, path, "merge keys%s refer to one another more than %d deep", in(path), maxMerges)
		return nil
	}
	sources := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		sources = n.Content
	}
	var all []pair
	for _, s := range sources {
		s = d.resolve(s)
		if d.exhausted(s) {
			return nil
		}
		if s.Kind != yaml.MappingNode {
			d.fail(s, path, "a merge key%s must name a mapping, not %s", in(path), describe(s))
			continue
		}
		if d.merging[s] {
			d.fail(s, path, "a merge key%s leads back to its own mapping", in(path))
			continue
		}
		d.merging[s] = true
		all = append(all, d.pairs(s, path, merges+1)...)
		delete(d.merging, s)
	}
	return all
}

// object decodes a mapping into a struct by the struct's table.
func (d *decoder) object(n *yaml.Node, path string, v reflect.Value) {
	found := make(map[string]pair)
	var unknown []pair
	rows := fieldsOf(v.Type())
	for _, p := range d.pairs(n, path, 0) {
		switch {
		case path == "":
			p.key = d.topLevelAlias(p.key, n)
		case v.Type() == reflect.TypeFor[Server]():
			p = d.otherClients(p, n, path)
		}
		if slices.ContainsFunc(rows, func(f field) bool { return f.key == p.key.Value }) {
			found[p.key.Value] = p
		} else {
			unknown = append(unknown, p)
		}
	}
	for _, p := range unknown {
		d.unknown(p, path, v.Type())
	}
	for _, f := range rows {
		p, ok := found[f.key]
		if ok && isNull(p.value) && f.flag != "" {
			d.warn(p.key, join(path, f.key), "%s has nothing behind it, so it sets nothing; write %s: {} to switch it on", join(path, f.key), f.key)
		}
		if !ok || isNull(p.value) {
			continue // a key with nothing behind it, such as a commented-out block, sets nothing
		}
		here := join(path, f.key)
		d.at[here] = p.key
		if f.safety {
			d.closed++
		}
		d.value(p.value, here, v.Field(f.at), f)
		if f.safety {
			d.closed--
		}
	}
}

// value decodes one value by its row of the table.
func (d *decoder) value(n *yaml.Node, path string, v reflect.Value, f field) {
	if d.exhausted(n) {
		return
	}
	k := kindOf(f)
	switch k {
	case kindObject:
		if f.flag != "" && d.flag(n, path, v, f.flag) {
			return
		}
		if d.expect(n, yaml.MappingNode, path, k) {
			d.object(n, path, v)
		}
	case kindObjects:
		if !d.expect(n, yaml.SequenceNode, path, k) {
			return
		}
		for i, item := range n.Content {
			here := fmt.Sprintf("%s[%d]", path, i)
			item = d.resolve(item)
			if !d.expect(item, yaml.MappingNode, here, kindObject) {
				continue
			}
			d.at[here] = item
			element := reflect.New(v.Type().Elem()).Elem()
			setDefaults(element)
			d.object(item, here, element)
			v.Set(reflect.Append(v, element))
		}
	case kindNamed:
		if d.expect(n, yaml.MappingNode, path, k) {
			d.named(n, path, v, f)
		}
	case kindTexts:
		if !d.expect(n, yaml.SequenceNode, path, k) {
			return
		}
		for i, item := range n.Content {
			if text, ok := d.text(d.resolve(item), fmt.Sprintf("%s[%d]", path, i), kindText); ok {
				v.Set(reflect.Append(v, reflect.ValueOf(text)))
			}
		}
	case kindMap:
		if !d.expect(n, yaml.MappingNode, path, k) {
			return
		}
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		for _, p := range d.pairs(n, path, 0) {
			here := join(path, p.key.Value)
			d.at[here] = p.key
			k := kindSecret
			if plainName(p.key.Value) {
				k = kindText
			}
			if text, ok := d.text(p.value, here, k); ok {
				v.SetMapIndex(reflect.ValueOf(p.key.Value), reflect.ValueOf(text).Convert(v.Type().Elem()))
			}
		}
	default:
		d.scalar(n, path, v, f, k)
	}
}

// flag decodes true or false in place of an object: it is the value of the
// object's key. It reports whether n is one of them.
func (d *decoder) flag(n *yaml.Node, path string, v reflect.Value, key string) bool {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
		return false
	}
	for _, f := range fieldsOf(v.Type()) {
		if f.key == key {
			d.at[join(path, key)] = n
			d.value(n, join(path, key), v.Field(f.at), f)
		}
	}
	return true
}

// named decodes a mapping of names to objects into a list of them.
func (d *decoder) named(n *yaml.Node, path string, v reflect.Value, f field) {
	for _, p := range d.pairs(n, path, 0) {
		here := join(path, p.key.Value)
		d.at[here] = p.key
		element := reflect.New(objectOf(f))
		setDefaults(element.Elem())
		element.Elem().FieldByName(f.name).SetString(p.key.Value)
		if s, ok := element.Interface().(*Server); ok {
			d.server(p.value, here, s)
		} else if d.expect(p.value, yaml.MappingNode, here, kindObject) {
			d.object(p.value, here, element.Elem())
		} else {
			continue
		}
		v.Set(reflect.Append(v, element))
	}
}

// switchedOff reports whether an entry says disabled: true, before it is decoded.
func switchedOff(entry *yaml.Node) bool {
	for i := 0; i+1 < len(entry.Content); i += 2 {
		if entry.Content[i].Value == "disabled" {
			return entry.Content[i+1].Value == "true"
		}
	}
	return false
}

// expect reports a value of the wrong form.
func (d *decoder) expect(n *yaml.Node, form yaml.Kind, path string, k kind) bool {
	if n.Kind == form {
		return true
	}
	d.wrong(n, path, k)
	return false
}

func (d *decoder) wrong(n *yaml.Node, path string, k kind) {
	got := describe(n)
	if k == kindSecret && n.Kind == yaml.ScalarNode {
		got = "nothing" // only null gets here; never show the value
	}
	hint := ""
	switch {
	case k == kindTexts && n.Kind == yaml.ScalarNode:
		hint = "; put it in [ ]"
	case k == kindText && n.Kind == yaml.SequenceNode && strings.HasSuffix(path, ".command"):
		hint = "; the program goes into command and the rest into args"
	case isNull(n):
		hint = `; write "" for an empty text`
	}
	d.fail(n, path, "%s must be %s, not %s%s", orTop(path), k.want(), got, hint)
}

// text returns a scalar as a text, expanded where the entry is a server's or the
// text is a secret. A number or a boolean counts as the text that stands in the file.
func (d *decoder) text(n *yaml.Node, path string, k kind) (string, bool) {
	if n.Kind != yaml.ScalarNode || isNull(n) || !plainTag(n) {
		d.wrong(n, path, k)
		return "", false
	}
	if d.expand == nil || !d.expand.active() && k != kindSecret {
		return n.Value, true
	}
	text, err := d.expand.text(n.Value, k == kindSecret)
	if err != nil {
		entry := d.entry
		if errors.Is(err, context.Canceled) {
			entry = "" // the person who was asked wants to stop
		}
		d.within(entry, func() { d.report(n, path, err, "%s: %v", path, err) })
		return "", false
	}
	return text, true
}

func plainTag(n *yaml.Node) bool {
	switch n.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp":
		return true
	}
	return false
}

// scalar decodes one text, number or boolean.
func (d *decoder) scalar(n *yaml.Node, path string, v reflect.Value, f field, k kind) {
	text, ok := d.text(n, path, k)
	if !ok {
		return
	}
	// A quoted text is not a number, unless it is there for a variable in it.
	tag := n.ShortTag()
	if text != n.Value {
		tag = ""
	}
	switch assign(v, k, text, tag) {
	case assigned:
	case noUnit:
		d.fail(n, path, "%s: %s has no unit; write %ss, or the number of seconds without quotes", path, quote(n), n.Value)
		return
	default:
		d.wrong(n, path, k)
		return
	}
	if f.enum != nil && !slices.Contains(f.enum, text) {
		if canonical := spelling(text, f.enum); d.foreign && canonical != "" {
			v.SetString(canonical)
			return
		}
		hint := ""
		if near := nearest(text, f.enum); near != "" {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		d.fail(n, path, "%s must be %s, not %s%s", path, oneOf(f.enum), quote(n), hint)
	}
	if f.min != "" {
		least := reflect.New(v.Type()).Elem()
		assign(least, k, f.min, "")
		if v.Int() < least.Int() {
			d.fail(n, path, "%s must be at least %s, not %s", path, f.min, quote(n))
		}
	}
}

// spelling finds the legal value that other clients write a little differently,
// such as streamableHttp.
func spelling(text string, enum []string) string {
	for _, e := range enum {
		if flatten(e) == flatten(text) {
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

// assign reads a scalar of one kind into v. The tag is the file's ("!!int"), or
// "" where any text that reads as the kind will do.
func assign(v reflect.Value, k kind, text, tag string) outcome {
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
	case kindBool:
		if (tag == "!!bool" || tag == "") && (text == "true" || text == "false") {
			v.SetBool(text == "true")
			return assigned
		}
	case kindInt:
		n, err := strconv.ParseInt(text, 0, 64)
		if (tag == "!!int" || tag == "") && err == nil && n == int64(int(n)) {
			v.SetInt(n)
			return assigned
		}
	case kindNumber:
		f, err := strconv.ParseFloat(text, 64)
		if (number || tag == "") && err == nil {
			v.SetFloat(f)
			return assigned
		}
	case kindDuration:
		if number {
			d, ok := parseSeconds(text)
			v.SetInt(int64(d))
			return when(ok)
		}
		d, ok := parseDuration(text)
		if !ok && tag == "" {
			d, ok = parseSeconds(text)
		}
		if _, bare := parseSeconds(text); !ok && bare {
			return noUnit
		}
		if tag == "!!str" || tag == "" {
			v.SetInt(int64(d))
			return when(ok)
		}
	case kindBytes:
		if tag == "!!str" || tag == "!!int" || tag == "" {
			b, ok := parseBytes(strings.ReplaceAll(text, "_", ""))
			v.SetInt(int64(b))
			return when(ok)
		}
	default:
		v.SetString(text)
		return assigned
	}
	return wrongForm
}

func when(ok bool) outcome {
	if ok {
		return assigned
	}
	return wrongForm
}

// setDefaults fills a struct with the defaults of its table.
func setDefaults(v reflect.Value) {
	for _, f := range fieldsOf(v.Type()) {
		switch k := kindOf(f); {
		case k == kindObject:
			setDefaults(v.Field(f.at))
		case f.def != "":
			assign(v.Field(f.at), k, f.def, "")
		}
	}
}

// in says at which path something is, and nothing for the top level.
func in(path string) string {
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

// describe names a value of the wrong form.
func describe(n *yaml.Node) string {
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
		return "the number " + clip(n.Value)
	case "!!bool":
		return clip(n.Value)
	case "!!str", "!!timestamp":
		return "the text " + quote(n)
	}
	return "a value with the tag " + clip(n.ShortTag())
}

func quote(n *yaml.Node) string { return strconv.Quote(clip(n.Value)) }

// clip bounds what a message repeats of the file.
func clip(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

func oneOf(values []string) string {
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

// oneLine keeps a message on one line whatever it quotes.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
}
