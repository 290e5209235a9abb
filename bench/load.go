package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// system is one way from a caller to the upstream.
type system struct {
	name     string
	baseline string // name of the system that it is compared with; "" for none
	at       func(s *stage) endpoint
	execute  bool   // by tool_execute
	varies   bool   // no two calls have the same arguments
	holds    bool   // results over the firewall's threshold do not come back
	minSize  int    // left out below
	maxSize  int    // and above, 0 for never
	peer     bool   // of others; see peers.go
	tool     string // name of the tool to call; "" for echo's
	// least is the least share of the baseline's throughput that is good enough
	// for a payload, and added whether the p50 it adds is bounded there.
	least func(size int) float64
	added func(size int) bool
}

// Names of the baselines.
const (
	proxyLegacy = "httputil.ReverseProxy"
	proxyModern = "httputil.ReverseProxy, modern"
	bareHop     = "bare hop"
)

// The targets.
const (
	large         = 10_000 // bytes; the payloads from here on count as large
	passSmall     = 0.9    // of the throughput of the reverse proxy
	passLarge     = 0.8
	executeSmall  = 0.6
	executeLarge  = 0.25                   // held back: hashed, described and counted
	missSmall     = 0.5                    // tool_execute with every control on, nothing answered from the cache
	hitSmall      = 1.5                    // an answer from the cache
	maxAddedP50   = 150 * time.Microsecond // over the reverse proxy, one caller
	maxPrivateKiB = 40 << 10               // with 500 tools
	maxManyKiB    = 90 << 10               // with 10,000
)

// firewallThreshold is how much weir lets pass by default: an answer with more
// is held back, and a description of it comes instead.
const firewallThreshold = 2000

// maxCached is less than the largest arguments that weir looks up in its cache.
const maxCached = 60 << 10

func legacyAt(host, path string) endpoint {
	return endpoint{host: host, path: path, session: true}
}

func modernAt(host, path string) endpoint {
	return endpoint{host: host, path: path, modern: true}
}

// systems are the measured systems, in the order of the tables.
func systems() []system {
	none := func(int) bool { return false }
	pass := func(size int) float64 {
		if size < large {
			return passSmall
		}
		return passLarge
	}
	execute := func(size int) float64 {
		if size < large {
			return executeSmall
		}
		return executeLarge
	}
	onlySmall := func(least float64) func(int) float64 {
		return func(size int) float64 {
			if size < large {
				return least
			}
			return 0
		}
	}
	small := func(size int) bool { return size < large }
	always := func(int) bool { return true }
	return []system{
		{name: "direct", baseline: proxyLegacy, at: func(s *stage) endpoint { return legacyAt(s.upstream, "/"+legacyName+"/mcp") }, added: none},
		{name: proxyLegacy, at: func(s *stage) endpoint { return legacyAt(s.proxy, "/"+legacyName+"/mcp") }, added: none},
		{name: bareHop, baseline: proxyLegacy, at: func(s *stage) endpoint { return legacyAt(s.bare, "/"+legacyName+"/mcp") }, added: none},
		{name: "weir passthrough", baseline: proxyLegacy, at: func(s *stage) endpoint { return legacyAt(s.gateway, "/mcps/"+legacyName+"/mcp") }, least: pass, added: always},
		{name: proxyModern, at: func(s *stage) endpoint { return modernAt(s.proxy, "/"+modernName+"/mcp") }, added: none},
		{name: "weir passthrough, modern", baseline: proxyModern, at: func(s *stage) endpoint { return modernAt(s.gateway, "/mcps/"+modernName+"/mcp") }, least: pass, added: always},
		{name: "weir tool_execute", baseline: proxyLegacy, at: func(s *stage) endpoint { return legacyAt(s.gateway, "/mcp") }, execute: true, holds: true, least: execute, added: small},
		{name: "weir tool_execute, all passes", baseline: proxyLegacy, at: func(s *stage) endpoint { return legacyAt(s.open, "/mcp") }, execute: true, minSize: firewallThreshold + 1, added: none},
		{name: "weir tool_execute, all controls", baseline: proxyLegacy, at: func(s *stage) endpoint { return legacyAt(s.controls, "/mcp") }, execute: true, varies: true, holds: true, least: onlySmall(missSmall), added: small},
		{name: "weir tool_execute, cache hit", baseline: proxyLegacy, at: func(s *stage) endpoint { return legacyAt(s.controls, "/mcp") }, execute: true, holds: true, maxSize: maxCached, least: onlySmall(hitSmall), added: small},
	}
}

// chosen are the systems whose name has a part in it, their baselines, and all peers.
func chosen(part string, peers []peer) []system {
	all := systems()
	for _, p := range peers {
		all = append(all, p.system())
	}
	keep := map[string]bool{}
	for _, s := range all {
		if s.peer || strings.Contains(s.name, part) {
			keep[s.name], keep[s.baseline] = true, true
		}
	}
	var out []system
	for _, s := range all {
		if keep[s.name] {
			out = append(out, s)
		}
	}
	return out
}

// payloadOf is text of so many bytes that JSON need not escape.
func payloadOf(size int) []byte {
	words := strings.Fields("gates hold what is not wanted and let the rest of the water flow over the weir down to the mill")
	out := make([]byte, 0, size+16)
	for n := uint32(1); len(out) < size; n = n*1664525 + 1013904223 {
		out = append(append(out, words[n>>16%uint32(len(words))]...), ' ')
	}
	return out[:size]
}

