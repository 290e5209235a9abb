package lockfile

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text/visible"
)

// Bounds of one Difference.
const (
	maxMembers = 200  // changed members
	maxShown   = 2000 // characters of a value
	maxDepth   = 24   // below it, values are compared whole
)

// A Difference is one definition that differs from the lock.
type Difference struct {
	Server string             `json:"server"`
	Kind   primitive.Kind     `json:"kind"`
	Name   string             `json:"name"`
	Change catalog.ChangeKind `json:"change"`
	// Hash is the hash of the present definition, "" if it is gone. Accept takes a Difference by it,
	// so that an operator accepts only definitions that the operator has seen.
	Hash    string   `json:"hash,omitempty"`
	Members []Member `json:"members,omitempty"`
	// Findings name the points that an operator should look at first.
	Findings []Finding `json:"findings,omitempty"`
	// Held means that the entry is hidden from clients until it is accepted.
	Held bool `json:"held,omitempty"`
	// Notice means that the difference never hides anything: the version or the place of a server.
	Notice bool `json:"notice,omitempty"`
}

// A Member is one member of a definition before and after, as JSON with its invisible characters
// escaped; "" if absent. Path is "inputSchema.properties.path.description".
type Member struct {
	Path   string `json:"path"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// String returns the difference as one line, without the values.
func (d Difference) String() string {
	s := fmt.Sprintf("%s %s", d.Change, d.Thing())
	if d.Change != catalog.EntryChanged {
		return s
	}
	for i, m := range d.Members {
		s += ": , "[2*min(i, 1):][:2] + m.Path
		if i == 4 && len(d.Members) > 5 {
			return s + fmt.Sprintf(" and %d more", len(d.Members)-5)
		}
	}
	return s
}

// Thing names the changed thing, in one line.
func (d Difference) Thing() string {
	if d.Kind == KindServer {
		return fmt.Sprintf("server %q", d.Server)
	}
	return fmt.Sprintf("%s %s of server %q", strings.ReplaceAll(string(d.Kind), "_", " "), shownName(d.Name), d.Server)
}

// shownName returns the name of a definition, quoted and bounded, with invisible characters escaped.
func shownName(name string) string {
	return cut(string(visible.JSON(rawjson.Quote(name))), 120)
}

// Key returns the key of the definition.
func (d Difference) Key() Key { return Key{d.Kind, d.Name} }

// compareServer returns how a server differs from the lock, sorted. locked must not be nil.
func compareServer(locked *lockedServer, now *observedServer) []Difference {
	var all []Difference
	for k, seen := range now.definitions {
		if d, differs := compareOne(now.Server, k, locked.get(k), seen); differs {
			all = append(all, d)
		}
	}
	for kind, definitions := range locked.kinds() {
		for name, before := range definitions {
			if _, there := now.definitions[Key{kind, name}]; !there {
				all = append(all, Difference{Server: now.Server, Kind: kind, Name: name, Change: catalog.EntryRemoved, Members: members(before.Text, nil)})
			}
		}
	}
	if d, ok := moved(locked, now); ok {
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b Difference) int {
		return cmp.Or(compareKeys(a.Key(), b.Key()), cmp.Compare(b2i(a.Notice), b2i(b.Notice)))
	})
	return all
}

// compareOne compares a definition with the lock, which may not have it.
func compareOne(server string, k Key, before *definition, seen observed) (d Difference, differs bool) {
	d = Difference{Server: server, Kind: k.Kind, Name: k.Name, Change: catalog.EntryChanged, Hash: seen.hash}
	switch {
	case before.accepts(seen.hash):
		return d, false
	case before == nil:
		d.Change, d.Members = catalog.EntryAdded, members(nil, seen.raw)
	case before.Text == nil: // too long to be kept
		d.Members = []Member{{Path: "(hash)", Before: before.Hash, After: seen.hash}}
	default:
		d.Members = members(before.Text, seen.raw)
	}
	return d, true
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// moved compares who a server is and where it runs.
func moved(locked *lockedServer, now *observedServer) (d Difference, ok bool) {
	d = Difference{Server: now.Server, Kind: KindServer, Change: catalog.EntryChanged, Notice: true, Hash: now.Digest()}
	for _, m := range []struct{ path, before, after string }{
		{"command", locked.Command, now.Endpoint.Command}, {"name", locked.Name, now.Name}, {"url", locked.URL, now.Endpoint.URL}, {"version", locked.Version, now.Version},
	} {
		if m.before != m.after {
			d.Members = append(d.Members, Member{m.path, shown(quoted(m.before)), shown(quoted(m.after))})
		}
	}
	return d, len(d.Members) > 0
}

func quoted(s string) []byte {
	if s == "" {
		return nil
	}
	return rawjson.Quote(s)
}

// members compares two definitions member by member. Either may be nil.
func members(before, after []byte) []Member {
	c := comparison{}
	c.compare("", before, after, 0)
	slices.SortStableFunc(c.out, func(a, b Member) int { return cmp.Compare(a.Path, b.Path) })
	return c.out
}

type comparison struct{ out []Member }

// compare adds the differences of two values. A nil value is absent.
func (c *comparison) compare(path string, before, after []byte, depth int) {
	if len(c.out) >= maxMembers || same(before, after) {
		return
	}
	if depth < maxDepth && divisible(before, after) {
		type pair struct{ before, after []byte }
		pairs := map[string]pair{}
		var order []string
		for i, obj := range [][]byte{before, after} {
			twice := map[string]bool{}
			_ = rawjson.EachMember(obj, func(m rawjson.Member) bool { // definitions are valid JSON
				key := string(m.Key)
				p, known := pairs[key]
				if !known {
					order = append(order, key)
				}
				if twice[key] { // readers may take either
					c.add(join(path, key)+" (again)", nil, m.Value)
					return len(c.out) < maxMembers
				}
				twice[key] = true
				if i == 0 {
					p.before = m.Value
				} else {
					p.after = m.Value
				}
				pairs[key] = p
				return len(order) < 4*maxMembers
			})
		}
		for _, key := range order {
			c.compare(join(path, key), pairs[key].before, pairs[key].after, depth+1)
		}
		return
	}
	c.add(path, before, after)
}

// divisible reports whether two values are compared by their members: two objects, or one with members
// of which the other side is absent.
func divisible(before, after []byte) bool {
	switch {
	case before == nil:
		return rawjson.IsObject(after) && !rawjson.IsEmptyObject(after)
	case after == nil:
		return rawjson.IsObject(before) && !rawjson.IsEmptyObject(before)
	}
	return rawjson.IsObject(before) && rawjson.IsObject(after)
}

func (c *comparison) add(path string, before, after []byte) {
	if len(c.out) < maxMembers {
		c.out = append(c.out, Member{cmp.Or(path, "(definition)"), shown(before), shown(after)})
	}
}

// join appends a key to a path.
func join(path, key string) string {
	if key == "" || strings.ContainsAny(key, ". \"") || visible.Find(key) != 0 {
		key = string(visible.JSON(rawjson.Quote(key)))
	}
	if path == "" {
		return cut(key, 200)
	}
	return cut(path+"."+key, 200)
}

// same reports whether two values are equal, however they are written.
func same(a, b []byte) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	if bytes.Equal(a, b) {
		return true
	}
	one, ok := rawjson.AppendCanonical(nil, a)
	two, okToo := rawjson.AppendCanonical(nil, b)
	return ok && okToo && bytes.Equal(one, two)
}

// shown returns a value for people.
func shown(raw []byte) string {
	if raw == nil {
		return ""
	}
	if canonical, ok := rawjson.AppendCanonical(nil, raw); ok {
		raw = canonical
	}
	return cut(string(visible.JSON(raw)), maxShown)
}

// cut bounds a text, in characters, and says how many were cut.
func cut(s string, most int) string {
	n := utf8.RuneCountInString(s)
	if n <= most {
		return s
	}
	at := 0
	for i := range s {
		if at == most {
			return s[:i] + "… (" + strconv.Itoa(n-most) + " more characters)"
		}
		at++
	}
	return s
}
