package artifact

import (
	"strings"
)

// Nodes names the node of a cluster that a store is in, and reaches the stores of other nodes. Tokens name the node that made
// them:
//
//	INC-RANDOM    INC: 6 letters and digits of the node's incarnation
//
// All functions are called concurrently.
type Nodes struct {
	// Inc returns the incarnation of this node.
	Inc func() string
	// Rows returns the rows behind a token that the node with an INC made.
	Rows func(inc, token string) Source
}

// incChars is the length of an INC.
const incChars = 6

// tokenMark stands between the INC and the random part of a token. Servers that check the form of a
// resource_url know letters, digits, "-" and "_".
const tokenMark = "-"

// mark returns the beginning of a token of this node, "" outside of clusters.
func (n *Nodes) mark() string {
	if n == nil {
		return ""
	}
	return n.Inc() + tokenMark
}

// TokenNode returns the INC of the node that made a token, "" if the token names none.
func TokenNode(token string) string {
	if len(token) != incChars+len(tokenMark)+tokenChars || token[incChars:incChars+len(tokenMark)] != tokenMark || !isInc(token[:incChars]) {
		return ""
	}
	return token[:incChars]
}

func isInc(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9') })
}

// claimElsewhere claims the token of another node. The rows are at that node, which spends the token with
// the first of them. They cannot be returned to it.
func (s *Local) claimElsewhere(value string) (*Claim, error) {
	n, inc := s.opts.Nodes, TokenNode(value)
	if n == nil || n.Rows == nil || inc == "" || inc == n.Inc() {
		return nil, ErrToken
	}
	c := &content{budget: s.budget, source: n.Rows(inc, value), holders: 1}
	return &Claim{Lease: &Lease{c: c}, store: s, token: &token{item: &item{content: c, single: true}, claimed: true}}, nil
}
