package firstrun

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/clients"
	"github.com/weir-mcp/weir/internal/journal"
	"github.com/weir-mcp/weir/internal/splice"
)

// errHidden is the error for a change that would write what stands for a secret.
var errHidden = errors.New("the change has the text " + clients.Hidden + ", which stands for a secret: leave that value out to keep it, or give a new one")

// Digest identifies the contents of weir.yaml.
func (m *Machine) Digest() (string, error) {
	doc, _, err := readFile(m.Config)
	return digest(doc), err
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
// takes a member out. Secrets in it go into the store.
func (m *Machine) Amend(name string, change splice.Object) (*Plan, error) {
	at, entry, err := m.entry(name)
	if err != nil {
		return nil, err
	}
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

// withoutNulls returns an object of a merge patch without what it takes out.
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
