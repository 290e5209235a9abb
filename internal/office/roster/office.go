package roster

import (
	"errors"
	"fmt"
	"slices"
)

// Everywhere is the node of an Agent that is at several nodes: weir's own gateway.
const Everywhere = "*"

// Role is the role of a Member.
type Role string

// Roles, with the texts of the protocol.
const (
	Agent    Role = "agent"
	Computer Role = "computer"
)

// Member is one member of an office. It never changes once it has joined; only Join sets Ousted, and an
// Agent that is Everywhere is replaced by a copy.
type Member struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
	// Node is the INC of the node that has the connection, Everywhere, or "" in a hub of one process.
	Node string `json:"node,omitempty"`
	// Nodes are the nodes of an Agent that is Everywhere.
	Nodes []string `json:"nodes,omitempty"`
	// SID is the id of the connection. Gen counts the joins at its node: together they name one
	// membership for good.
	SID string `json:"sid"`
	Gen uint64 `json:"gen,omitempty"`
	// Dialect is a number that the hub understands. Version is the peer's text of it.
	Dialect uint8  `json:"dialect,omitempty"`
	Version string `json:"version,omitempty"`
	// Alone says that the peer's dialect has one Computer in an office.
	Alone bool `json:"alone,omitempty"`
	// MCP says that the peer takes messages of channels.
	MCP       bool   `json:"mcp,omitempty"`
	Principal string `json:"principal,omitempty"`
	// Key is the key that the peer has proven, "" for none.
	Key string `json:"proven,omitempty"`
	// Instance identifies the process of a peer with a key. Ousted is the process that it replaced.
	Instance string `json:"instance,omitempty"`
	Ousted   string `json:"ousted,omitempty"`

	// Peer is the connection at this node; nil for members at other nodes.
	Peer any `json:"-"`

	raw []byte // of the document; nil: made by this process
}

// Is reports whether two values are the same membership.
func (m *Member) Is(other *Member) bool {
	if m.Node == Everywhere || other.Node == Everywhere {
		return m.Node == other.Node && m.Name == other.Name
	}
	return m.SID == other.SID && m.Gen == other.Gen
}

// SameOwner reports whether a member that joins and the holder of its place belong to one owner.
func (m *Member) SameOwner(holder *Member) bool {
	switch {
	case holder.Node == Everywhere || m.Node == Everywhere || holder.Name != m.Name || holder.Role != m.Role:
		return false
	case m.Key != "" || holder.Key != "":
		return m.Key == holder.Key
	}
	return m.Principal == holder.Principal
}

// Replaces reports whether m takes the place of a holder at once: it has proven the same key, and is not
// the process that the holder replaced.
func (m *Member) Replaces(holder *Member) bool {
	return m.Key != "" && m.SameOwner(holder) && (m.Instance == "" || m.Instance != holder.Ousted)
}

// Errors of Join. A *TakenError is another one.
var (
	ErrFull   = errors.New("the office has as many Computers as it may have")
	ErrSingle = errors.New("the office has a Computer, and a member's dialect has one alone")
)

// TakenError says who has the place that a member wants.
type TakenError struct{ Holder *Member }

// Error implements error.
func (e *TakenError) Error() string {
	return fmt.Sprintf("the place is held by the %s %q", e.Holder.Role, e.Holder.Name)
}

// Office is who is in an office: one Agent at most, and Computers by their names. The zero value is empty.
type Office struct {
	ID        string
	Agent     *Member
	Computers map[string]*Member

	rest  []byte    // the document that it was read from
	order []*Member // Computers as there; nil in a clone
}

// Empty reports whether an office has no members.
func (o *Office) Empty() bool { return o.Agent == nil && len(o.Computers) == 0 }

// Terms are the conditions of a Join.
type Terms struct {
	// Max bounds the Computers.
	Max int
	// Free is the SID of a holder that does not answer and loses its place; "" for none.
	Free string
	// May has the last word; nil allows.
	May func() error
}

