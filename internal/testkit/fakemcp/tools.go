package fakemcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// tool is a tool that the package brings along.
type tool struct {
	name        string
	description string
	schema      string
	waits       bool // may block, or sends messages ahead of its result
	run         func(ctx context.Context, s *Server, c *call, dst []byte) ([]byte, *rpcError)
}

func (t *tool) definition() string {
	return fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":%s}`, t.name, t.description, t.schema)
}

const (
	emptySchema = `{"type":"object"}`
	echoSchema  = `{"type":"object","properties":{"text":{"type":"string","description":"text to return"},` +
		`"size":{"type":"integer","description":"return so many bytes instead","minimum":0}}}`
	roundsSchema = `{"type":"object","properties":{"rounds":{"type":"integer","description":"how often to ask, 1 if left out","minimum":1,"maximum":10}}}`
)

// errCancelled ends the context of a call that the client cancelled.
var errCancelled = errors.New("fakemcp: cancelled by the client")

func builtin() []*tool {
	return []*tool{
		{name: "echo", description: "Returns its text, or size bytes.", schema: echoSchema, run: echo},
		{
			name: "region", description: "Returns its region, which modern HTTP clients also send as a header.",
			schema: `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}},"required":["region"]}`,
			run: func(_ context.Context, _ *Server, c *call, dst []byte) ([]byte, *rpcError) {
				return appendText(dst, member(c.args, "region")), nil
			},
		},
		{
			name: "odd", description: "Returns a result with fields, numbers and content types that no version defines.", schema: emptySchema,
			run: func(_ context.Context, _ *Server, _ *call, dst []byte) ([]byte, *rpcError) {
				return append(dst, OddResult...), nil
			},
		},
		{
			name: "counter", description: "Counts the calls of this client: a session, a connection, or all clients in the modern era.", schema: emptySchema,
			run: func(_ context.Context, _ *Server, c *call, dst []byte) ([]byte, *rpcError) {
				return appendText(dst, []byte(strconv.Quote(strconv.FormatInt(c.client.counter.Add(1), 10)))), nil
			},
		},
		{
			name: "fail", description: "Answers with a JSON-RPC error.",
			schema: `{"type":"object","properties":{"code":{"type":"integer"},"message":{"type":"string"}}}`,
			run: func(_ context.Context, _ *Server, c *call, dst []byte) ([]byte, *rpcError) {
				return dst, &rpcError{code: number(member(c.args, "code"), codeInternal), message: string(unquote(member(c.args, "message")))}
			},
		},
		{
			name: "refuse", description: "Returns a result with isError.", schema: `{"type":"object","properties":{"message":{"type":"string"}}}`,
			run: func(_ context.Context, _ *Server, c *call, dst []byte) ([]byte, *rpcError) {
				return append(appendText(dst, orEmpty(member(c.args, "message"))), `,"isError":true`...), nil
			},
		},
		{
			name: "sleep", description: "Returns after sleep_ms milliseconds; the event log says how it ended.", waits: true, run: sleep,
			schema: `{"type":"object","properties":{"sleep_ms":{"type":"integer","minimum":0}},"required":["sleep_ms"]}`,
		},
		{
			name: "progress", description: "Sends n progress notifications, then the result; as one burst, or interval_ms apart.", waits: true, run: progress,
			schema: `{"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":100000},"burst":{"type":"boolean"},"interval_ms":{"type":"integer","minimum":0}}}`,
		},
		{
			name: "log", description: "Sends n log messages, then the result.", waits: true, run: logMessages,
			schema: `{"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":100000}}}`,
		},
		{
			name: "crash", description: "Ends the process in mid-call, with half a message written first if half is true.", waits: true, run: crash,
			schema: `{"type":"object","properties":{"code":{"type":"integer"},"half":{"type":"boolean"}}}`,
		},
		{
			name: "sample", description: "Asks the client for a completion and returns the answer as JSON.", waits: true, schema: roundsSchema,
			run: asking("sampling/createMessage", `{"messages":[{"role":"user","content":{"type":"text","text":"Say weir."}}],"maxTokens":16}`),
		},
		{
			name: "elicit", description: "Asks the user for a name and returns the answer as JSON.", waits: true, schema: roundsSchema,
			run: asking("elicitation/create", `{"mode":"form","message":"What is your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}`),
		},
		{
			name: "roots", description: "Asks the client for its roots and returns the answer as JSON.", waits: true, schema: roundsSchema,
			run: asking("roots/list", `{}`),
		},
		{
			name: "grandchild", description: "Starts a process that outlives this one, in its process group, and returns its pid.", schema: emptySchema, waits: true,
			run: func(_ context.Context, s *Server, _ *call, dst []byte) ([]byte, *rpcError) {
				pid, err := s.spawn()
				if err != nil {
					return dst, &rpcError{code: codeInternal, message: err.Error()}
				}
				s.record("spawned " + strconv.Itoa(pid))
				return appendText(dst, []byte(strconv.Quote(strconv.Itoa(pid)))), nil
			},
		},
		{
			name: "set_tools", description: "Changes the number of further tools and announces it.", waits: true,
			schema: `{"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":100000}},"required":["n"]}`,
			run: func(_ context.Context, s *Server, c *call, dst []byte) ([]byte, *rpcError) {
				n := number(member(c.args, "n"), -1)
				if n < 0 || n > maxTools {
					return dst, &rpcError{code: codeInvalidParams, message: "n must be 0 to 100000"}
				}
				s.setTools(n)
				return appendText(dst, []byte(`"done"`)), nil
			},
		},
	}
}

