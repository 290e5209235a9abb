package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// counter is the MCP server behind the weirs. It counts how often each call has run.
type counter struct {
	url   string
	front *http.Server
	mcp   *mcp.Server
	done  chan struct{}

	mu   sync.Mutex // guards runs
	runs map[string]int
}

type countArgs struct {
	ID string `json:"id" jsonschema:"the name of the call"`
}

// serveCounter starts the server.
func serveCounter() (*counter, error) {
	c := &counter{runs: map[string]int{}, done: make(chan struct{})}
	c.mcp = mcp.NewServer(&mcp.Implementation{Name: "counter", Version: "1"}, nil)
	mcp.AddTool(c.mcp, &mcp.Tool{Name: "count", Description: "Counts a call."}, func(ctx context.Context, _ *mcp.CallToolRequest, a countArgs) (*mcp.CallToolResult, any, error) {
		c.mu.Lock()
		c.runs[a.ID]++
		c.mu.Unlock()
		sleep(ctx, time.Duration(rand.IntN(200))*time.Millisecond)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "counted " + a.ID}}}, nil, nil
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c.url = "http://" + l.Addr().String()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return c.mcp }, &mcp.StreamableHTTPOptions{JSONResponse: true})
	c.front = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: discard}
	go func() {
		defer close(c.done)
		_ = c.front.Serve(l)
	}()
	return c, nil
}

func (c *counter) close() {
	_ = c.front.Close()
	<-c.done
	for left := range c.mcp.Sessions() { // of weirs that were killed
		_ = left.Close()
	}
}

// count returns how many calls have run, and how many of them more than once.
func (c *counter) count() (calls, twice int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, runs := range c.runs {
		if runs > 1 {
			twice++
		}
	}
	return len(c.runs), twice
}

// tally counts what became of calls. No call is made a second time.
type tally struct {
	mu                           sync.Mutex // guards below
	answered, failed, unanswered int
	reason                       string // of the last failure
}

// add counts a call that began at a time and has ended.
func (t *tally) add(began time.Time, timeout time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil:
		t.answered++
	case time.Since(began) >= timeout:
		t.unanswered++
		t.reason = err.Error()
	default:
		t.failed++
		t.reason = err.Error()
	}
}

// row is the row of a promise: each call has an answer within a time. An error is an answer.
func (t *tally) row(promise string) row {
	t.mu.Lock()
	defer t.mu.Unlock()
	gave := fmt.Sprintf("%d answered, %d failed with what was killed, %d without an answer", t.answered, t.failed, t.unanswered)
	return row{promise, gave, t.answered > 0 && t.unanswered == 0}
}

// caller is an MCP client of the Go SDK.
type caller struct {
	name    string
	session *mcp.ClientSession
	path    string
	id      string // of the session; "": a client of 2026-07-28, which has none

	number int
	lost   error // why the session does not go on; set by settle
}

// load is the MCP clients.
type load struct {
	tool           string        // tool_id
	timeout        time.Duration // of a call
	legacy, modern []*caller
	inSessions     tally
	alone          tally

	mu      sync.Mutex // guards browses
	browses []time.Time
	refused int
}

// startLoad connects the clients through the balancer: six with sessions at two endpoints, and three without.
func startLoad(ctx context.Context, url string, timeout time.Duration) (*load, error) {
	l := &load{timeout: timeout}
	for i := range 9 {
		c := &caller{name: fmt.Sprint("client", i), path: "/mcp"}
		version := "2025-11-25"
		switch {
		case i >= 6:
			version = "2026-07-28"
		case i%2 == 1:
			c.path = "/mcps/counter/mcp"
		}
		// A stream of a session breaks with its node. The SDK gives a session up after MaxRetries broken streams, 5 by
		// default, also if it could connect again each time.
		transport := &mcp.StreamableClientTransport{Endpoint: url + c.path, MaxRetries: 10_000, HTTPClient: &http.Client{Transport: &http.Transport{}}}
		var err error
		client := mcp.NewClient(&mcp.Implementation{Name: c.name, Version: "1"}, nil)
		if c.session, err = client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version}); err != nil {
			l.close()
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		if c.id = c.session.ID(); (c.id == "") != (i >= 6) {
			err = fmt.Errorf("%s of %s has the session %q", c.name, version, c.id)
		}
		if i < 6 {
			l.legacy = append(l.legacy, c)
		} else {
			l.modern = append(l.modern, c)
		}
		if err != nil {
			l.close()
			return nil, err
		}
	}
	var err error
	if l.tool, err = findTool(ctx, l.legacy[0]); err != nil {
		l.close()
	}
	return l, err
}