// Join adds a member. It returns the member that lost its place to m, and changes nothing if it returns
// an error, or if m is a member.
func (o *Office) Join(m *Member, t Terms) (replaced *Member, err error) {
	holder := o.Computers[m.Name]
	if m.Role == Agent {
		holder = o.Agent
	}
	if holder != nil {
		switch {
		case m.Node == Everywhere && holder.Is(m):
			if slices.ContainsFunc(m.Nodes, func(n string) bool { return slices.Contains(holder.Nodes, n) }) {
				if m.SID == holder.SID {
					return nil, nil
				}
				return nil, &TakenError{holder}
			}
			if err := t.may(); err != nil {
				return nil, err
			}
			both := *holder
			both.raw, both.Nodes = nil, append(slices.Clip(holder.Nodes), m.Nodes...)
			o.Agent = &both
			return nil, nil
		case holder.Is(m):
			return nil, nil
		case holder.SID != t.Free && !m.Replaces(holder):
			return nil, &TakenError{holder}
		}
	}
	if m.Role == Computer {
		others := len(o.Computers)
		if holder != nil {
			others--
		}
		if others >= t.Max {
			return nil, ErrFull
		}
		if others > 0 && o.single(m, holder) {
			return nil, ErrSingle
		}
	}
	if err := t.may(); err != nil {
		return nil, err
	}
	if holder != nil {
		m.Ousted = holder.Instance
		if holder.Instance == m.Instance { // the same process on a new connection
			m.Ousted = holder.Ousted
		}
	}
	if m.Role == Agent {
		o.Agent = m
		return holder, nil
	}
	if o.Computers == nil {
		o.Computers = map[string]*Member{}
	}
	o.Computers[m.Name] = m
	return holder, nil
}

func (t Terms) may() error {
	if t.May == nil {
		return nil
	}
	return t.May()
}

// single reports whether m, the Agent or a Computer other than holder has a dialect of one Computer.
func (o *Office) single(m, holder *Member) bool {
	if m.Alone || o.Agent != nil && o.Agent.Alone {
		return true
	}
	for _, c := range o.Computers {
		if c != holder && c.Alone {
			return true
		}
	}
	return false
}

// Leave removes a member, and reports whether it was one.
func (o *Office) Leave(m *Member) bool {
	if m.Role == Computer {
		c := o.Computers[m.Name]
		if c == nil || !c.Is(m) {
			return false
		}
		delete(o.Computers, m.Name)
		return true
	}
	switch {
	case o.Agent == nil || !o.Agent.Is(m):
		return false
	case m.Node == Everywhere:
		left := false
		for _, node := range m.Nodes {
			left = o.withdraw(node) || left
		}
		return left
	}
	o.Agent = nil
	return true
}

// withdraw takes a node from an Agent that is Everywhere.
func (o *Office) withdraw(node string) bool {
	if o.Agent == nil || !slices.Contains(o.Agent.Nodes, node) {
		return false
	}
	less := *o.Agent
	less.raw, less.Nodes = nil, slices.DeleteFunc(slices.Clone(less.Nodes), func(n string) bool { return n == node })
	o.Agent = &less
	if len(less.Nodes) == 0 {
		o.Agent = nil
	}
	return true
}

// Drop removes all members of a node, and reports whether there were any.
func (o *Office) Drop(node string) bool {
	dropped := o.withdraw(node)
	if o.Agent != nil && o.Agent.Node == node {
		o.Agent, dropped = nil, true
	}
	for name, c := range o.Computers {
		if c.Node == node {
			delete(o.Computers, name)
			dropped = true
		}
	}
	return dropped
}

// Members calls f with each member.
func (o *Office) Members(f func(*Member)) {
	if o.Agent != nil {
		f(o.Agent)
	}
	for _, c := range o.Computers {
		f(c)
	}
}

// Spans returns the nodes that have members.
func (o *Office) Spans() []string {
	var nodes []string
	add := func(node string) {
		if node != "" && node != Everywhere && !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
	}
	o.Members(func(m *Member) {
		add(m.Node)
		for _, n := range m.Nodes {
			add(n)
		}
	})
	return nodes
}
