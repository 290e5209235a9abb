package gateway

import (
	"encoding/json"
	"slices"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/gateway/dispatch"
	"github.com/weir-mcp/weir/internal/gateway/usage"
	"github.com/weir-mcp/weir/internal/memory"
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
func (a *accounts) count(c *dispatch.Call, scope *memory.Scope, result json.RawMessage, err error, tell func(read, raw int, counted bool)) {
	if result == nil {
		if tell != nil {
			tell(0, 0, true)
		}
		return
	}
	if c.Verb == ToolBrowse || c.Verb == ToolHydrate {
		a.countDiscovery(sessionOf(c))
	}
	p := usage.Discovery
	switch {
	case c.Resumed:
		p = usage.Results
	case c.Verb == ToolView:
		p = usage.Views
	case dispatch.ActsOnUpstream(c.Verb) && !c.DryRun:
		p = usage.Results
	}
	tokens, answered, passed := a.countTokens, c.Answer, c.Passed
	if p != usage.Results {
		passed = -1 // a server's answer that was read, and counted, before
	}
	size := len(result) + len(answered)
	if scope.Ends(answered) || scope.Ends(result) {
		a.state.account.Uncounted(&sessionOf(c).usage, tell) // a background count would need a copy
		return
	}
	if passed < 0 && size > usage.MaxInline {
		// The caller may change the result as soon as count returns.
		same := len(answered) > 0 && &answered[0] == &result[0]
		result = slices.Clone(result)
		if same {
			answered = result
		}
	}
	a.state.account.Tally(&sessionOf(c).usage, p, size, passed >= 0, func() (read, raw int) {
		if passed >= 0 {
			return passed, passed
		}
		read = usage.OfResult(tokens, result)
		switch {
		case p != usage.Results:
		case answered != nil:
			raw = usage.OfResult(tokens, answered)
		case err != nil:
			raw = read // a server would have answered with some error
		}
		return read, raw
	}, tell)
}

// countList counts the definitions that tools/list returns, against those of all tools. It counts
// once per session in the legacy era, and each time in the modern era, which has no sessions.
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
