package strict

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// maxValues bounds the values that one file may stand for. It only stops texts in which YAML aliases multiply.
	maxValues = 500_000
	// maxMerges bounds how deep YAML merge keys may refer to one another.
	maxMerges = 16
	// maxProblems bounds what is said of one file.
	maxProblems = 1000
)

// Options say how a Decoder reads. The zero value of each hook does nothing.
type Options struct {
	// File is the name that problems start with.
	File string
	// Lenient is set for a file of another program. An unknown key is a warning there, and a value of an enum may be
	// written with other case, hyphens and underscores.
	Lenient bool
	// Quoted lets numbers and booleans stand in quotes.
	Quoted bool

	// Rename returns a key and its value as the structs have them. It is called for each key of object.
	Rename func(p Pair, object *Node, path string, t reflect.Type) Pair
	// Unknown reports a key that the struct type t does not have. Without it, the key is an error, or a
	// warning where Lenient is set, that names the key which was probably meant.
	Unknown func(p Pair, path string, t reflect.Type)
	// Synonym returns the name that a struct may have for key; "" for none.
	Synonym func(key string) string
	// Entry decodes one entry of a mapping with the tag entries, of which v is the struct: it must call decode.
	Entry func(n *Node, path string, v any, decode func())
	// Text replaces variables in a text. Without it, each text is as it stands in the file. The hook reports its errors.
	Text func(n *Node, path string, secret bool) (value string, ok bool)
	// Plain reports whether the value of this name in a mapping of texts is no secret. Without it, no value is one.
	Plain func(name string) bool
}

// A Decoder turns nodes into structs by the tags of their fields and collects the problems on the way. It never stops
// at a problem; a value that is wrong keeps its default, so that later checks still mean something. It is used by
// one goroutine.
type Decoder struct {
	o        Options
	problems []Problem
	warnings []Problem
	bad      map[string]bool  // keys with a problem
	at       map[string]*Node // place of each key that the file sets, by path
	values   int
	stopped  bool           // values passed its bound
	merging  map[*Node]bool // mappings whose merge keys are being followed
	safety   int            // how many of the objects being read are safety sections

	entry  string               // path of the entry in which problems are reported; "" for none
	faults map[string][]Problem // of entries, by their path
}

// NewDecoder returns a Decoder for one file.
func NewDecoder(o Options) *Decoder {
	return &Decoder{o: o, bad: map[string]bool{}, at: map[string]*Node{}, merging: map[*Node]bool{}, faults: map[string][]Problem{}}
}

// A Pair is one key of a mapping with its value.
type Pair struct{ Key, Value *Node }

// A Place is where a struct stands in the file. The Decoder fills in a field of this type.
type Place struct {
	Node *Node
	Path string
}

var placeType = reflect.TypeFor[Place]()

// Decode reads root, a mapping, into the struct behind v, a pointer. It reports whether root is a mapping.
func (d *Decoder) Decode(root *Node, path string, v any) bool {
	root = d.resolve(root)
	if !d.expect(root, yaml.MappingNode, path, KindObject) {
		return false
	}
	d.object(root, path, reflect.ValueOf(v).Elem())
	return true
}

// Problems returns what was reported and is in no entry of its own.
func (d *Decoder) Problems() []Problem { return d.problems }

// Warnings returns the warnings.
func (d *Decoder) Warnings() []Problem { return d.warnings }

// Faults returns what is wrong within the entry at path.
func (d *Decoder) Faults(path string) []Problem { return d.faults[path] }

// Set reports whether the file has the key at path.
func (d *Decoder) Set(path string) bool { return d.at[path] != nil }

// At returns the place of the key at path, nil where the file does not have it.
func (d *Decoder) At(path string) *Node { return d.at[path] }

// Places returns the places of all keys that the file has, by their paths. The caller must not change the map.
func (d *Decoder) Places() map[string]*Node { return d.at }

// Bad reports whether there is a problem at path.
func (d *Decoder) Bad(path string) bool { return d.bad[path] }

// InSafety reports whether the Decoder is within an object with the tag safety.
func (d *Decoder) InSafety() bool { return d.safety > 0 }

