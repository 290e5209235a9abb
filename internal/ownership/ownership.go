// Package ownership records who owns the names of servers. A server has a name at /mcps/NAME/mcp
// and a namespace, the first part of its tools' ids. Servers come from four sources, and the
// operator controls only one of them:
//
//	mcpServers ─────────── Configure ─▶ always theirs ┐
//	keys of Computers ──── Bind ──────▶ theirs before │
//	                                    they come     ├─▶ Claim: nil, or whose it is
//	routing.json, POST /agents,                       │
//	Computers of an office ────────────▶ first come ──┘
//
// A claimed name belongs to its owner for the life of the Ledger, even while the owner is away: an
// agent that knows a tool's id must never run another owner's tool by it. Names that differ only in
// case, width or outer white space are the same; see Fold.
//
// The package knows nothing of servers, hubs and tools.
package ownership

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Bounds of a Ledger. A server takes two to four names.
const (
	maxHeld      = 65_536 // names of all owners together
	maxHeldByOne = 16_384 // names of one principal, office or key
)

// Fold returns the canonical form of a name: trimmed, composed (NFKC) and without case.
func Fold(name string) string {
	name = strings.TrimSpace(name)
	if isASCII(name) {
		return strings.ToLower(name)
	}
	// Folding can undo the composition, and composing can bring case back.
	for range 2 {
		name = norm.NFKC.String(cases.Fold().String(norm.NFKC.String(name)))
	}
	return strings.TrimSpace(name)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Kind is where an owner comes from.
type Kind string

// The kinds.
const (
	Agent    Kind = "agent"    // registered itself; ID is its principal
	Route    Kind = "route"    // of routing.json; ID is ""
	Computer Kind = "computer" // of an office; ID is its key, or its office and principal
)

// Owner is the owner of a name. Owners are equal if all fields are.
type Owner struct {
	Kind Kind
	ID   string
	Name string // its own name, exactly
	Key  bool   // ID is a key, so no other peer can come as this owner
}

// String says who that is, for messages.
func (o Owner) String() string {
	switch {
	case o.Kind == Route:
		return fmt.Sprintf("routes.%s of routing.json", o.Name)
	case o.Kind == Computer && o.Key:
		return fmt.Sprintf("the Computer %q, which has a key", o.Name)
	case o.Kind == Computer:
		return fmt.Sprintf("the Computer %q", o.Name)
	case o.ID == "" || o.ID == local:
		return fmt.Sprintf("the agent %q", o.Name)
	}
	return fmt.Sprintf("the agent %q of %q", o.Name, o.ID)
}

// local is the principal without tokens; messages do not mention it.
const local = "local"

// Want is the set of names that an owner wants.
type Want struct {
	Names      []string // at /mcps/NAME/mcp, and of upstreams
	Namespaces []string // in the grammar of ids
	Computers  []string // in offices
}

// takenError is the error for a name that belongs to another owner.
type takenError struct {
	What  string // "name", "namespace" or "name of a Computer"
	Name  string // that was wanted
	As    string // the name that it equals, where that is written in another way
	Owner string // whose it is, as Owner.String or "mcpServers.NAME"
}

// Error implements error. It names the owner of the name, and no remedy: that depends on the
// claimant.
func (t *takenError) Error() string {
	if t.As != "" && t.As != t.Name {
		return fmt.Sprintf("the %s %q counts as %q, which belongs to %s", t.What, t.Name, t.As, t.Owner)
	}
	return fmt.Sprintf("the %s %q belongs to %s", t.What, t.Name, t.Owner)
}

// Full is the error where no more names are remembered.
type Full struct{ Owner string }

// Error implements error.
func (f *Full) Error() string {
	return fmt.Sprintf("%s can have no further name: so many have been used since weir started that no more are remembered; use one that it had, or restart weir", f.Owner)
}

// Ledger is a set of names and their owners. It is safe for concurrent use. The zero value is empty
// and ready to use.
type Ledger struct {
	version atomic.Uint64

	mu       sync.Mutex // guards below
	operator map[key]operated
	bindings []Binding
	held     map[key]holding
	count    map[party]int
}

// Version returns a number that changes whenever a name may have been taken from its owner. An owner that claimed its
// names after a call of Version still has them while the number stays the same. It is cheap, and never zero.
func (l *Ledger) Version() uint64 { return l.version.Load() + 1 }

// key is one name in one of the spaces of names.
type key struct{ what, folded string }

// The spaces of names, as messages call them.
const (
	ofServer    = "name"
	ofNamespace = "namespace"
	ofComputer  = "name of a Computer"
)

// holding is the state of a claimed name.
type holding struct {
	owner Owner
	as    string // how the owner writes it
}

// operated is a name of the operator's.
type operated struct {
	by, as string
	now    bool // in the configuration that is in force
}

// party is who shares a bound.
type party struct {
	kind Kind
	id   string
}

// Configure replaces the configured names. The maps lead from names and from namespaces to the
// configuration keys that define them. No owner can claim these. When the configuration drops a
// name, its previous owner gets it back; a name without a previous owner stays the configuration's.
func (l *Ledger) Configure(names, namespaces map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := make(map[key]operated, len(names)+len(namespaces))
	for k, o := range l.operator {
		o.now = false
		next[k] = o
	}
	for what, all := range map[string]map[string]string{ofServer: names, ofNamespace: namespaces} {
		for name, by := range all {
			next[key{what, Fold(name)}] = operated{by, name, true}
		}
	}
	l.operator = next
	l.version.Add(1)
}

// Binding reserves names for an owner before it joins.
type Binding struct {
	Owner Owner
	Want  Want
	// Names are beginnings of names, also of Computers, and Namespaces of namespaces, that are its
	// own as well.
	Names, Namespaces []string
}

// Bind replaces the bindings. Only its owner can claim a bound name; another owner that has it
// loses it.
func (l *Ledger) Bind(bindings []Binding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bindings = bindings
	l.version.Add(1)
}

// covers reports whether a binding is about a name.
func (b *Binding) covers(k key) bool {
	exact, prefixes := b.Want.Names, b.Names
	switch k.what {
	case ofComputer:
		exact = b.Want.Computers
	case ofNamespace:
		exact, prefixes = b.Want.Namespaces, b.Namespaces
	}
	for _, name := range exact {
		if Fold(name) == k.folded {
			return true
		}
	}
	for _, prefix := range prefixes {
		if strings.HasPrefix(k.folded, Fold(prefix)) {
			return true
		}
	}
	return false
}

// bound returns the owner that a name is bound to, and whether o is one of them: two hubs may bind
// a name to different keys.
func (l *Ledger) bound(k key, o Owner) (to *Owner, own bool) {
	for i := range l.bindings {
		if b := &l.bindings[i]; b.covers(k) {
			if b.Owner == o {
				return &b.Owner, true
			}
			to = &b.Owner
		}
	}
	return to, false
}

// Claim gives an owner all names that it wants, or none; then the error is a *Taken or a *Full. An
// owner may claim the same names again, to check that it still has them.
func (l *Ledger) Claim(o Owner, w Want) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh := map[key]holding{}
	for _, part := range []struct {
		what  string
		names []string
	}{{ofComputer, w.Computers}, {ofServer, w.Names}, {ofNamespace, w.Namespaces}} {
		for _, name := range part.names {
			k := key{part.what, Fold(name)}
			if err := l.free(k, name, o); err != nil {
				return err
			}
			if l.held[k].owner != o {
				fresh[k] = holding{o, name}
			}
		}
	}
	more := 0
	for k := range fresh {
		if _, known := l.held[k]; !known {
			more++
		}
	}
	who := party{o.Kind, o.ID}
	if more > 0 && (len(l.held)+more > maxHeld || l.count[who]+more > maxHeldByOne) {
		return &Full{o.String()}
	}
	if l.held == nil {
		l.held, l.count = map[key]holding{}, map[party]int{}
	}
	for k := range fresh {
		if old, known := l.held[k]; known {
			l.count[party{old.owner.Kind, old.owner.ID}]--
			l.version.Add(1)
		}
		l.count[who]++
	}
	maps.Copy(l.held, fresh)
	return nil
}

// free returns why an owner cannot have a name. It is called under mu.
func (l *Ledger) free(k key, name string, o Owner) error {
	taken := func(as, owner string) error { return &takenError{k.what, name, as, owner} }
	operated, configured := l.operator[k]
	if configured && operated.now {
		return taken(operated.as, operated.by)
	}
	to, own := l.bound(k, o)
	if to != nil && !own {
		return taken("", to.String())
	}
	h, held := l.held[k]
	switch {
	case own || held && h.owner == o:
		return nil
	case held:
		return taken(h.as, h.owner.String())
	case configured:
		return taken(operated.as, operated.by+" of the configuration before; restart weir to free it")
	}
	return nil
}

// ComputerOf returns the owner that has claimed the name of a Computer, written
// exactly so.
func (l *Ledger) ComputerOf(name string) (Owner, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, ok := l.held[key{ofComputer, Fold(name)}]
	return h.owner, ok && h.owner.Name == name
}