// OddResult holds the members of the result of the tool odd. All of it has to survive a
// gateway: an unknown content type, unknown fields, integers of 20 digits, the order of keys,
// escapes as they were written.
const OddResult = `"zeta":1,"alpha":{"b":1,"a":[12345678901234567890,1.50,1e2]},` +
	`"content":[{"type":"text","text":"caf\u00e9 \u003c \/","x-unknown":{"k":null}},{"type":"hologram","frames":[1,2,3]}],` +
	`"structuredContent":{"id":9007199254740993,"z":1,"a":2}`

// callTool answers tools/call.
func (s *Server) callTool(ctx context.Context, c *call, dst []byte) ([]byte, *rpcError) {
	if t := s.tools[string(c.name)]; t != nil {
		return t.run(ctx, s, c, dst)
	}
	if digits, ok := bytes.CutPrefix(c.name, []byte("tool_")); ok {
		if n := number(digits, -1); n >= 0 && n < s.listing.Load().further {
			return echo(ctx, s, c, dst)
		}
	}
	if s.cfg.Broken && strings.HasPrefix(string(c.name), "broken_") {
		return echo(ctx, s, c, dst)
	}
	return dst, &rpcError{code: codeInvalidParams, message: "no tool " + string(c.name)}
}

// appendText appends a content of one text block; text is a JSON string already.
func appendText(dst, text []byte) []byte {
	dst = append(dst, `"content":[{"type":"text","text":`...)
	return append(append(dst, text...), `}]`...)
}

// orEmpty gives a JSON string, or the empty one for anything else.
func orEmpty(value []byte) []byte {
	if len(value) == 0 || value[0] != '"' {
		return []byte(`""`)
	}
	return value
}

func echo(_ context.Context, _ *Server, c *call, dst []byte) ([]byte, *rpcError) {
	var text []byte
	size := -1
	members(c.args, func(key, value []byte) {
		switch string(key) {
		case "text":
			text = value
		case "size":
			size = number(value, -1)
		}
	})
	if size < 0 {
		return appendText(dst, orEmpty(text)), nil
	}
	if size > maxPayload {
		return dst, &rpcError{code: codeInvalidParams, message: fmt.Sprintf("size must be %d at most", maxPayload)}
	}
	dst = append(dst, `"content":[{"type":"text","text":"`...)
	for from := len(dst); size > 0; {
		if len(dst) == from {
			dst = append(dst, 'x')
			size--
			continue
		}
		n := min(size, len(dst)-from) // double the present ones
		dst = append(dst, dst[from:from+n]...)
		size -= n
	}
	return append(dst, `"}]`...), nil
}

// pause waits for d. It reports false if the call ended before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func millis(args []byte, name string) time.Duration {
	return time.Duration(number(member(args, name), 0)) * time.Millisecond
}

// sleep records its fate. A legacy client that goes away has not cancelled: the call runs on, as
// the specification says.
func sleep(ctx context.Context, s *Server, c *call, dst []byte) ([]byte, *rpcError) {
	timer := time.NewTimer(millis(c.args, "sleep_ms"))
	defer timer.Stop()
	s.record("sleeping " + string(c.id))
	gone := c.gone
	for {
		select {
		case <-timer.C:
			s.record("finished " + string(c.id))
			return appendText(dst, []byte(`"slept"`)), nil
		case <-ctx.Done():
			if context.Cause(ctx) == errCancelled {
				s.record("cancelled " + string(c.id))
			}
			return dst, errSilent
		case <-gone:
			s.record("disconnected " + string(c.id))
			if c.modern() {
				return dst, errSilent
			}
			gone = nil
		}
	}
}