func (l *load) close() {
	for _, c := range append(l.legacy, l.modern...) {
		_ = c.session.Close()
	}
}

// findTool returns the tool_id of the counting tool, as an agent finds it.
func findTool(ctx context.Context, c *caller) (string, error) {
	const mark = "counter:count#"
	text := ""
	for end := time.Now().Add(startTime); time.Now().Before(end) && ctx.Err() == nil; sleep(ctx, 100*time.Millisecond) {
		result, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: "tool_browse", Arguments: map[string]any{"query": "count"}})
		if err != nil {
			return "", err
		}
		text = textOf(result)
		if at := strings.Index(text, mark); at >= 0 && len(text) >= at+len(mark)+8 {
			return text[at : at+len(mark)+8], nil
		}
	}
	return "", fmt.Errorf("the tool is not listed: %.300s", text)
}

// textOf returns the text of a result.
func textOf(r *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range r.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

// call makes the next call of a client.
func (c *caller) call(ctx context.Context, tool string) error {
	c.number++
	id := fmt.Sprintf("%s-%d", c.name, c.number)
	params := &mcp.CallToolParams{Name: "count", Arguments: map[string]any{"id": id}}
	if c.path == "/mcp" {
		params = &mcp.CallToolParams{Name: "tool_execute", Arguments: map[string]any{"tool_id": tool, "args": map[string]any{"id": id}}}
	}
	result, err := c.session.CallTool(ctx, params)
	if err == nil && !strings.Contains(textOf(result), "counted "+id) {
		err = errors.New(textOf(result))
	}
	return err
}

// work makes calls until ctx ends. Those that run then come to their end.
func (l *load) work(ctx context.Context) {
	var all sync.WaitGroup
	each := func(c *caller, t *tally) {
		for ctx.Err() == nil {
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
			began := time.Now()
			err := c.call(bounded, l.tool)
			cancel()
			t.add(began, l.timeout, err)
			sleep(ctx, 50*time.Millisecond)
		}
	}
	for _, c := range l.legacy {
		all.Go(func() { each(c, &l.inSessions) })
	}
	for _, c := range l.modern {
		all.Go(func() { each(c, &l.alone) })
	}
	all.Go(func() { l.browse(ctx) })
	all.Wait()
}

// browse calls a tool far more often than its limit allows, at all nodes in turn. Clients without sessions have the
// limit together, at all nodes.
func (l *load) browse(ctx context.Context) {
	for ; ctx.Err() == nil; sleep(ctx, 150*time.Millisecond) {
		bounded, cancel := context.WithTimeout(ctx, l.timeout)
		result, err := l.modern[0].session.CallTool(bounded, &mcp.CallToolParams{Name: "tool_browse", Arguments: map[string]any{"query": "count"}})
		cancel()
		if err != nil {
			continue // with its node
		}
		l.mu.Lock()
		if text := textOf(result); strings.Contains(text, "counter:count#") {
			l.browses = append(l.browses, time.Now())
		} else if strings.Contains(text, "RATE_LIMITED") {
			l.refused++
		}
		l.mu.Unlock()
	}
}

// settle makes calls in each session until one works, or ctx ends.
func (l *load) settle(ctx context.Context) {
	var all sync.WaitGroup
	for _, c := range l.legacy {
		all.Go(func() {
			for {
				bounded, cancel := context.WithTimeout(ctx, l.timeout)
				c.lost = c.call(bounded, l.tool)
				cancel()
				if c.lost == nil && c.session.ID() != c.id {
					c.lost = errors.New("it is another session")
				}
				if c.lost == nil || ctx.Err() != nil {
					return
				}
				sleep(ctx, 200*time.Millisecond)
			}
		})
	}
	all.Wait()
}

// rows are those of the MCP clients. Call it after settle.
func (l *load) rows() []row {
	on, why := 0, ""
	for _, c := range l.legacy {
		if c.lost == nil {
			on++
		} else {
			why = fmt.Sprintf("; %s: %v", c.name, c.lost)
		}
	}
	most := 0
	for i, first := range l.browses {
		n := 0
		for _, t := range l.browses[i:] {
			if t.Sub(first) < 59*time.Second { // the answers of a minute's calls may come a little closer
				n++
			}
		}
		most = max(most, n)
	}
	return []row{
		{"sessions go on", fmt.Sprintf("%d of %d%s", on, len(l.legacy), why), on == len(l.legacy)},
		l.inSessions.row("calls in sessions are answered"),
		l.alone.row("calls without sessions are answered"),
		{"limits hold over all nodes", fmt.Sprintf("at most %d calls in a minute of %d allowed, %d refused", most, browsesMinute, l.refused), most <= browsesMinute},
	}
}

// sleep waits for a time or the end of a context.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
