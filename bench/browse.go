package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// browseUpstreams is how many servers have manyTools each.
const browseUpstreams = 10

// The targets of a browse, as its caller sees it.
const (
	maxBrowseP50 = time.Millisecond
	maxBrowseP99 = 5 * time.Millisecond
)

// queries are texts that an agent looks for, short and long.
func queries() []string {
	return []string{
		"list issues", "create a calendar entry", "delete customer", "export metrics as a report", "watch deployments",
		"merge branch of a repository", "invoices of a tenant", "import contacts into a workspace", "update dashboard",
		"I need to find out which invoices of a customer changed in region 12 and send them a message about it, then update the calendar",
	}
}

// maxStable is how much longer a browse with cache_stable may take than a plain
// one, in the median.
const maxStable = 1.2

// measureBrowse asks gateways of 10,000 tools in turns: a plain one, and one
// with cache_stable.
func measureBrowse(ctx context.Context, st *stage, set settings, out *report) error {
	plain, listed, err := browseCaller(ctx, st, "browse", map[string]any{})
	if err != nil {
		return fmt.Errorf("browse: %w", err)
	}
	defer plain.close()
	gateway := st.processes[len(st.processes)-1]
	stable, _, err := browseCaller(ctx, st, "stable", map[string]any{"cache_stable": true})
	if err != nil {
		return fmt.Errorf("browse, cache_stable: %w", err)
	}
	defer stable.close()
	var hists [2]histogram
	for n := -set.browses / 10; n < set.browses; n++ {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for i, c := range []*caller{plain, stable} {
			if n%256 == 0 {
				_ = c.tcp.SetDeadline(time.Now().Add(time.Minute))
			}
			start := time.Now()
			if err := c.call(); err != nil {
				return fmt.Errorf("browse: %w", err)
			}
			if n >= 0 {
				hists[i].add(time.Since(start))
			}
		}
	}
	out.browse(&hists[0], &hists[1], listed)
	if set.calls == 0 {
		return nil
	}
	loaded, err := manyCalls(ctx, gateway, set.calls)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the note of measureMemory says so
	}
	if err != nil {
		return fmt.Errorf("calls of %d tools: %w", browseUpstreams*manyTools, err)
	}
	out.many(set, loaded)
	return nil
}

// manyCalls makes so many calls of the tools of a gateway with many, and returns its memory then.
func manyCalls(ctx context.Context, gateway *process, calls int) (memory, error) {
	e := legacyAt(gateway.host, "/mcp")
	var execute []func(session string) []byte
	for n := range browseUpstreams {
		name := fmt.Sprintf("%s%d", manyPrefix, n)
		for _, id := range toolIDs(name, manyDefs(name)) {
			execute = append(execute, func(session string) []byte {
				return e.call(session, "tool_execute", fmt.Sprintf(`{"tool_id":%q,"args":{"id":"1"}}`, id))
			})
		}
	}
	var callers []*caller
	defer func() { closeAll(callers) }()
	for i := range memoryCallers {
		first := i * len(execute) / memoryCallers
		c, err := newCaller(ctx, e, slices.Concat(execute[first:], execute[:first]), nil, 0)
		if err != nil {
			return memory{}, err
		}
		callers = append(callers, c)
	}
	if err := callAll(ctx, callers, calls); err != nil {
		return memory{}, err
	}
	return readMemory(gateway.cmd.Process.Pid)
}

// browseCaller starts a gateway with this configuration and many tools, and
// returns a caller that browses them, with how long it took until all were there.
func browseCaller(ctx context.Context, st *stage, name string, config map[string]any) (*caller, time.Duration, error) {
	servers := map[string]any{}
	for n := range browseUpstreams {
		name := fmt.Sprintf("%s%d", manyPrefix, n)
		servers[name] = map[string]any{"type": "http", "url": st.url(name)}
	}
	config["mcpServers"] = servers
	start := time.Now()
	host, err := st.serveWeir(ctx, name, config)
	if err != nil {
		return nil, 0, err
	}
	e := legacyAt(host, "/mcp")
	// A tool of every server is called, so that all of them are known to be there.
	var calls []func(session string) []byte
	for name := range servers {
		id := toolIDs(name, manyDefs(name))[manyTools-1]
		calls = append(calls, func(session string) []byte {
			return e.call(session, "tool_execute", fmt.Sprintf(`{"tool_id":%q,"args":{"id":"1"}}`, id))
		})
	}
	all, err := retry(ctx, func() (*caller, error) { return newCaller(ctx, e, calls, nil, 0) })
	if err != nil {
		return nil, 0, err
	}
	all.close()
	listed := time.Since(start)
	var browses []func(session string) []byte
	for _, q := range queries() {
		browses = append(browses, func(session string) []byte {
			return e.call(session, "tool_browse", fmt.Sprintf(`{"query":%q}`, q))
		})
	}
	c, err := newCaller(ctx, e, browses, nil, 0)
	return c, listed, err
}