func progress(ctx context.Context, _ *Server, c *call, dst []byte) ([]byte, *rpcError) {
	n, interval := min(number(member(c.args, "n"), 3), maxTools), millis(c.args, "interval_ms")
	burst := string(member(c.args, "burst")) == "true"
	var all [][]byte
	for i := 1; i <= n && c.token != nil; i++ {
		msg := fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":%d,"message":"step %d"}}`, c.token, i, n, i)
		if burst {
			all = append(all, msg)
			continue
		}
		if err := c.send(msg); err != nil || !pause(ctx, interval) {
			return dst, errSilent
		}
	}
	if burst {
		if err := c.send(all...); err != nil {
			return dst, errSilent
		}
	}
	return appendText(dst, fmt.Appendf(nil, `"%d steps"`, n)), nil
}

func logMessages(_ context.Context, _ *Server, c *call, dst []byte) ([]byte, *rpcError) {
	n := min(number(member(c.args, "n"), 1), maxTools)
	for i := 1; i <= n; i++ {
		msg := fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"fakemcp","data":"line %d"}}`, i)
		if err := c.send(msg); err != nil {
			return dst, errSilent
		}
	}
	return appendText(dst, fmt.Appendf(nil, `"%d lines"`, n)), nil
}

// halfMessage is the text that crash leaves behind if asked. Senders write it without the end of a
// message.
const halfMessage = `{"jsonrpc":"2.0","id":`

func crash(_ context.Context, s *Server, c *call, dst []byte) ([]byte, *rpcError) {
	if string(member(c.args, "half")) == "true" {
		// The process is about to end, so an error does not matter.
		_ = c.send([]byte(halfMessage))
	}
	fmt.Fprintln(s.cfg.Stderr, "fakemcp: told to crash")
	s.cfg.Exit(number(member(c.args, "code"), 3))
	return dst, errSilent
}

// asking makes a tool that asks the client something and returns the last answer.
func asking(method, params string) func(context.Context, *Server, *call, []byte) ([]byte, *rpcError) {
	return func(ctx context.Context, s *Server, c *call, dst []byte) ([]byte, *rpcError) {
		rounds := min(max(number(member(c.args, "rounds"), 1), 1), 10)
		if c.modern() {
			return askModern(c, dst, method, params, rounds)
		}
		var answer []byte
		for range rounds {
			var fault *rpcError
			if answer, fault = s.ask(ctx, c, method, params); fault != nil {
				return dst, fault
			}
		}
		return appendText(dst, appendString(nil, answer)), nil
	}
}

// askModern answers input_required until it has been asked often enough. The state says
// which round it is; the answers come with it.
func askModern(c *call, dst []byte, method, params string, rounds int) ([]byte, *rpcError) {
	round := 0
	var answer []byte
	if c.requestState != nil {
		digits, ok := bytes.CutPrefix(c.requestState, []byte("round-"))
		answer = member(c.inputResponses, "ask")
		if round = number(digits, 0); !ok || round < 1 || round > rounds || answer == nil {
			return dst, &rpcError{code: codeInvalidParams, message: "requestState or inputResponses do not belong to this call"}
		}
	}
	if round == rounds {
		return appendText(dst, appendString(nil, answer)), nil
	}
	c.resultType = "input_required"
	return fmt.Appendf(dst, `"inputRequests":{"ask":{"method":"%s","params":%s}},"requestState":"round-%d"`, method, params, round+1), nil
}

// ask sends a request to the client of a legacy call and waits for the answer.
func (s *Server) ask(ctx context.Context, c *call, method, params string) ([]byte, *rpcError) {
	if c.deaf {
		return nil, &rpcError{code: codeInternal, message: "cannot ask this client: it accepts no event stream"}
	}
	id := s.newID("ask-")
	answer := make(chan message, 1)
	c.client.mu.Lock()
	c.client.asks[id] = answer
	c.client.mu.Unlock()
	defer func() {
		c.client.mu.Lock()
		delete(c.client.asks, id)
		c.client.mu.Unlock()
	}()
	if err := c.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"%s","method":"%s","params":%s}`, id, method, params)); err != nil {
		return nil, &rpcError{code: codeInternal, message: "cannot ask this client: " + err.Error()}
	}
	select {
	case m := <-answer:
		if m.fault != nil {
			return m.fault, nil
		}
		return m.result, nil
	case <-c.gone:
		return nil, errSilent
	case <-ctx.Done():
		return nil, errSilent
	}
}
