package bridge

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"sync"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// markPrefix is the prefix of a state of a server program that is marked with its node:
//
//	weir3.INC-TAG.STATE    TAG: names the cluster
const markPrefix = "weir3."

// Marks put the node into the states that a modern server program gives agents. Each node of a cluster has a
// program of its own, and no other one knows its states. A mark proves nothing: the program judges the state
// itself. Marks are safe for concurrent use.
type Marks struct {
	inc  func() string
	tags []string // "-TAG.", of each key; the first one is for new marks

	mu  sync.Mutex // guards own
	own []string   // incarnations of this process in given marks, the latest last; at most maxOwn
}

// maxOwn bounds the incarnations of this process that Marks remember.
const maxOwn = 64

// NewMarks returns Marks for a node of a cluster.
func NewMarks(n *Nodes) *Marks {
	m := &Marks{inc: n.Inc}
	for _, key := range n.Keys {
		tag := sha256.Sum256(append([]byte("mark tag\x00"), key...))
		m.tags = append(m.tags, "-"+hex.EncodeToString(tag[:4])+".")
	}
	return m
}

// Out returns the result of a program with a mark on its state, if it has one.
func (m *Marks) Out(result json.RawMessage) json.RawMessage {
	if !IsInputRequired(result) {
		return result
	}
	state := rawjson.Text(rawjson.Get(result, "requestState"))
	if state == "" {
		return result
	}
	inc := m.inc()
	if inc == "" { // the only node: no other one could take the state for its own
		return result
	}
	m.note(inc)
	marked, err := rawjson.Set(result, "requestState", rawjson.Quote(markPrefix+inc+m.tags[0]+state))
	if err != nil {
		return result // its readers report the fault
	}
	return marked
}

// In returns the params of a request for a program, with the state that the program has given. The error is
// of mcp.KindInvalidParams for a state of a program elsewhere.
func (m *Marks) In(params json.RawMessage) (json.RawMessage, error) {
	if !rawjson.MayHold(params, markPrefix) {
		return params, nil
	}
	state := rawjson.Text(rawjson.Get(params, "requestState"))
	inc, given, ours := markedNode(state), "", false
	for _, tag := range m.tags {
		if inc != "" && !ours {
			given, ours = strings.CutPrefix(state[len(markPrefix)+incChars:], tag)
		}
	}
	if !ours {
		return params, nil // of another weir further along the way
	}
	if inc != m.inc() && !m.noted(inc) {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "the node whose server program waited for these answers is gone; make the call again without requestState")
	}
	return rawjson.Set(params, "requestState", rawjson.Quote(given))
}

// note remembers that this process has given marks with an INC, which a node may lose.
func (m *Marks) note(inc string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.own); n > 0 && m.own[n-1] == inc {
		return
	}
	if len(m.own) == maxOwn {
		m.own = append(m.own[:0], m.own[1:]...)
	}
	m.own = append(m.own, strings.Clone(inc))
}

func (m *Marks) noted(inc string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.own {
		if one == inc {
			return true
		}
	}
	return false
}

// markedNode returns the INC in a marked state, "" if there is none.
func markedNode(state string) string { return nodeIn(state, markPrefix) }
