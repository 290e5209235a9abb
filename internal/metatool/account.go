package metatool

import (
	"encoding/json"
	"slices"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/result/usage"
	"github.com/weir-mcp/weir/mcp"
)

// Stats returns the usage of all principals since the start. If principal is not empty, it returns
// the usage of that principal's open sessions and their sum.
func (s *State) Stats(principal string) usage.Stats {
	out := usage.Stats{Since: s.started, Encoding: "cl100k_base", Sessions: []usage.SessionUsage{}}
	for _, st := range s.openSessions() {
		if principal != "" && st.principal != principal {
			continue
		}
		u := st.usage.Read()
		out.Sessions = append(out.Sessions, usage.SessionUsage{Session: st.tag, Principal: st.principal, Usage: u})
		out.Total.Add(u)
	}
	if principal == "" {
		out.Total = s.account.Total()
	}
	return out
}

// count adds the tokens of an answer to the session and to the total: at once if the count is cheap
// or known, otherwise in the background. It calls tell, if set, once: with the tokens, or with
// counted false if they remain unknown.
func (a *accounts) count(c *dispatch.Call, scope *memory.Scope, result json.RawMessage, err error, tell func(n usage.Count, counted bool)) {
	if c.Run != nil {
		result = nil // a program reads it, and no agent
	}
	if result == nil && (c.Run == nil || c.Answer == nil) {
		if tell != nil {
			tell(usage.Count{}, true)
		}
		return
	}
	if c.Run == nil && c.Verb == ToolBrowse || c.Verb == ToolHydrate {
		a.countDiscovery(sessionOf(c))
	}
	p := usage.Discovery
	switch {
	case c.Resumed, c.Verb == ToolRun:
		p = usage.Results
	case c.Verb == ToolView:
		p = usage.Views
	case dispatch.ActsOnUpstream(c.Verb) && !c.DryRun:
		p = usage.Results
	}
	passed := c.Passed
	if p != usage.Results || c.Run != nil || c.Starts != nil {
		passed = -1 // a server's answer that was read, and counted, before
	}
	cost := answerCost{tokens: a.countTokens, read: result, passed: passed}
	switch {
	case p != usage.Results, c.Starts != nil: // of a run, its calls count what servers answered
	case c.Answer != nil:
		cost.raw = c.Answer
	case err != nil:
		cost.raw = result // a server would have answered with some error
	}
	size := len(result) + len(cost.raw)
	now := passed >= 0
	if !now && size > usage.MaxInline {
		if now = cost.sampled() || scope.Ends(cost.raw) || scope.Ends(result); !now {
			cost = cost.clone() // the caller may change the result as soon as count returns
		}
	}
	a.state.account.Tally(&sessionOf(c).usage, p, size, now, cost.count, tell)
}

// answerCost counts the tokens of an answer.
type answerCost struct {
	tokens func(string) int
	read   json.RawMessage // what the agent reads
	raw    json.RawMessage // what it would have read of the server; nil if nothing
	passed int             // the tokens of both, -1 if they are unknown

	found               bool // the following are set
	readTexts, rawTexts usage.Texts
}

// find finds the texts.
func (c *answerCost) find() {
	if c.found {
		return
	}
	c.found = true
	c.readTexts = usage.TextsOf(c.read)
	if c.isOne() {
		c.rawTexts = c.readTexts
	} else if c.raw != nil {
		c.rawTexts = usage.TextsOf(c.raw)
	}
}

// sampled reports whether the count is cheap because the larger of the two texts is estimated.
func (c *answerCost) sampled() bool {
	c.find()
	return max(c.readTexts.Size(), c.rawTexts.Size()) > usage.MaxExact
}

// clone returns a copy that shares no bytes.
func (c *answerCost) clone() answerCost {
	own := answerCost{tokens: c.tokens, read: slices.Clone(c.read), passed: c.passed}
	if c.isOne() {
		own.raw = own.read
	} else {
		own.raw = slices.Clone(c.raw)
	}
	return own
}

// isOne reports whether the agent reads the server's answer itself.
func (c *answerCost) isOne() bool {
	return len(c.raw) > 0 && len(c.raw) == len(c.read) && &c.raw[0] == &c.read[0]
}

func (c *answerCost) count() (n usage.Count) {
	if c.passed >= 0 {
		return usage.Count{Read: c.passed, Raw: c.passed}
	}
	c.find()
	tokens, exact := c.readTexts.Count(c.tokens)
	n.Read, n.Estimated = tokens, !exact
	switch {
	case c.raw == nil:
	case c.isOne():
		n.Raw = tokens
	default:
		n.Raw, exact = c.rawTexts.Count(c.tokens)
		n.Estimated = n.Estimated || !exact
	}
	return n
}

// countList counts the definitions that tools/list returns, against the definitions of all tools.
// It counts once per session in the legacy era, and each time in the modern era, which has no
// sessions.
func (a *accounts) countList(r *mcp.Request, st *sessionState, of *catalog.Catalog, list []byte) {
	st.mu.Lock()
	again := st.defined
	ahead := st.ahead
	st.defined, st.ahead = true, false
	st.mu.Unlock()
	if again && !r.Modern() {
		return
	}
	a.state.account.Definitions(&st.usage, a.countTokens, of, list, true, !ahead)
}

// countDiscovery counts the definitions of all tools, once, for an agent that browses without
// having called tools/list. Programs that know the gateway do so; without the gateway, they would
// have read the whole list.
func (a *accounts) countDiscovery(st *sessionState) {
	st.mu.Lock()
	known := st.defined || st.ahead
	st.ahead = st.ahead || !known
	st.mu.Unlock()
	if known {
		return
	}
	of, list := a.faces.choose(choice{}).lists.tools(a.faces.upstreams.Snapshot())
	a.state.account.Definitions(&st.usage, a.countTokens, of, list, false, true)
}