// Within calls fn. What fn reports counts as wrong in the entry at this path alone; "" stands for the whole file.
func (d *Decoder) Within(entry string, fn func()) {
	before := d.entry
	d.entry = entry
	fn()
	d.entry = before
}

// Entry returns the path of the entry in which problems are reported now; "" for none.
func (d *Decoder) Entry() string { return d.entry }

// Report adds a problem at n, which may be nil. cause is an error of another package that led to it, or nil.
func (d *Decoder) Report(n *Node, path string, cause error, format string, args ...any) {
	p := d.problem(n, path, format, args)
	p.Cause = cause
	d.bad[path] = true
	switch {
	case d.entry != "":
		d.faults[d.entry] = append(d.faults[d.entry], p)
	case len(d.problems) < maxProblems:
		d.problems = append(d.problems, p)
	}
}

// Fail adds a problem at n, which may be nil.
func (d *Decoder) Fail(n *Node, path, format string, args ...any) {
	d.Report(n, path, nil, format, args...)
}

// Warn adds a warning at n, which may be nil.
func (d *Decoder) Warn(n *Node, path, format string, args ...any) {
	if len(d.warnings) < maxProblems {
		d.warnings = append(d.warnings, d.problem(n, path, format, args))
	}
}

// Strict adds a problem, or a warning in a lenient file: for what has no effect here but may have one for the
// program that the file was written for.
func (d *Decoder) Strict(n *Node, path, format string, args ...any) {
	if d.o.Lenient {
		d.Warn(n, path, format, args...)
	} else {
		d.Fail(n, path, format, args...)
	}
}

func (d *Decoder) problem(n *Node, path, format string, args []any) Problem {
	p := Problem{File: d.o.File, Key: path, Message: oneLine(fmt.Sprintf(format, args...))}
	if n != nil {
		p.Line, p.Column = n.Line, n.Column
	}
	return p
}

// resolve follows YAML aliases and counts the value.
func (d *Decoder) resolve(n *Node) *Node {
	d.values++
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

// exhausted reports, once, that the file stands for too many values.
func (d *Decoder) exhausted(n *Node) bool {
	if d.values > maxValues && !d.stopped {
		d.stopped = true
		d.entry = "" // what comes later is not read, in no entry
		d.Fail(n, "", "the file stands for more than %d values; look for aliases that multiply", maxValues)
	}
	return d.stopped
}

// Pairs returns the keys of a mapping in the file's order, each once. Duplicates are reported; YAML merge keys (<<) add
// what the mapping does not set itself.
func (d *Decoder) Pairs(n *Node, path string) []Pair { return d.pairs(n, path, 0, false) }

// pairs is Pairs. Where entries is set, the problem of a duplicate is in the entry of its name.
func (d *Decoder) pairs(n *Node, path string, merges int, entries bool) []Pair {
	var own, merged []Pair
	first := make(map[string]*Node)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := d.resolve(n.Content[i]), d.resolve(n.Content[i+1])
		if d.exhausted(key) {
			return nil
		}
		switch {
		case key.Kind != yaml.ScalarNode:
			d.Fail(key, path, "a key%s must be a text, not %s", In(path), describe(key))
		case key.ShortTag() == "!!merge":
			merged = append(merged, d.merge(value, path, merges, entries)...)
		case first[key.Value] != nil:
			entry := d.entry
			if entries {
				entry = Join(path, key.Value)
			}
			d.Within(entry, func() {
				d.Fail(key, Join(path, key.Value), "duplicate key %q%s; it is set on line %d already", key.Value, In(path), first[key.Value].Line)
			})
		default:
			first[key.Value] = key
			own = append(own, Pair{key, value})
		}
	}
	for _, p := range merged {
		if first[p.Key.Value] == nil {
			first[p.Key.Value] = p.Key
			own = append(own, p)
		}
	}
	return own
}

