package computers

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/ownership"
	"github.com/weir-mcp/weir/smcp"
)

// The names of a Computer and of its servers are claimed before they are used:
//
//	desk                       its name in the office, /mcps/desk/mcp, and its namespace
//	desk-excel, desk.excel     each server: the upstream with its namespace, and /mcps/desk.excel/mcp
//
// A server whose name belongs to another owner gets no upstream; the log and Findings say so. With
// another name in its place, ids would depend on the order of arrival.

// Bindings returns the names that belong to Computers with keys, present or not.
func Bindings(keys map[string]ed25519.PublicKey) []ownership.Binding {
	var all []ownership.Binding
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		legal := legalName(name)
		space := catalog.MapNamespace(legal)
		all = append(all, ownership.Binding{
			Owner:      keyed(name, keys[name]),
			Want:       ownership.Want{Computers: []string{name, legal}, Names: []string{name, legal}, Namespaces: []string{space}},
			Names:      []string{name + ".", name + "-", legal + ".", legal + "-"},
			Namespaces: []string{space + "-"},
		})
	}
	return all
}

func keyed(name string, key ed25519.PublicKey) ownership.Owner {
	return ownership.Owner{Kind: ownership.Computer, ID: smcp.EncodeKey(key), Name: name, Key: true}
}

// WantedBy returns the names that a Computer needs before it may enter an office.
func WantedBy(computer string) ownership.Want {
	return ownership.Want{Computers: []string{computer, legalName(computer)}}
}

// OwnerOf returns the owner of a Computer: the holder of its key, or else the principal that may use
// its name in its office.
func OwnerOf(computer, office, principal string, key ed25519.PublicKey) ownership.Owner {
	if key != nil {
		return keyed(computer, key)
	}
	return ownership.Owner{Kind: ownership.Computer, ID: office + "\x00" + principal, Name: computer}
}

// owner returns the owner of a Computer of this office.
func (f *Fleet) owner(computer string) ownership.Owner {
	key := f.key(computer)
	if key == nil && f.opts.Owner != nil {
		if o, ok := f.opts.Owner(computer); ok {
			return o
		}
	}
	return OwnerOf(computer, f.opts.Agent.URL+"\x00"+f.opts.Agent.Office, "", key)
}

// namesOf returns the name and the path of the upstream for a server of a Computer. Server "" is the
// Computer itself.
func namesOf(computer, server string) (upstream, path string) {
	if server == "" {
		return legalName(computer), computer
	}
	return legalName(computer) + "-" + legalName(server), computer + "." + server
}

// claim claims the names of an upstream for the owner of its Computer.
func (f *Fleet) claim(computer string, a attached) error {
	return f.names.Claim(f.owner(computer), ownership.Want{Names: []string{a.name, a.route}, Namespaces: []string{catalog.MapNamespace(a.name)}})
}

// admitted claims the name of the Computer itself and reports whether it may have upstreams.
func (c *computer) admitted() bool {
	f := c.fleet
	if err := f.names.Claim(f.owner(c.name), WantedBy(c.name)); err != nil {
		c.omit("", legalName(c.name), fmt.Sprintf("the Computer %q", c.name), err)
		return false
	}
	name, path := namesOf(c.name, "")
	_ = f.claim(c.name, attached{name: name, route: path}) // attach reports the owner, if the name is needed
	return true
}

// omit records why a server of the Computer has no upstream. It logs each reason once.
func (c *computer) omit(key, name, what string, reason error) {
	found := catalog.Finding{Kind: catalog.FoundTaken, Upstream: name, Name: c.name, Message: fmt.Sprintf(
		"%s is left out: %v. Give one of them another name, such as with weir computer --name", what, reason)}
	c.mu.Lock()
	known := c.reported[key] == found
	if c.omitted == nil {
		c.omitted = map[string]catalog.Finding{}
	}
	c.omitted[key] = found
	c.mu.Unlock()
	if !known {
		c.fleet.log.Warn(found.Message, "computer", c.name, "upstream", name, "finding", string(found.Kind))
	}
}

// maxFindings bounds the result of Findings.
const maxFindings = 1000

// Findings returns a finding for each Computer and each server that is left out.
func (f *Fleet) Findings() []catalog.Finding {
	f.mu.Lock()
	computers := slices.SortedFunc(maps.Values(f.computers), func(a, b *computer) int { return strings.Compare(a.name, b.name) })
	f.mu.Unlock()
	var all []catalog.Finding
	for _, c := range computers {
		c.mu.Lock()
		for _, key := range slices.Sorted(maps.Keys(c.omitted)) {
			all = append(all, c.omitted[key])
		}
		c.mu.Unlock()
	}
	return all[:min(len(all), maxFindings)]
}

// legalName returns the name of an upstream, which becomes part of URLs. A name without any legal
// character is replaced by a hash.
func legalName(s string) string {
	legal := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, s)
	if legal = strings.TrimLeft(legal, "._-"); legal == "" {
		sum := sha256.Sum256([]byte(ownership.Fold(s)))
		return "computer_" + hex.EncodeToString(sum[:4])
	}
	return legal[:min(len(legal), 60)]
}
