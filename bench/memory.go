package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// memoryUpstreams is how many servers the gateway has whose memory is looked
// at: half over HTTP, half child processes.
const memoryUpstreams = 10

// memoryCallers make its calls: half by tool_execute of every tool in turn, half
// through the passthrough of each server over HTTP.
const memoryCallers = 16

// memory is the resident memory of a process. The private part comes back only at its end: pages
// that it has written. Pages of the program file are not in it: the kernel shares them with other
// processes of the program, and can drop them. It calls them private as well, as long as one
// process has them mapped, so Private_* of a gateway changes by the size of the program when
// another one starts or ends.
type memory struct{ rss, private int } // KiB

// readMemory asks the kernel only for the process, without its children.
func readMemory(pid int) (memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return memory{}, err
	}
	m, err := parseMemory(string(text))
	if err != nil {
		return m, fmt.Errorf("/proc/%d/smaps_rollup: %w", pid, err)
	}
	return m, nil
}

// parseMemory reads a file smaps_rollup.
func parseMemory(text string) (memory, error) {
	var m memory
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		isPrivate := name == "Anonymous" || name == "Private_Hugetlb"
		if name != "Rss" && !isPrivate {
			continue
		}
		kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		if err != nil {
			return memory{}, fmt.Errorf("%q is no size", line)
		}
		if isPrivate {
			m.private += kib
		} else {
			m.rss = kib
		}
	}
	if m.rss == 0 || m.private == 0 {
		return memory{}, errors.New("it has no Rss, or no Anonymous")
	}
	return m, nil
}

// measureMemory makes the calls and returns a function that waits until the
// gateway has had its rest, and then reports.
func measureMemory(ctx context.Context, st *stage, set settings, out *report) (wait func() error, err error) {
	servers := map[string]any{}
	for n := range memoryUpstreams {
		name := fmt.Sprintf("server%d", n)
		if overHTTP(n) {
			servers[name] = map[string]any{"type": "http", "url": st.url(name)}
		} else {
			servers[name] = map[string]any{"command": st.self, "args": []string{"stdio"}}
		}
	}
	host, err := st.serveWeir(ctx, "memory", map[string]any{"mcpServers": servers})
	if err != nil {
		return nil, err
	}
	pid := st.processes[len(st.processes)-1].cmd.Process.Pid
	before, err := readMemory(pid)
	if errors.Is(err, os.ErrNotExist) {
		out.note("memory: this system has no /proc to read it from")
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	callers, err := memoryCalls(ctx, host, set.calls)
	if err != nil {
		closeAll(callers)
		return nil, fmt.Errorf("memory: %w", err)
	}
	loaded, err := readMemory(pid)
	if err != nil {
		closeAll(callers)
		return nil, err
	}
	rest := time.NewTimer(set.idle)
	done := make(chan error, 1)
	var after memory
	go func() { // the function returned waits for it
		defer rest.Stop()
		select {
		case <-rest.C:
			var err error
			after, err = readMemory(pid)
			done <- err
		case <-ctx.Done():
			done <- ctx.Err()
		}
	}()
	return func() error {
		defer closeAll(callers)
		if err := <-done; err != nil {
			return err
		}
		out.memory(set, before, loaded, after)
		return nil
	}, nil
}

func overHTTP(server int) bool { return server%2 == 0 }

// memoryCalls makes so many calls and returns the callers, still connected.
func memoryCalls(ctx context.Context, host string, calls int) ([]*caller, error) {
	payload := payloadOf(100)
	arguments := fmt.Sprintf(`{"text":"%s"}`, payload)
	gateway := legacyAt(host, "/mcp")
	var execute []func(session string) []byte
	for n := range memoryUpstreams {
		for _, id := range toolIDs(fmt.Sprintf("server%d", n), toolDefs()) {
			execute = append(execute, func(session string) []byte {
				return gateway.call(session, "tool_execute", fmt.Sprintf(`{"tool_id":%q,"args":%s}`, id, arguments))
			})
		}
	}
	var callers []*caller
	for i := range memoryCallers {
		e, list := gateway, execute
		if i%2 == 1 {
			e = legacyAt(host, fmt.Sprintf("/mcps/server%d/mcp", i/2*2%memoryUpstreams))
			list = []func(string) []byte{func(session string) []byte { return e.call(session, toolName(0), arguments) }}
		}
		c, err := retry(ctx, func() (*caller, error) { return newCaller(ctx, e, list, payload, 0) })
		if err != nil {
			return callers, err
		}
		callers = append(callers, c)
	}
	return callers, callAll(ctx, callers, calls)
}

// callAll makes so many calls, each caller its share.
func callAll(ctx context.Context, callers []*caller, calls int) error {
	errs := make([]error, len(callers))
	var all sync.WaitGroup
	for i, c := range callers {
		_ = c.tcp.SetDeadline(time.Now().Add(5 * time.Minute))
		share := calls*(i+1)/len(callers) - calls*i/len(callers)
		all.Go(func() {
			for n := 0; n < share && errs[i] == nil && ctx.Err() == nil; n++ {
				errs[i] = c.call()
			}
		})
	}
	all.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}