func (d *Decoder) merge(n *Node, path string, merges int, entries bool) []Pair {
	if merges == maxMerges {
		d.Fail(n, path, "merge keys%s refer to one another more than %d deep", In(path), maxMerges)
		return nil
	}
	sources := []*Node{n}
	if n.Kind == yaml.SequenceNode {
		sources = n.Content
	}
	var all []Pair
	for _, s := range sources {
		s = d.resolve(s)
		if d.exhausted(s) {
			return nil
		}
		if s.Kind != yaml.MappingNode {
			d.Fail(s, path, "a merge key%s must name a mapping, not %s", In(path), describe(s))
			continue
		}
		if d.merging[s] {
			d.Fail(s, path, "a merge key%s leads back to its own mapping", In(path))
			continue
		}
		d.merging[s] = true
		all = append(all, d.pairs(s, path, merges+1, entries)...)
		delete(d.merging, s)
	}
	return all
}

// object decodes a mapping into a struct by the struct's table.
func (d *Decoder) object(n *Node, path string, v reflect.Value) {
	if f := v.FieldByName("Place"); f.IsValid() && f.Type() == placeType {
		f.Set(reflect.ValueOf(Place{n, path}))
	}
	found := make(map[string]Pair)
	var unknown []Pair
	rows := Fields(v.Type())
	for _, p := range d.Pairs(n, path) {
		if d.o.Rename != nil {
			p = d.o.Rename(p, n, path, v.Type())
		}
		if slices.ContainsFunc(rows, func(f Field) bool { return f.Key == p.Key.Value }) {
			found[p.Key.Value] = p
		} else {
			unknown = append(unknown, p)
		}
	}
	for _, p := range unknown {
		if d.o.Unknown != nil {
			d.o.Unknown(p, path, v.Type())
		} else {
			d.Strict(p.Key, Join(path, p.Key.Value), "unknown key %q%s%s", Clip(p.Key.Value), In(path), d.Suggest(p.Key.Value, v.Type()))
		}
	}
	for _, f := range rows {
		p, ok := found[f.Key]
		here := Join(path, f.Key)
		if ok && IsNull(p.Value) && f.Flag != "" {
			d.Warn(p.Key, here, "%s has nothing behind it, so it sets nothing; write %s: {} to switch it on", here, f.Key)
		}
		if ok && IsNull(p.Value) && (f.Empty == EmptyNone || f.Empty == EmptyRefused) {
			d.Fail(p.Key, here, "%s has nothing behind it; write a list, or leave the key out, which has another meaning than an empty list", here)
		}
		if !ok || IsNull(p.Value) {
			continue // a key with nothing behind it, such as a commented-out block, sets nothing
		}
		d.at[here] = p.Key
		if f.Safety {
			d.safety++
		}
		d.value(p.Value, here, v.FieldByIndex(f.Index), f)
		if f.Safety {
			d.safety--
		}
	}
}

// Suggest names the key of the struct type t that was probably meant, or else all of them.
func (d *Decoder) Suggest(key string, t reflect.Type) string {
	near := Nearest(key, Keys(t))
	if near == "" && d.o.Synonym != nil {
		if synonym := d.o.Synonym(key); slices.Contains(Keys(t), synonym) {
			near = synonym
		}
	}
	switch {
	case near != "":
		return fmt.Sprintf("; did you mean %q?", near)
	case d.o.Lenient:
		return "; it is ignored"
	}
	known := slices.DeleteFunc(Keys(t), func(k string) bool { return k == "$schema" })
	return "; known keys: " + strings.Join(known, ", ")
}

