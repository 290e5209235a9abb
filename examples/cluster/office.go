package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/smcp/agent"
	"github.com/weir-mcp/weir/smcp/computer"
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// office is Computers and an Agent, each with a connection to a node that the balancer chose.
type office struct {
	computers []*computer.Computer
	agent     *agent.Client
	timeout   time.Duration // of a call
	calls     tally

	// of breakNodes
	lost, late int
	longest    time.Duration
}

// officeName is not that of the gateway ("weir"), which has an Agent of its own: an office has one.
const officeName = "workshop"

// openOffice starts the Computers and the Agent, and waits until they are in their office.
func openOffice(ctx context.Context, url string, tool *counter, timeout time.Duration) (f *office, err error) {
	f = &office{timeout: timeout}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	engine := engineio.ClientConfig{Transports: []engineio.Transport{engineio.WebSocket}}
	backoff := socketio.Backoff{Min: 100 * time.Millisecond, Max: time.Second}
	servers, err := computer.Parse("computer.json", fmt.Appendf(nil, `{"mcpServers": {"tally": {"type": "streamable", "url": %q}}}`, tool.url))
	if err != nil {
		return f, err
	}
	ready, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for i := range 6 {
		c, err := computer.New(computer.Options{Name: fmt.Sprint("desk", i), AutoApply: computer.ApplyAll})
		if err != nil {
			return f, err
		}
		f.computers = append(f.computers, c)
		if err := c.Load(ready, servers); err != nil {
			return f, err
		}
		if err := c.Ready(ready); err != nil {
			return f, err
		}
		if err := c.Connect(ready, computer.Hub{URL: url, Office: officeName, Engine: engine, Backoff: backoff, KeepTrying: true}); err != nil {
			return f, err
		}
		if err := c.Joined(ready); err != nil {
			return f, fmt.Errorf("%s is not in its office: %w", c.Name(), err)
		}
	}
	f.agent, err = agent.Connect(ready, agent.Options{URL: url, Office: officeName, Name: "asker", Engine: engine, Backoff: backoff, CallTimeout: timeout})
	return f, err
}

func (f *office) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if f.agent != nil {
		_ = f.agent.Close()
	}
	for _, c := range f.computers {
		_ = c.Close(ctx)
	}
}

// work calls the Computers in turn until ctx ends.
func (f *office) work(ctx context.Context) {
	var all sync.WaitGroup
	for i, c := range f.computers {
		all.Go(func() {
			for number := 0; ctx.Err() == nil; number++ {
				id := fmt.Sprintf("agent-%d-%d", i, number)
				bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.timeout)
				began := time.Now()
				f.calls.add(began, f.timeout, f.call(bounded, c, id))
				cancel()
				sleep(ctx, 200*time.Millisecond)
			}
		})
	}
	all.Wait()
}

func (f *office) call(ctx context.Context, c *computer.Computer, id string) error {
	name := ""
	for _, t := range c.Tools("") {
		name = t.Name
	}
	result, err := f.agent.CallTool(ctx, agent.ToolCall{Computer: c.Name(), Tool: name, Arguments: json.RawMessage(fmt.Sprintf(`{"id": %q}`, id))})
	if err == nil && !strings.Contains(string(result), "counted "+id) {
		err = errors.New(string(result))
	}
	return err
}

// back waits until all Computers are in their office after a node was killed. It returns how many were not, and the
// longest time until one was again.
func (f *office) back(ctx context.Context, killed time.Time, within time.Duration) (lost int, longest time.Duration) {
	sleep(ctx, 200*time.Millisecond) // until the connections of the killed process have ended
	for _, c := range f.computers {
		bounded, cancel := context.WithDeadline(ctx, killed.Add(within))
		err := c.Joined(bounded)
		cancel()
		since := c.Link().Since
		switch {
		case err != nil && ctx.Err() == nil:
			f.late++
			lost++
			longest = max(longest, within)
		case since.After(killed):
			lost++
			longest = max(longest, since.Sub(killed))
		}
	}
	f.lost += lost
	f.longest = max(f.longest, longest)
	return lost, longest
}

// rows are those of the office.
func (f *office) rows() []row {
	gave := fmt.Sprintf("%d times one had to come back, the longest after %.1f s", f.lost, f.longest.Seconds())
	if f.late > 0 {
		gave += fmt.Sprintf("; %d not within %v", f.late, returnTime)
	}
	return []row{
		f.calls.row("an Agent's calls are answered"),
		{"Computers come back within 10 s", gave, f.late == 0},
	}
}
