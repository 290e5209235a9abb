package cluster

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Self is what a node tells the others of itself with each renewal.
type Self struct {
	Version string // of weir
	// Config is the hash of the configuration without the keys in which nodes differ. Nodes show
	// whether they have the same one.
	Config string
	Load   Load
}

// Load is the work of a node.
type Load struct {
	Calls    int     `json:"calls"`    // requests in flight
	Sessions int     `json:"sessions"` // that live at the node
	CPU      float64 `json:"cpu"`      // cores that its process used lately
}

// Bounds within which nodes agree.
const (
	maxSkew = time.Minute
	// configTime is how long nodes may have different configurations before the log says so: a new one
	// reaches them one after another.
	configTime = time.Minute
)

// NodeStatus is a node as another one sees it.
type NodeStatus struct {
	Peer
	Self bool          // the node that tells
	Skew time.Duration // how far its clock is ahead; 0 until it was measured
}

// Skewed reports whether the clock of the node differs by more than is harmless.
func (s NodeStatus) Skewed() bool { return s.Skew.Abs() > maxSkew }

// Draining reports whether a node takes no new work.
func (p Peer) Draining() bool { return p.State == stateDraining }

// Status returns the nodes of the cluster as n sees them, sorted by name. While n is apart, its own State is "apart", and
// the State of each other node is its answer over the peer link, "unknown" if it does not answer.
func Status(n *Node) []NodeStatus {
	apart, nodes := Apart(n), n.nodes.statuses()
	n.mu.Lock()
	self := NodeStatus{Peer: n.own, Self: true}
	self.Inc = n.life.inc
	n.mu.Unlock()
	if apart {
		self.State = stateApart
	}
	all := make([]NodeStatus, 0, len(nodes)+1)
	for _, s := range nodes {
		switch {
		case s.Inc == self.Inc:
			self.Skew = s.Skew
			continue
		case apart:
			s.State = cmp.Or(n.contact.told(s.Inc), stateUnknown)
		}
		all = append(all, s)
	}
	all = append(all, self)
	slices.SortFunc(all, func(a, b NodeStatus) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Inc, b.Inc)) })
	return all
}

// Differing returns the hashes of the configurations of some nodes, each with the names of its nodes,
// if there is more than one.
func Differing(all []NodeStatus) map[string][]string {
	by := map[string][]string{}
	for _, s := range all {
		if s.Config != "" {
			by[s.Config] = append(by[s.Config], s.Name)
		}
	}
	if len(by) < 2 {
		return nil
	}
	return by
}

// loggedState remembers what was logged about other nodes, so that it is logged once. Only the
// goroutine of run uses it.
type loggedState struct {
	skewed  map[string]bool // by INC
	differs time.Time       // since when configurations differ
	configs string          // the difference that was logged
	writes  int             // the version in which documents are written
}

// compare logs nodes that do not agree with each other. now is the version in which documents are written.
func (t *loggedState) compare(log *slog.Logger, now int, all []NodeStatus) {
	if now != t.writes {
		if t.writes != 0 {
			log.Info("documents of the cluster are written in another version from now on, which all nodes understand", "version", now, "before", t.writes)
		}
		t.writes = now
	}
	skewed := map[string]bool{}
	for _, s := range all {
		if !s.Skewed() || s.Self {
			continue
		}
		skewed[s.Inc] = true
		if !t.skewed[s.Inc] {
			log.Warn("the clocks of two nodes differ; quotas and the ends of tokens depend on them: set both by NTP", "node", s.Name, "ahead", s.Skew.Round(time.Second))
		}
	}
	t.skewed = skewed
	by := Differing(all)
	if by == nil {
		t.differs, t.configs = time.Time{}, ""
		return
	}
	if t.differs.IsZero() {
		t.differs = time.Now()
	}
	var groups []string
	for hash, names := range by {
		groups = append(groups, fmt.Sprintf("%s: %s", hash, strings.Join(names, ", ")))
	}
	slices.Sort(groups)
	text := strings.Join(groups, "; ")
	if text != t.configs && time.Since(t.differs) >= configTime {
		t.configs = text
		log.Warn("nodes have different configurations; give all of them the same file", "configs", text)
	}
}

// Figures count what a node does in its cluster.
type Figures struct {
	Nodes     map[string]int // by state
	Forwarded int64          // requests that were sent to the node of their session
	Adopted   int64          // sessions of other nodes that this one took over
	Broken    int64          // requests that were at a node when it ended
	Fenced    int64          // incarnations that the store did not acknowledge in time
	Renewals  int64          // of this node that the store has acknowledged
	Renewing  time.Duration  // how long these took in all
	Apart     bool           // the store does not know this node
	Silence   time.Duration  // see Silence
}

// counters are the sums of Figures.
type counters struct{ forwarded, adopted, broken, fenced, renewals, renewing atomic.Int64 }

// Count returns the figures of a node.
func Count(n *Node) Figures {
	f := Figures{
		Nodes: map[string]int{stateUp: 0, stateDraining: 0, stateApart: 0, stateUnknown: 0}, Forwarded: n.count.forwarded.Load(), Adopted: n.count.adopted.Load(), Broken: n.count.broken.Load(),
		Fenced: n.count.fenced.Load(), Renewals: n.count.renewals.Load(), Renewing: time.Duration(n.count.renewing.Load()),
		Apart: Apart(n), Silence: Silence(n),
	}
	for _, s := range Status(n) {
		f.Nodes[s.State]++
	}
	return f
}