// value decodes one value by its row of the table.
func (d *Decoder) value(n *Node, path string, v reflect.Value, f Field) {
	if d.exhausted(n) {
		return
	}
	if f.Empty == EmptyRefused && len(n.Content) == 0 && n.Kind != yaml.ScalarNode {
		d.Fail(n, path, "%s is empty; name at least one, or leave the key out, which has another meaning", path)
		return
	}
	switch k := f.Kind(); k {
	case KindNode:
		v.Set(reflect.ValueOf(n))
	case KindOwn:
		v.Addr().Interface().(Value).DecodeStrict(d, n, path)
	case KindObject:
		if f.Flag != "" && isScalar(n, "!!bool") {
			d.instead(n, path, v, f.Flag)
			return
		}
		if f.Text != "" && isScalar(n, "!!str") {
			d.instead(n, path, v, f.Text)
			return
		}
		if d.expect(n, yaml.MappingNode, path, k) {
			d.object(n, path, v)
		}
	case KindObjects:
		if !d.expect(n, yaml.SequenceNode, path, k) {
			return
		}
		d.Each(n, path, k.String(), func(item *Node, here string) {
			if !d.expect(item, yaml.MappingNode, here, KindMap) { // a token may stand alone: do not show it
				return
			}
			d.at[here] = item
			element := reflect.New(v.Type().Elem()).Elem()
			setDefaults(element)
			d.object(item, here, element)
			v.Set(reflect.Append(v, element))
		})
	case KindNamed:
		if d.expect(n, yaml.MappingNode, path, k) {
			d.named(n, path, v, f)
		}
	case KindTexts:
		each := KindText
		if v.Type().Elem() == reflect.TypeFor[Secret]() {
			k, each = kindSecrets, KindSecret
		}
		if n.Kind == yaml.ScalarNode && slices.Contains(f.Enum, n.Value) {
			v.Set(reflect.Append(reflect.MakeSlice(v.Type(), 0, 1), reflect.ValueOf(n.Value).Convert(v.Type().Elem())))
			return
		}
		if !d.expect(n, yaml.SequenceNode, path, k) {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 0, len(n.Content))) // an empty list is not none
		d.Each(n, path, k.String(), func(item *Node, here string) {
			if text, ok := d.text(item, here, each); ok {
				v.Set(reflect.Append(v, reflect.ValueOf(text).Convert(v.Type().Elem())))
			}
		})
	case KindMap:
		if d.expect(n, yaml.MappingNode, path, k) {
			d.texts(n, path, v)
		}
	default:
		d.scalar(n, path, v, f, k)
	}
}

// Each calls f for each element of a list, with its path. Anything else than a list is reported: it must be want.
func (d *Decoder) Each(n *Node, path, want string, f func(item *Node, path string)) {
	if n.Kind != yaml.SequenceNode {
		d.Wrong(n, path, want)
		return
	}
	for i, item := range n.Content {
		f(d.resolve(item), fmt.Sprintf("%s[%d]", path, i))
	}
}

// texts decodes a mapping of any names to texts.
func (d *Decoder) texts(n *Node, path string, v reflect.Value) {
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	for _, p := range d.Pairs(n, path) {
		here := Join(path, p.Key.Value)
		d.at[here] = p.Key
		k := KindText
		if d.o.Plain != nil && !d.o.Plain(p.Key.Value) {
			k = KindSecret
		}
		if text, ok := d.text(p.Value, here, k); ok {
			v.SetMapIndex(reflect.ValueOf(p.Key.Value), reflect.ValueOf(text).Convert(v.Type().Elem()))
		}
	}
}

func isScalar(n *Node, tag string) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == tag }

// instead decodes what stands in place of an object: it is the value of the object's key.
func (d *Decoder) instead(n *Node, path string, v reflect.Value, key string) {
	for _, f := range Fields(v.Type()) {
		if f.Key == key {
			d.at[Join(path, key)] = n
			d.value(n, Join(path, key), v.FieldByIndex(f.Index), f)
		}
	}
}

// named decodes a mapping of names to objects into a list of them.
func (d *Decoder) named(n *Node, path string, v reflect.Value, f Field) {
	for _, p := range d.pairs(n, path, 0, f.Entries) {
		here := Join(path, p.Key.Value)
		d.at[here] = p.Key
		element := reflect.New(f.Object())
		setDefaults(element.Elem())
		element.Elem().FieldByName(f.Name).SetString(p.Key.Value)
		switch {
		case f.Entries:
			d.Within(here, func() {
				decode := func() { d.Decode(p.Value, here, element.Interface()) }
				if d.o.Entry == nil {
					decode()
				} else {
					d.o.Entry(p.Value, here, element.Interface(), decode)
				}
			})
		case !d.Decode(p.Value, here, element.Interface()):
			continue
		}
		v.Set(reflect.Append(v, element))
	}
}
