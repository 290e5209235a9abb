package usage

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// Tokens are numbers of cl100k_base tokens: those that agents read from the gateway, and those that
// they would have read from the servers.
type Tokens struct {
	Read int64 `json:"read"`
	Raw  int64 `json:"raw"`
}

// Usage is the cost of a session, or of all sessions. Token counts are exact, except for estimated
// results; counts of pending results are added later.
type Usage struct {
	Calls  int64 `json:"calls"`
	Failed int64 `json:"failed"` // answered with an error of the gateway

	Tokens      Tokens `json:"tokens"`      // the sum of the following
	Definitions Tokens `json:"definitions"` // tools/list; raw: the definitions of all tools, also for agents that browse without a list
	Discovery   Tokens `json:"discovery"`   // browsing, tool_hydrate and dry runs; raw: none, because the definitions contain it
	Results     Tokens `json:"results"`     // tool_execute, resource_read, prompt_get; raw: the servers' answers
	Views       Tokens `json:"views"`       // tool_view; raw: none, because the results contain it

	Pending   int64 `json:"pending"`   // results that are being counted
	Uncounted int64 `json:"uncounted"` // results that exceeded the queue and are not included
	Estimated int64 `json:"estimated"` // results of more than MaxExact bytes, whose tokens are estimated from samples
}

// Count is the cost of one answer.
type Count struct {
	Read, Raw int
	Estimated bool // from samples; otherwise it is exact
}

// SessionUsage is the usage of one open session.
type SessionUsage struct {
	Session   string `json:"session"` // a short hash of its id
	Principal string `json:"principal"`
	Usage
}

// Stats are the usage since the State's start and the usage of each open session.
type Stats struct {
	Since    time.Time      `json:"since"`
	Encoding string         `json:"encoding"` // of the tokens
	Total    Usage          `json:"total"`
	Sessions []SessionUsage `json:"sessions"`
}

func (u *Usage) Add(o Usage) {
	u.Calls += o.Calls
	u.Failed += o.Failed
	u.Pending += o.Pending
	u.Uncounted += o.Uncounted
	u.Estimated += o.Estimated
	for _, t := range []struct{ to, from *Tokens }{
		{&u.Tokens, &o.Tokens}, {&u.Definitions, &o.Definitions}, {&u.Discovery, &o.Discovery}, {&u.Results, &o.Results}, {&u.Views, &o.Views},
	} {
		t.to.Read += t.from.Read
		t.to.Raw += t.from.Raw
	}
}

// Part is a category of token costs.
type Part int

const (
	Definitions Part = iota
	Discovery
	Results
	Views
	parts
)

// Counters counts a Usage. It is safe for concurrent use.
type Counters struct {
	calls, failed, pending, uncounted, estimated atomic.Int64
	tokens                                       [parts]struct{ read, raw atomic.Int64 }
}

func (u *Counters) add(p Part, n Count) {
	u.tokens[p].read.Add(int64(n.Read))
	u.tokens[p].raw.Add(int64(n.Raw))
	if n.Estimated {
		u.estimated.Add(1)
	}
}

func (u *Counters) Read() Usage {
	out := Usage{Calls: u.calls.Load(), Failed: u.failed.Load(), Pending: u.pending.Load(), Uncounted: u.uncounted.Load(), Estimated: u.estimated.Load()}
	for p, t := range []*Tokens{Definitions: &out.Definitions, Discovery: &out.Discovery, Results: &out.Results, Views: &out.Views} {
		t.Read, t.Raw = u.tokens[p].read.Load(), u.tokens[p].raw.Load()
		out.Tokens.Read += t.Read
		out.Tokens.Raw += t.Raw
	}
	return out
}

// maxNative bounds the lists whose tokens are kept: the lists of as many modes and classes of
// callers.
const maxNative = 32

// nativeTokens caches the token costs of the definitions of the newest catalogs.
type nativeTokens struct {
	mu   sync.Mutex    // guards below
	kept []nativeCount // the newest last
}

// nativeCount is the cost of a catalog in one list, which its first byte identifies.
type nativeCount struct {
	of   *catalog.Catalog
	list *byte
	n    listTokens
}

// listTokens are the tokens of the gateway's list, and of the definitions of all tools in the
// servers' own form.
type listTokens struct{ list, raw int }

func (n *nativeTokens) get(of *catalog.Catalog, list []byte) (listTokens, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lookup(of, list)
}

func (n *nativeTokens) lookup(of *catalog.Catalog, list []byte) (listTokens, bool) {
	at := slices.IndexFunc(n.kept, func(k nativeCount) bool { return k.of == of && k.list == &list[0] })
	if at < 0 {
		return listTokens{}, false
	}
	return n.kept[at].n, true
}

func (n *nativeTokens) count(tokens func(string) int, of *catalog.Catalog, list []byte) listTokens {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known, ok := n.lookup(of, list); ok {
		return known
	}
	all := []byte(`{"tools":[`)
	for i, e := range slices.DeleteFunc(slices.Clone(of.Entries()), func(e *catalog.Entry) bool { return e.Kind != primitive.KindTool }) {
		if i > 0 {
			all = append(all, ',')
		}
		all = append(all, e.Raw...)
	}
	all = append(all, `]}`...)
	// Catalogs before the newest one would keep their memory.
	n.kept = slices.DeleteFunc(n.kept, func(k nativeCount) bool { return k.of.Base() != of.Base() })
	if len(n.kept) == maxNative {
		n.kept = slices.Delete(n.kept, 0, 1)
	}
	now := nativeCount{of, &list[0], listTokens{tokens(string(list)), tokens(string(all))}}
	n.kept = append(n.kept, now)
	return now.n
}
