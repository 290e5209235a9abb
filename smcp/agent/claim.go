package agent

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
// What belongs to another owner is left out, which the log and Findings say: under
// another name it would have ids that depend on who came first.

// Bindings are the names that belong to Computers with keys, whether or not they are
// there.
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

// WantedBy is what a Computer with a name needs to be let into an office.
func WantedBy(computer string) ownership.Want {
	return ownership.Want{Computers: []string{computer, legalName(computer)}}
}

// OwnerOf is the owner that a Computer is: who has its key, or who may use its name
// in its office.
func OwnerOf(computer, office, principal string, key ed25519.PublicKey) ownership.Owner {
	if key != nil {
		return keyed(computer, key)
	}
	return ownership.Owner{Kind: ownership.Computer, ID: office + "\x00" + principal, Name: computer}
}

// owner is the owner that a Computer of this office is.
func (f *Fleet) owner(computer string) ownership.Owner {
	key := f.client.key(computer)
	if key == nil && f.o.Owner != nil {
		if o, ok := f.o.Owner(computer); ok {
			return o
		}
	}
	return OwnerOf(computer, f.o.Agent.URL+"\x00"+f.o.Agent.Office, "", key)
}

// namesOf returns the names of an upstream for a server of a Computer, or for the
// Computer itself where server is "".
func namesOf(computer, server string) (upstream, route string) {
	if server == "" {
		return legalName(computer), computer
	}
	return legalName(computer) + "-" + legalName(server), computer + "." + server
}

// claim claims what an upstream of a Computer is called.
func (f *Fleet) claim(h *hosted, a attached) error {
	return f.names.Claim(f.owner(h.name), ownership.Want{Names: []string{a.name, a.route}, Namespaces: []string{catalog.MapNamespace(a.name)}})
}

// admitted claims the name of a Computer itself, and reports whether it may have
// upstreams here.
func (f *Fleet) admitted(h *hosted) bool {
	if err := f.names.Claim(f.owner(h.name), WantedBy(h.name)); err != nil {
		f.leaveOut(h, "", legalName(h.name), fmt.Sprintf("the Computer %q", h.name), err)
		return false
	}
	name, route := namesOf(h.name, "")
	_ = f.claim(h, attached{name: name, route: route}) // what needs it says who has it
	return true
}

// leaveOut notes why a server of a Computer is no upstream, and says so once.
func (f *Fleet) leaveOut(h *hosted, key, name, what string, why error) {
	found := catalog.Finding{Kind: catalog.FoundTaken, Upstream: name, Name: h.name, Message: fmt.Sprintf(
		"%s is left out: %v. Give one of them another name, such as with weir computer --name", what, why)}
	h.mu.Lock()
	told := h.told[key] == found
	if h.left == nil {
		h.left = map[string]catalog.Finding{}
	}
	h.left[key] = found
	h.mu.Unlock()
	if !told {
		f.log.Warn(found.Message, "computer", h.name, "upstream", name, "finding", string(found.Kind))
	}
}

// maxFindings bounds what Findings returns.
const maxFindings = 1000

// Findings says which Computers and servers are left out, and why.
func (f *Fleet) Findings() []catalog.Finding {
	f.mu.Lock()
	computers := slices.SortedFunc(maps.Values(f.computers), func(a, b *hosted) int { return strings.Compare(a.name, b.name) })
	f.mu.Unlock()
	var all []catalog.Finding
	for _, h := range computers {
		h.mu.Lock()
		for _, key := range slices.Sorted(maps.Keys(h.left)) {
			all = append(all, h.left[key])
		}
		h.mu.Unlock()
	}
	return all[:min(len(all), maxFindings)]
}

// legalName makes a name for an upstream, which stands in URLs. Names without a legal
// character are told apart by a hash.
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
