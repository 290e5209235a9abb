package main

import (
	"fmt"
	"strings"
	"time"
)

// measured has the measurements of a cluster of one size.
type measured struct {
	nodes     int
	ratios    [4]float64    // time at another node, of that at the same one: without a session, ping, tool_execute, 10 KB
	hop       time.Duration // CPU that tool_execute takes more at another node
	adoption  float64       // of an initialize
	writes    float64       // to the store for a session
	session   float64       // bytes of memory
	computers growth
	agents    enlisted
	grown     string // the row of the second table
}

// figure is a figure with its target.
type figure struct {
	name, form string // of a value and of the target
	target     float64
	atLeast    bool // the target is the least value, not the largest
	hops       bool // there is none with one node
	of         func(m measured) float64
}

var figures = []figure{
	{"a call without a session at another node, time of that at the same one", "%.2f", 1.8, false, true, func(m measured) float64 { return m.ratios[0] }},
	{"a ping in a session at another node, time of that at the same one", "%.2f", 1.8, false, true, func(m measured) float64 { return m.ratios[1] }},
	{"tool_execute at another node, time of that at the same one", "%.2f", 1.5, false, true, func(m measured) float64 { return m.ratios[2] }},
	{"the same with 10 KB", "%.2f", 1.5, false, true, func(m measured) float64 { return m.ratios[3] }},
	{"CPU of the hop of tool_execute", "%.0f µs", 60, false, true, func(m measured) float64 { return micros(m.hop) }},
	{"adoption, time of an initialize", "%.2f", 2, false, true, func(m measured) float64 { return m.adoption }},
	{"writes for a session", "%.2f", 0, false, false, func(m measured) float64 { return m.writes }},
	{"memory of a session", "%.0f B", 4096, false, false, func(m measured) float64 { return m.session }},
	{"CPU of a join, over all nodes and the store", "%.0f µs", 250, false, false, func(m measured) float64 { return micros(m.computers.cpu) }},
	{"a join alone, p50", "%.0f µs", 3000, false, false, func(m measured) float64 { return micros(m.computers.join) }},
	{"joins in a second", "%.0f", 1500, true, false, func(m measured) float64 { return m.computers.rate }},
	{"stored a member", "%.0f B", 400, false, false, func(m measured) float64 { return m.computers.stored }},
	{"memory of a Computer", "%.0f B", 10240, false, false, func(m measured) float64 { return m.computers.heap }},
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// verdicts returns a table of the figures: the measurements with each number of nodes, and whether all of them are
// within the target.
func verdicts(all []measured) string {
	const head = "| figure | target | measured (nodes) | verdict |"
	out := []string{head, rule(head)}
	for _, f := range figures {
		var values []string
		met, bound := true, "at most "
		if f.atLeast {
			bound = "at least "
		}
		for _, m := range all {
			if f.hops && m.nodes == 1 {
				continue
			}
			v := f.of(m)
			values = append(values, fmt.Sprintf(f.form+" (%d)", v, m.nodes))
			met = met && (v == f.target || v < f.target != f.atLeast)
		}
		verdict := "met"
		switch {
		case len(values) == 0:
			verdict = "not measured"
		case !met:
			verdict = "missed"
		}
		out = append(out, fmt.Sprintf("| %s | %s"+f.form+" | %s | %s |", f.name, bound, f.target, strings.Join(values, ", "), verdict))
	}
	return strings.Join(out, "\n")
}

// Sizes of the line on paper.
const (
	paperComputers, paperNodes       = 100_000, 5
	paperAgents                      = 10_000
	paperSessions, paperSessionNodes = 1_000_000, 10
	// agentWrite is how often an agent is written: a heartbeat writes when less than two thirds of a lease of 60
	// seconds are left.
	agentWrite = 20
)

// paper projects the figures of a size to larger ones, if they grow as measured.
func (m measured) paper() string {
	const mb = 1 << 20
	c, lost := m.computers, float64(paperComputers/paperNodes)
	return fmt.Sprintf(`
On paper, from %d nodes with %d agents:
- %d Computers are %d times %.0f: %.0f MB a node without their stacks, %.0f MB of documents. A lost node is %.0f joins:
  %.0f s at the rate above, %.1f s of CPU over all nodes and the store.
- %d agents are %.0f MB at each node, %.0f MB of documents and %d writes a second. The registration of one takes %v of
  CPU at each node.
- %d sessions are %d times %d: %.0f MB a node, and %.0f writes.
`, m.nodes, m.agents.count, paperComputers, paperNodes, lost, c.heap*lost/mb, c.stored*paperComputers/mb, lost, lost/c.rate, c.cpu.Seconds()*lost,
		paperAgents, m.agents.heap*paperAgents/mb, m.agents.stored*paperAgents/mb, paperAgents/agentWrite, m.agents.at(paperAgents, m.nodes).Round(100*time.Microsecond),
		paperSessions, paperSessionNodes, paperSessions/paperSessionNodes, m.session*paperSessions/paperSessionNodes/mb, m.writes*paperSessions)
}
