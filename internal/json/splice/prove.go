package splice

import (
	"encoding/json"
	"fmt"
)

// equal compares decoded values: members in order, numbers as text.
func equal(a, b any) bool {
	switch a := a.(type) {
	case Object:
		b, ok := b.(Object)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if a[i].Key != b[i].Key || !equal(a[i].Value, b[i].Value) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case json.Number:
		b, ok := b.(json.Number)
		return ok && a == b
	}
	switch b.(type) {
	case Object, []any, json.Number:
		return false
	}
	return a == b
}

// without returns a tree without the value at p, and that value. The tree that is given stays as it is.
func without(v any, p Path) (rest, cut any, ok bool) {
	if len(p) == 0 {
		return v, nil, false
	}
	switch v := v.(type) {
	case Object:
		for i, m := range v {
			if m.Key != p[0] {
				continue
			}
			out := append(Object(nil), v[:i]...)
			if len(p) == 1 {
				return append(out, v[i+1:]...), m.Value, true
			}
			inner, cut, ok := without(m.Value, p[1:])
			return append(append(out, Member{m.Key, inner}), v[i+1:]...), cut, ok
		}
	case []any:
		name, _ := nameOf(p[0])
		for i, item := range v {
			o, ok := item.(Object)
			if !ok || o.Get("name") != any(name) {
				continue
			}
			out := append([]any(nil), v[:i]...)
			if len(p) == 1 {
				return append(out, v[i+1:]...), item, true
			}
			inner, cut, ok := without(item, p[1:])
			return append(append(out, inner), v[i+1:]...), cut, ok
		}
	}
	return v, nil, false
}

// wrap returns v below the keys of rest, as add makes the parents.
func wrap(rest Path, v any, f Format) any {
	for i := len(rest) - 1; i >= 0; i-- {
		if name, ok := nameOf(rest[i]); ok && f != JSON {
			v = []any{named(name, v)}
		} else {
			v = Object{{rest[i], v}}
		}
	}
	return v
}

// named returns an item of a list with its name in front, unless it has one.
func named(name string, v any) any {
	o, ok := v.(Object)
	if !ok || o.Get("name") != nil {
		return v
	}
	return append(Object{{"name", name}}, o...)
}

// proveSet compares the documents before and after a Set. There nodes of the path were there before,
// not counting the root.
func (d *document) proveSet(out []byte, f Format, there int, v any) error {
	before, after, err := d.both(out, f)
	if err != nil {
		return err
	}
	p := d.path
	if there == len(p) { // replaced: all but the value is as before, and the value stands in its place
		was, _, ok := without(before, p)
		is, got, ok2 := without(after, p)
		if !ok || !ok2 || !equal(was, is) || !equal(got, v) {
			return &Unproven{p, "the new document differs in more than the value"}
		}
		return nil
	}
	made := p[:there+1]
	is, got, ok := without(after, made)
	was := before
	if rest, old, had := without(before, p[:there]); there > 0 && had && old == nil {
		// A null became the parent.
		made = p[:there]
		was = rest
		is, got, ok = without(after, made)
	} else if there == 0 && before == nil {
		was = Object{}
	}
	want := wrap(p[len(made):], v, f)
	if !ok || !equal(was, is) {
		return &Unproven{p, "the new document differs in other keys"}
	}
	if !equal(got, want) {
		return &Unproven{p, "the new document has another value there"}
	}
	return nil
}

// at returns the value at p, nil if there is none.
func at(v any, p Path) any {
	if len(p) == 0 {
		return v
	}
	_, got, _ := without(v, p)
	return got
}

// proveCut compares the documents before and after a Remove. Tables of TOML that exist only by what is
// in them go with the last of it.
func (d *document) proveCut(out []byte, f Format, chain []*node) error {
	before, after, err := d.both(out, f)
	if err != nil {
		return err
	}
	want, _, ok := without(before, d.path)
	if !ok {
		return &Unproven{d.path, "the key cannot be told from others"}
	}
	if after == nil {
		after = Object{}
	}
	for i := len(d.path) - 1; i >= 0; i-- {
		if equal(want, after) {
			return nil
		}
		if i == 0 || f != TOML || !isEmpty(at(want, d.path[:i])) {
			break
		}
		want, _, _ = without(want, d.path[:i])
	}
	return &Unproven{d.path, "the new document differs in other keys"}
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case Object:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// both decodes the documents before and after an edit.
func (d *document) both(out []byte, f Format) (before, after any, err error) {
	if before, err = d.root.decode(); err != nil {
		return nil, nil, err
	}
	if after, err = Decode(out, f); err != nil {
		return nil, nil, &Unproven{d.path, fmt.Sprintf("the new document cannot be read: %v", err)}
	}
	return before, after, nil
}
