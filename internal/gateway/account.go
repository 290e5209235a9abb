package gateway

import (
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/gateway/result"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// Tokens are numbers of cl100k_base tokens: what agents read of the gateway,
// and what they would have read of the servers without it.
type Tokens struct {
	Read int64 `json:"read"`
	Raw  int64 `json:"raw"`
}

// Usage is what a session, or all of them together, cost. Token counts are
// exact; those of results that are still being counted come in shortly after.
type Usage struct {
	Calls  int64 `json:"calls"`
	Failed int64 `json:"failed"` // answered with an error of the gateway

	Tokens      Tokens `json:"tokens"`      // the sum of the following
	Definitions Tokens `json:"definitions"` // tools/list; raw: the definitions of all tools, also of who browses without a list
	Discovery   Tokens `json:"discovery"`   // browsing, tool_hydrate and dry runs; raw: nothing, it is in the definitions
	Results     Tokens `json:"results"`     // tool_execute, resource_read, prompt_get; raw: what the servers answered
	Views       Tokens `json:"views"`       // tool_view; raw: nothing, it is in the results

	Pending   int64 `json:"pending"`   // results that are being counted
	Uncounted int64 `json:"uncounted"` // results that were too many to be counted, and are not in here
}

// SessionUsage is the usage of one open session.
type SessionUsage struct {
	Session   string `json:"session"` // a short hash of its id
	Principal string `json:"principal"`
	Usage
}

// Stats are the usage since the State's start and that of each open session.
type Stats struct {
	Since    time.Time      `json:"since"`
	Encoding string         `json:"encoding"` // of the tokens
	Total    Usage          `json:"total"`
	Sessions []SessionUsage `json:"sessions"`
}

// Stats returns the usage of everybody since the start, or, where principal is not empty, the
// usage of that principal's open sessions and their sum.
func (s *State) Stats(principal string) Stats {
	out := Stats{Since: s.started, Encoding: "cl100k_base", Sessions: []SessionUsage{}}
	for _, st := range s.openSessions() {
		if principal != "" && st.principal != principal {
			continue
		}
		u := st.usage.read()
		out.Sessions = append(out.Sessions, SessionUsage{st.tag, st.principal, u})
		out.Total.add(u)
	}
	if principal == "" {
		out.Total = s.total.read()
	}
	return out
}

func (u *Usage) add(o Usage) {
	u.Calls += o.Calls
	u.Failed += o.Failed
	u.Pending += o.Pending
	u.Uncounted += o.Uncounted
	for _, t := range []struct{ to, from *Tokens }{
		{&u.Tokens, &o.Tokens}, {&u.Definitions, &o.Definitions}, {&u.Discovery, &o.Discovery}, {&u.Results, &o.Results}, {&u.Views, &o.Views},
	} {
		t.to.Read += t.from.Read
		t.to.Raw += t.from.Raw
	}
}

// part is what tokens were spent on.
type part int

const (
	partDefinitions part = iota
	partDiscovery
	partResults
	partViews
	parts
)

// usage is a Usage that is being counted. It is safe for concurrent use.
type usage struct {
	calls, failed, pending, uncounted atomic.Int64
	tokens                            [parts]struct{ read, raw atomic.Int64 }
}

func (u *usage) add(p part, read, raw int) {
	u.tokens[p].read.Add(int64(read))
	u.tokens[p].raw.Add(int64(raw))
}

func (u *usage) read() Usage {
	out := Usage{Calls: u.calls.Load(), Failed: u.failed.Load(), Pending: u.pending.Load(), Uncounted: u.uncounted.Load()}
	for p, t := range []*Tokens{partDefinitions: &out.Definitions, partDiscovery: &out.Discovery, partResults: &out.Results, partViews: &out.Views} {
		t.Read, t.Raw = u.tokens[p].read.Load(), u.tokens[p].raw.Load()
		out.Tokens.Read += t.Read
		out.Tokens.Raw += t.Raw
	}
	return out
}

// maxCountedBytes is how much is counted while the agent waits.
const maxCountedBytes = 8 << 10

// count adds the tokens of an answer to the session's and to the total, at once
// where that is cheap or known, else later. tell, if set, is called once with
// them, or with counted false where they stay unknown.
func (g *Gateway) count(c *metaCall, result json.RawMessage, err error, tell func(read, raw int, counted bool)) {
	if result == nil {
		if tell != nil {
			tell(0, 0, true)
		}
		return
	}
	if c.name == ToolBrowse || c.name == ToolHydrate {
		g.countDiscovery(c.state)
	}
	p := partDiscovery
	switch {
	case c.name == ToolView:
		p = partViews
	case actsOnUpstream(c.name) && !c.dryRun:
		p = partResults
	}
	tokens, answered, passed := g.opts.Firewall.CountTokens, c.raw, c.passed
	size := len(result) + len(answered)
	if c.scope.Ends(answered) || c.scope.Ends(result) {
		g.uncounted(c.state, tell) // it would have to be copied to be there later
		return
	}
	if passed < 0 && size > maxCountedBytes {
		// The result is the receiver's as soon as this returns.
		same := len(answered) > 0 && &answered[0] == &result[0]
		result = slices.Clone(result)
		if same {
			answered = result
		}
	}
	g.tally(c.state, p, size, passed >= 0, func() (read, raw int) {
		if passed >= 0 {
			return passed, passed
		}
		read = modelTokens(tokens, result)
		switch {
		case p != partResults:
		case answered != nil:
			raw = modelTokens(tokens, answered)
		case err != nil:
			raw = read // a server would have answered some error, too
		}
		return read, raw
	}, tell)
}

// tally runs work, now or later, and adds what it counts.
func (g *Gateway) tally(st *sessionState, p part, size int, cheap bool, work func() (read, raw int), tell func(read, raw int, counted bool)) {
	run := func() {
		read, raw := work()
		g.state.total.add(p, read, raw)
		st.usage.add(p, read, raw)
		if tell != nil {
			tell(read, raw, true)
		}
	}
	if cheap || size <= maxCountedBytes {
		run()
		return
	}
	g.state.total.pending.Add(1)
	st.usage.pending.Add(1)
	later := func() {
		run()
		g.state.total.pending.Add(-1)
		st.usage.pending.Add(-1)
	}
	if g.state.counter.push(int64(size), later) {
		return
	}
	g.state.total.pending.Add(-1)
	st.usage.pending.Add(-1)
	g.uncounted(st, tell)
}

// uncounted notes an answer whose tokens stay unknown.
func (g *Gateway) uncounted(st *sessionState, tell func(read, raw int, counted bool)) {
	g.state.total.uncounted.Add(1)
	st.usage.uncounted.Add(1)
	if tell != nil {
		tell(0, 0, false)
	}
}

// countList counts the definitions that an agent gets by tools/list, against
// those of all tools, once for a session of the legacy era and each time where
// there are no sessions.
func (g *Gateway) countList(r *mcp.Request, st *sessionState, of *catalog.Catalog, list []byte) {
	st.mu.Lock()
	again := st.defined
	ahead := st.ahead
	st.defined, st.ahead = true, false
	st.mu.Unlock()
	if again && !r.Modern() {
		return
	}
	g.countDefinitions(st, of, list, true, !ahead)
}

// countDiscovery is for agents that find tools without having asked for a list, as
// programs do that know the gateway: without it they would have read the
// definitions of all tools, once.
func (g *Gateway) countDiscovery(st *sessionState) {
	st.mu.Lock()
	known := st.defined || st.ahead
	st.ahead = st.ahead || !known
	st.mu.Unlock()
	if known {
		return
	}
	if g.opts.Mode == ModeProxy {
		list := g.proxyTools()
		g.countDefinitions(st, list.of, list.result, false, true)
		return
	}
	s := g.opts.Upstreams.Snapshot()
	g.countDefinitions(st, s.Catalog, g.toolList(s), false, true)
}

// countDefinitions adds the tokens of a list that is read, and of what is read in
// its place without a gateway.
func (g *Gateway) countDefinitions(st *sessionState, of *catalog.Catalog, list []byte, isRead, isRaw bool) {
	tokens := g.opts.Firewall.CountTokens
	n, known := g.state.native.get(of, list)
	g.tally(st, partDefinitions, maxCountedBytes+1, known, func() (read, raw int) {
		if !known {
			n = g.state.native.count(tokens, of, list)
		}
		if isRead {
			read = n.list
		}
		if isRaw {
			raw = n.raw
		}
		return read, raw
	}, nil)
}

// nativeTokens remembers what the newest catalog's definitions cost.
type nativeTokens struct {
	mu   sync.Mutex // guards below
	of   *catalog.Catalog
	list *byte // of which list the first number is
	n    listTokens
}

// listTokens are the tokens of a list that the gateway gives, and of the
// definitions of all tools as their servers give them.
type listTokens struct{ list, raw int }

func (n *nativeTokens) get(of *catalog.Catalog, list []byte) (listTokens, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.n, n.of == of && n.list == &list[0]
}

func (n *nativeTokens) count(tokens func(string) int, of *catalog.Catalog, list []byte) listTokens {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of == of && n.list == &list[0] {
		return n.n
	}
	all := []byte(`{"tools":[`)
	for i, e := range slices.DeleteFunc(slices.Clone(of.Entries()), func(e *catalog.Entry) bool { return e.Kind != catalog.KindTool }) {
		if i > 0 {
			all = append(all, ',')
		}
		all = append(all, e.Raw...)
	}
	all = append(all, `]}`...)
	n.of, n.list = of, &list[0]
	n.n = listTokens{tokens(string(list)), tokens(string(all))}
	return n.n
}

// modelTokens counts what a model reads of a result: the text of its content
// blocks, and other blocks as their JSON, pictures and sounds excepted, which
// are not read as text. Where there is no content, it is structuredContent.
func modelTokens(tokens func(string) int, raw json.RawMessage) int {
	var fields [2][]byte
	if rawjson.Fields(raw, []string{"content", "structuredContent"}, fields[:]) != nil {
		return 0
	}
	n, blocks := 0, 0
	if rawjson.IsArray(fields[0]) {
		// What was read so far counts, whatever is wrong behind it.
		_ = rawjson.EachElement(fields[0], func(v []byte) bool {
			blocks++
			var member [2][]byte
			if rawjson.Fields(v, []string{"type", "text"}, member[:]) != nil {
				return true
			}
			switch result.KindOf(member[0]) {
			case "text":
				n += tokens(rawjson.Text(member[1]))
			case "image", "audio":
			default:
				n += tokens(string(v))
			}
			return true
		})
	}
	if blocks == 0 && fields[1] != nil {
		n = tokens(string(fields[1]))
	}
	return n
}

// Bounds of what waits to be counted, and of how much of a processor counting
// takes from calls: after each result it rests countingRest times as long as that
// one took. A hundred results of 100 KB are counted in a second so.
const (
	maxCounting      = 256
	maxCountingBytes = 16 << 20
	countingRest     = 9
)

// counter runs work in a goroutine of its own, which ends when there is no more.
type counter struct {
	wg sync.WaitGroup

	mu      sync.Mutex // guards below
	closed  bool
	closing chan struct{} // closed with it; there once the goroutine has been
	running bool
	queue   []countJob
	bytes   int64
}

type countJob struct {
	size int64
	run  func()
}

// push has run called soon, or returns false where too much waits already.
func (k *counter) push(size int64, run func()) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	// A single one of any size is taken, else the largest would never be counted.
	if k.closed || len(k.queue) >= maxCounting || k.bytes > 0 && k.bytes+size > maxCountingBytes {
		return false
	}
	k.queue = append(k.queue, countJob{size, run})
	k.bytes += size
	if !k.running {
		k.running = true
		if k.closing == nil {
			k.closing = make(chan struct{})
		}
		k.wg.Go(k.work)
	}
	return true
}

func (k *counter) work() {
	for {
		k.mu.Lock()
		if len(k.queue) == 0 {
			k.running, k.queue = false, nil
			k.mu.Unlock()
			return
		}
		job := k.queue[0]
		k.queue[0] = countJob{}
		k.queue = k.queue[1:]
		k.mu.Unlock()
		start := time.Now()
		job.run()
		took := time.Since(start)
		k.mu.Lock()
		k.bytes -= job.size
		more := len(k.queue) > 0
		k.mu.Unlock()
		if more {
			k.rest(countingRest * took)
		}
	}
}

// rest waits, unless the counter is closed.
func (k *counter) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-k.closing:
	}
}

// close takes no more work and waits until what there is has been done.
func (k *counter) close() {
	k.mu.Lock()
	if !k.closed && k.closing != nil {
		close(k.closing)
	}
	k.closed = true
	k.mu.Unlock()
	k.wg.Wait()
}
