package setup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/json/splice"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/setup/journal"
)

// errHidden is the error for a change that would write the placeholder of a secret.
var errHidden = errors.New("the change has the text " + clients.Hidden + ", which stands for a secret: leave that value out to keep it, or give a new one. Of several in a list, each keeps its option before it")

// Digest identifies the contents of weir.yaml.
func (m *Machine) Digest() (string, error) {
	doc, _, err := readFile(m.Config)
	return digest(doc), err
}

// DigestWith identifies the contents of weir.yaml and of the sources' files.
func (m *Machine) DigestWith(sources []Source) (string, error) {
	all, err := m.Digest()
	for _, s := range sources {
		all += s.File + digest(s.doc)
	}
	return digest([]byte(all)), err
}

func digest(doc []byte) string {
	sum := sha256.Sum256(doc)
	return hex.EncodeToString(sum[:16])
}

// Entry returns the entry of a server in weir.yaml as a person may see it: secrets are hidden.
func (m *Machine) Entry(name string) (splice.Object, error) {
	_, entry, err := m.entry(name)
	if err != nil {
		return nil, err
	}
	return clients.Hide(name, entry), nil
}

// entry returns a server's path in weir.yaml, and its entry.
func (m *Machine) entry(name string) (splice.Path, splice.Object, error) {
	doc, existing, err := m.own()
	if err != nil {
		return nil, nil, err
	}
	at := slices.IndexFunc(existing, func(s clients.Server) bool { return s.Name == name })
	if at < 0 {
		return nil, nil, fmt.Errorf("%s: %w: %q; it has: %s", m.Config, ErrNoServer, name, strings.Join(namesOf(existing), ", "))
	}
	v, _, err := splice.Lookup(doc, m.format(), existing[at].Path)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", m.Config, err)
	}
	entry, ok := v.(splice.Object)
	if !ok {
		return nil, nil, fmt.Errorf("%s: %s is no object", m.Config, existing[at].Path)
	}
	return existing[at].Path, entry, nil
}

// Amend plans a change of a server's entry in weir.yaml. The change is a merge patch (RFC 7396): null
// takes a member out. Secrets in it go into the store. An element of a list that Entry shows with a
// hidden secret stays as it is.
func (m *Machine) Amend(name string, change splice.Object) (*Plan, error) {
	at, entry, err := m.entry(name)
	if err != nil {
		return nil, err
	}
	change = unhide(change, entry, clients.Hide(name, entry))
	hidden := false
	clients.MapTexts(change, func(text string) string {
		hidden = hidden || strings.Contains(text, clients.Hidden)
		return text
	})
	if hidden {
		return nil, errHidden
	}
	p := &Plan{Kind: "edit", Summary: name, m: m, Import: &clients.Plan{}}
	var concealed splice.Object
	concealed, p.Import.Secrets = clients.Conceal(name, change)
	if err := p.nameSecrets(); err != nil {
		return nil, err
	}
	var pairs []string
	for _, s := range p.Import.Secrets {
		pairs = append(pairs, s.Reference(), p.reference(s, Store))
	}
	renamed := clients.MapTexts(concealed, strings.NewReplacer(pairs...).Replace).(splice.Object)
	if edits := amendments(at, entry, renamed); len(edits) > 0 {
		p.Files = []File{{File: m.Config, Adds: []string{name}, format: m.format(), edits: edits}}
	}
	return p, nil
}

// unhide returns a change in which the hidden secrets in elements of lists are the secrets again.
// entry and shown are the same entry, as it is and as it was shown. An element that could stand for
// several secrets stays hidden.
func unhide(change, entry, shown splice.Object) splice.Object {
	out := slices.Clone(change)
	for i, m := range out {
		switch v := m.Value.(type) {
		case splice.Object:
			inner, _ := entry.Get(m.Key).(splice.Object)
			seen, _ := shown.Get(m.Key).(splice.Object)
			out[i].Value = unhide(v, inner, seen)
		case []any:
			inner, _ := entry.Get(m.Key).([]any)
			seen, _ := shown.Get(m.Key).([]any)
			out[i].Value = unhideList(v, inner, seen)
		}
	}
	return out
}

// unhideList is unhide for the elements of a list. Elements that look the same stand for the original
// ones in their order, if all are there, each after the same element. Otherwise the option before an
// element must tell which one it is.
func unhideList(list, entry, shown []any) []any {
	out := slices.Clone(list)
	for i, one := range list {
		text, isText := one.(string)
		if !isText || !strings.Contains(text, clients.Hidden) {
			continue
		}
		given, seen := places(list, text), places(shown, text)
		n := slices.Index(given, i)
		if len(seen) > 1 && !slices.EqualFunc(given, seen, func(g, s int) bool { return before(list, g) == before(shown, s) }) {
			option := before(list, i)
			other := func(all []any) func(int) bool { return func(at int) bool { return before(all, at) != option } }
			given, seen, n = slices.DeleteFunc(given, other(list)), slices.DeleteFunc(seen, other(shown)), 0
			if len(given) != 1 || !strings.HasPrefix(option, "-") {
				continue
			}
		}
		if len(given) == len(seen) {
			out[i] = entry[seen[n]]
		}
	}
	return out
}

// places returns the indices of a text in a list.
func places(list []any, text string) (at []int) {
	for i, one := range list {
		if have, ok := one.(string); ok && have == text {
			at = append(at, i)
		}
	}
	return at
}

// before returns the text before an element of a list.
func before(list []any, i int) string {
	if i == 0 {
		return ""
	}
	text, _ := list[i-1].(string)
	return text
}

// amendments returns the edits of a merge patch at a path.
func amendments(at splice.Path, have, change splice.Object) (edits []journal.Edit) {
	for _, member := range change {
		path := append(slices.Clone(at), member.Key)
		inner, isObject := member.Value.(splice.Object)
		old, hasObject := have.Get(member.Key).(splice.Object)
		switch {
		case member.Value == nil:
			if slices.ContainsFunc(have, func(m splice.Member) bool { return m.Key == member.Key }) {
				edits = append(edits, journal.Edit{Path: path, Remove: true})
			}
		case isObject && hasObject:
			edits = append(edits, amendments(path, old, inner)...)
		case isObject:
			edits = append(edits, journal.Edit{Path: path, Value: withoutNulls(inner)})
		default:
			edits = append(edits, journal.Edit{Path: path, Value: member.Value})
		}
	}
	return edits
}

// withoutNulls returns an object of a merge patch without the members that it removes.
func withoutNulls(o splice.Object) splice.Object {
	out := splice.Object{}
	for _, m := range o {
		if inner, ok := m.Value.(splice.Object); ok {
			m.Value = withoutNulls(inner)
		}
		if m.Value != nil {
			out = append(out, m)
		}
	}
	return out
}