// newCallers connects a system's callers. weir takes calls before its upstreams
// are there, so a first failure is tried again for a while.
func (s *system) newCallers(ctx context.Context, st *stage, n, size int) ([]*caller, error) {
	e := s.at(st)
	payload := payloadOf(size)
	expected := payload
	if s.holds && size > firewallThreshold {
		expected = nil
	}
	arguments := fmt.Sprintf(`{"text":"%s"}`, payload)
	if s.varies {
		arguments = fmt.Sprintf(`{"text":"%d %s"}`, firstNonce, payload)
	}
	make1 := func(session string) []byte { return e.call(session, cmp.Or(s.tool, toolName(0)), arguments) }
	if s.execute {
		id := toolIDs(legacyName, toolDefs())[0]
		make1 = func(session string) []byte {
			return e.call(session, "tool_execute", fmt.Sprintf(`{"tool_id":%q,"args":%s}`, id, arguments))
		}
	}
	callers := make([]*caller, 0, n)
	for i := range n {
		c, err := retry(ctx, func() (*caller, error) {
			return newCaller(ctx, e, []func(string) []byte{make1}, expected, i)
		})
		if err != nil {
			closeAll(callers)
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		callers = append(callers, c)
	}
	return callers, nil
}

func closeAll(callers []*caller) {
	for _, c := range callers {
		c.close()
	}
}

// retry tries until it works or patience has an end.
func retry(ctx context.Context, connect func() (*caller, error)) (*caller, error) {
	deadline := time.Now().Add(patience)
	for {
		c, err := connect()
		if err == nil || time.Now().After(deadline) {
			return c, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}

// sample is one system in one round.
type sample struct {
	perSecond float64
	p50, p99  time.Duration
	calls     int
	processor time.Duration // of the process that was called, and its children
}

// measureRound has all callers call the process for a while.
func measureRound(ctx context.Context, callers []*caller, pid int, d time.Duration) (sample, error) {
	hists := make([]histogram, len(callers))
	errs := make([]error, len(callers))
	before := processorTime(pid)
	start := time.Now()
	var all sync.WaitGroup
	for i, c := range callers {
		_ = c.tcp.SetDeadline(start.Add(d + patience))
		all.Go(func() {
			now := time.Now()
			for now.Sub(start) < d && errs[i] == nil && ctx.Err() == nil {
				errs[i] = c.call()
				then := now
				now = time.Now()
				hists[i].add(now.Sub(then))
			}
		})
	}
	all.Wait()
	took, spent := time.Since(start), processorTime(pid)-before
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return sample{}, err
	}
	for i := range hists[1:] {
		hists[0].merge(&hists[i+1])
	}
	h := &hists[0]
	return sample{perSecond: float64(h.n) / took.Seconds(), p50: h.quantile(.5), p99: h.quantile(.99), calls: int(h.n), processor: spent}, nil
}

// contender is a system in one table.
type contender struct {
	system
	callers []*caller
	pid     int      // of the process that is called, 0 if it is not known
	samples []sample // by round
}

// measureTable measures every system with so many callers and such a payload,
// in turns.
func measureTable(ctx context.Context, st *stage, set settings, callers, size int) ([]*contender, error) {
	var list []*contender
	defer func() {
		for _, c := range list {
			closeAll(c.callers)
		}
	}()
	for _, sys := range chosen(set.systems, st.peers) {
		if size < sys.minSize || sys.maxSize > 0 && size > sys.maxSize {
			continue
		}
		conns, err := sys.newCallers(ctx, st, callers, size)
		if err != nil {
			return nil, err
		}
		list = append(list, &contender{system: sys, callers: conns, pid: st.pid(sys.at(st).host)})
	}
	warm := set.round / 5
	for round := -1; round < set.rounds; round++ {
		for i := range list {
			c := list[(i+max(round, 0))%len(list)] // vary the neighbours of each client
			d := set.round
			if round < 0 {
				d = warm
			}
			got, err := measureRound(ctx, c.callers, c.pid, d)
			if err != nil {
				return nil, fmt.Errorf("%s, %d callers, %d bytes: %w", c.name, callers, size, err)
			}
			if round >= 0 {
				c.samples = append(c.samples, got)
			}
		}
	}
	return list, nil
}

// measure runs everything and returns how many targets were missed.
func measure(ctx context.Context, set settings, stdout io.Writer) (missed int, err error) {
	st, err := newStage(ctx, set)
	if err != nil {
		return 0, err
	}
	defer st.stop()
	out := &report{w: stdout}
	out.heading(set)
	memory := func() error { return nil }
	if set.calls > 0 {
		// The gateway is idle while others are measured.
		if memory, err = measureMemory(ctx, st, set, out); err != nil {
			return 0, err
		}
	}
	if err := st.startSystems(ctx, time.Duration(set.rounds)*set.round); err != nil {
		return 0, err
	}
	st.peers = set.peers
	if set.programs {
		if err := st.startPeers(ctx, out); err != nil {
			return 0, err
		}
	}
	for _, size := range set.sizes {
		for _, callers := range set.callers {
			list, err := measureTable(ctx, st, set, callers, size)
			if err != nil {
				return 0, err
			}
			out.table(list, callers, size)
			out.peers(list)
		}
	}
	if set.browses > 0 {
		if err := measureBrowse(ctx, st, set, out); err != nil {
			return 0, err
		}
	}
	if err := memory(); err != nil {
		return 0, err
	}
	out.summary()
	return out.missed, nil
}
