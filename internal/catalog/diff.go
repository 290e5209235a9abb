package catalog

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// ChangeKind is the kind of a change.
type ChangeKind string

// The kinds of change.
const (
	EntryAdded   ChangeKind = "added"
	EntryRemoved ChangeKind = "removed"
	EntryChanged ChangeKind = "changed" // its definition changed
)

// Change is one entry that differs between two listings of its upstream. Operators see changes
// because a server that was trusted for its first definitions can change them later.
type Change struct {
	Change   ChangeKind     `json:"change"`
	Kind     primitive.Kind `json:"kind"`
	Upstream string         `json:"upstream"`
	Name     string         `json:"name"` // raw name, or the URI of a resource
	ID       string         `json:"id"`   // current id; of a removed entry, the last one
	// WasID is the previous id if it differs: the arguments or the version changed, so calls with
	// the old id fail.
	WasID string `json:"was_id,omitempty"`
	// Fields are the changed members of the definition.
	Fields []FieldChange `json:"fields,omitempty"`
}

// FieldChange is one member of a definition before and after, as JSON cut to 2,000 characters; ""
// if absent.
type FieldChange struct {
	Field  string `json:"field"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// String returns the change as one line, without the values.
func (c Change) String() string {
	s := fmt.Sprintf("%s %s %q of server %q", c.Change, c.Kind, clip(c.Name, 120), c.Upstream)
	for i, f := range c.Fields {
		s += ": , "[2*min(i, 1):][:2] + f.Field
	}
	return s
}

// maxChangedChars bounds a value in a FieldChange.
const maxChangedChars = 2000

// Key returns the key of the entry.
func (e *Entry) Key() primitive.Key {
	return primitive.Key{Upstream: e.Upstream, Kind: e.Kind, Name: e.key()}
}

// Compare returns the change from one entry to another; either may be nil. ok is false if there is
// none.
func Compare(before, after *Entry) (c Change, ok bool) {
	switch {
	case before == after:
		return c, false
	case before == nil:
		return Change{Change: EntryAdded, Kind: after.Kind, Upstream: after.Upstream, Name: after.key(), ID: after.ID}, true
	case after == nil:
		return Change{Change: EntryRemoved, Kind: before.Kind, Upstream: before.Upstream, Name: before.key(), ID: before.ID}, true
	}
	c = Change{Change: EntryChanged, Kind: after.Kind, Upstream: after.Upstream, Name: after.key(), ID: after.ID}
	if before.ID != after.ID {
		c.WasID = before.ID
	}
	if before.digest != after.digest {
		c.Fields = fields(before.Raw, after.Raw)
	}
	return c, len(c.Fields) > 0
}

// fields compares the members of two definitions by value.
func fields(before, after []byte) []FieldChange {
	type pair struct{ before, after []byte }
	var order []string
	values := map[string]*pair{}
	read := func(raw []byte, put func(*pair, []byte)) {
		members(raw, func(key, value []byte) bool {
			name := string(key)
			if values[name] == nil {
				values[name] = new(pair)
				order = append(order, name)
			}
			put(values[name], value)
			return true
		})
	}
	read(before, func(p *pair, v []byte) { p.before = v })
	read(after, func(p *pair, v []byte) { p.after = v })
	var changed []FieldChange
	for _, name := range order {
		p := values[name]
		if bytes.Equal(p.before, p.after) {
			continue
		}
		old, ok := rawjson.AppendCanonical(nil, p.before)
		now, okNow := rawjson.AppendCanonical(nil, p.after)
		if ok && okNow && bytes.Equal(old, now) {
			continue // same value in another notation
		}
		changed = append(changed, FieldChange{clip(name, 100), clip(string(p.before), maxChangedChars), clip(string(p.after), maxChangedChars)})
	}
	slices.SortFunc(changed, func(a, b FieldChange) int { return strings.Compare(a.Field, b.Field) })
	return changed
}

// diff compares the entries of an upstream before and after a listing. It returns at most
// maxFindings changes.
func diff(before, after []*Entry) []Change {
	old := make(map[primitive.Key]*Entry, len(before))
	for _, e := range before {
		old[e.Key()] = e
	}
	var changes []Change
	add := func(before, after *Entry) {
		if c, ok := Compare(before, after); ok && len(changes) < maxFindings {
			changes = append(changes, c)
		}
	}
	for _, e := range after {
		key := e.Key()
		add(old[key], e)
		delete(old, key)
	}
	for _, e := range before {
		if gone := old[e.Key()]; gone == e {
			add(e, nil)
		}
	}
	SortChanges(changes)
	return changes
}

// SortChanges sorts by upstream, kind and name.
func SortChanges(changes []Change) {
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(strings.Compare(a.Upstream, b.Upstream), strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Name, b.Name))
	})
}
