package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/text/token"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// account is what a conversation costs a model.
type account struct {
	turns  int
	tokens int // read in all turns, and written
}

func (a *account) add(b account) {
	a.turns += b.turns
	a.tokens += b.tokens
}

// cost is an account by each of two rules, and the questions that a person was asked.
type cost struct {
	alone     account // each call is a turn
	joined    account // calls that do not need each other's answers share a turn
	questions int
}

func (c *cost) add(d cost) {
	c.alone.add(d.alone)
	c.joined.add(d.joined)
	c.questions += d.questions
}

// asker sends a request of one conversation. server is "" for the gateway.
type asker func(ctx context.Context, server, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error)

// talk is the conversation of one task. An agent reads its whole context in each turn: definitions,
// its own calls and their answers.
type talk struct {
	ask     asker
	values  *strings.Replacer // of $ROOT and $WEB in calls
	masks   *strings.Replacer // of the same in counted texts
	context int
	spent   cost

	cards   map[string]card // by server:tool
	handles []string        // of kept results and tasks, in the order in which answers named them
	run     string          // the last run that an answer named
	last    string          // the last answer
}

// card is a tool as an answer showed it.
type card struct {
	id     string
	signed bool // with its arguments
}

// newTalk starts a conversation with these definitions, a result of tools/list.
func newTalk(s *stage, ask asker, definitions []byte) *talk {
	return &talk{ask: ask, values: s.values, masks: s.masks, context: token.Count(string(definitions)), cards: map[string]card{}}
}

// play makes the calls and the turn in which the model gives its answer.
func (t *talk) play(ctx context.Context, calls []call) error {
	for len(calls) > 0 {
		n := 1
		for n < len(calls) && calls[n].joined {
			n++
		}
		if err := t.group(ctx, calls[:n]); err != nil {
			return err
		}
		calls = calls[n:]
	}
	t.turn(&t.spent.alone)
	t.turn(&t.spent.joined)
	return nil
}

func (t *talk) turn(a *account) {
	a.turns++
	a.tokens += t.context
}

// group makes calls that do not need each other's answers. Schemas that they need come first.
func (t *talk) group(ctx context.Context, calls []call) error {
	asked := false
	for _, c := range calls {
		unknown, err := t.unsigned(c)
		if err != nil {
			return fmt.Errorf("line %d: %w", c.line, err)
		}
		for _, name := range unknown {
			if !asked {
				t.turn(&t.spent.joined)
				asked = true
			}
			if err := t.learn(ctx, name); err != nil {
				return fmt.Errorf("line %d: %w", c.line, err)
			}
		}
	}
	t.turn(&t.spent.joined)
	for _, c := range calls {
		if err := t.made(ctx, c); err != nil {
			return fmt.Errorf("line %d: %w", c.line, err)
		}
	}
	return nil
}

// calledIn matches a call by names in a program, and whether it has arguments.
var calledIn = regexp.MustCompile(`tools\.(\w+)\.(\w+)\((\)|\{\}\))?`)

// unsigned returns the tools of a call whose arguments the agent does not know. A call without
// arguments needs to know none. It fails if no answer has shown a tool.
func (t *talk) unsigned(c call) (names []string, err error) {
	need := func(name string, bare bool) {
		shown, ok := t.cards[name]
		switch {
		case !ok:
			err = errors.Join(err, fmt.Errorf("no answer has shown %s", name))
		case !shown.signed && !bare && !slices.Contains(names, name):
			names = append(names, name)
		}
	}
	switch c.verb {
	case "execute":
		need(c.target, c.text == "{}")
	case "run", "resume":
		for _, m := range calledIn.FindAllStringSubmatch(c.text, -1) {
			need(t.named(m[1], m[2]), m[3] != "")
		}
	}
	return names, err
}

// otherSign matches what names in a program have as _.
var otherSign = regexp.MustCompile(`\W`)

// named returns the shown tool that a program calls by names.
func (t *talk) named(server, tool string) string {
	for name := range t.cards {
		s, own, _ := strings.Cut(name, ":")
		if otherSign.ReplaceAllString(s, "_") == server && otherSign.ReplaceAllString(own, "_") == tool {
			return name
		}
	}
	return server + ":" + tool
}

// learn asks for the schema of a tool.
func (t *talk) learn(ctx context.Context, name string) error {
	shown := t.cards[name]
	_, err := t.send(ctx, "", metatool.ToolExecute, fmt.Sprintf(`{"tool_id":%q,"args":{},"dry_run":true}`, shown.id))
	shown.signed = true
	t.cards[name] = shown
	return err
}

// made makes one call and checks its answer.
func (t *talk) made(ctx context.Context, c call) error {
	text := t.values.Replace(c.text)
	// Natively a model writes a result that it passes on once more, token by token.
	text = strings.ReplaceAll(text, "$TEXT", string(rawjson.Quote(t.last)))
	text = strings.ReplaceAll(text, "$ROWS", string(rawjson.QuoteText(rawjson.Get([]byte(t.last), "abstract"))))
	for i, handle := range slices.Backward(t.handles) {
		text = strings.ReplaceAll(text, fmt.Sprintf("$H%d", i+1), handle)
		c.target = strings.ReplaceAll(c.target, fmt.Sprintf("$H%d", i+1), handle)
	}
	server, name, arguments := "", "", ""
	switch c.verb {
	case "call":
		server, name, _ = strings.Cut(c.target, ":")
		arguments = text
	case "browse":
		name, arguments = metatool.ToolBrowse, fmt.Sprintf(`{"query":%s}`, rawjson.Quote(text))
	case "execute":
		name, arguments = metatool.ToolExecute, fmt.Sprintf(`{"tool_id":%q,"args":%s}`, t.cards[c.target].id, text)
	case "view":
		name, arguments = metatool.ToolView, fmt.Sprintf(`{"handle":%q,"selector":%s}`, c.target, text)
	case "run":
		name, arguments = metatool.ToolRun, fmt.Sprintf(`{"program":%s}`, rawjson.Quote(text))
	case "resume":
		name, arguments = metatool.ToolRun, fmt.Sprintf(`{"program":%s,"resume":%q}`, rawjson.Quote(text), t.run)
	}
	if !json.Valid([]byte(arguments)) {
		return fmt.Errorf("the arguments of %s are not JSON: %.200s", name, arguments)
	}
	answer, err := t.send(ctx, server, name, arguments)
	if err != nil {
		return err
	}
	if answer.failed != c.fails {
		return fmt.Errorf("%s %.200s: failed is %v, not %v: %.1500s", name, arguments, answer.failed, c.fails, answer.text)
	}
	for _, want := range c.wants {
		if want = t.values.Replace(want); !strings.Contains(answer.text, want) {
			return fmt.Errorf("%s %.200s: the answer has no %q: %.3000s", name, arguments, want, answer.text)
		}
	}
	return nil
}

// answer is the answer of one call.
type answer struct {
	text   string
	failed bool
}

// send is one call of the model and the reading of its answer.
func (t *talk) send(ctx context.Context, server, name, arguments string) (a answer, err error) {
	t.turn(&t.spent.alone)
	params := fmt.Sprintf(`{"name":%s,"arguments":%s}`, rawjson.Quote(name), arguments)
	written := token.Count(t.masks.Replace(params))
	t.context += written
	t.spent.alone.tokens += written
	t.spent.joined.tokens += written
	result, err := t.ask(ctx, server, "tools/call", json.RawMessage(params), mcp.HandlerFunc(t.person))
	var refused *jsonrpc.Error
	switch {
	case errors.As(err, &refused):
		a = answer{refused.Message, true}
	case err != nil:
		return a, fmt.Errorf("%s %.200s: %w", name, arguments, err)
	default:
		a = answer{textOf(result), string(rawjson.Get(result, "isError")) == "true"}
	}
	t.context += token.Count(t.masks.Replace(a.text))
	t.last = a.text
	t.remember(a.text)
	return a, nil
}

// textOf is what a model reads of a result: its text, and blocks of other kinds than media as their
// JSON; its structured content if it has no blocks.
func textOf(result []byte) string {
	var b strings.Builder
	blocks := 0
	// A result that is no object has no content either.
	_ = rawjson.EachElement(rawjson.Get(result, "content"), func(block []byte) bool {
		blocks++
		switch rawjson.Text(rawjson.Get(block, "type")) {
		case "text":
			b.WriteString(rawjson.Text(rawjson.Get(block, "text")))
		case "image", "audio":
		default:
			b.Write(block)
		}
		return true
	})
	if blocks == 0 {
		b.Write(rawjson.Get(result, "structuredContent"))
	}
	return b.String()
}

var (
	cardLine  = regexp.MustCompile(`(?m)^(([a-z0-9_-]+:[A-Za-z0-9_.-]+)(?:[#@]\S+)?) (\([^)\n]*\))`)
	foundTool = regexp.MustCompile(`"tool_id":"(([a-z0-9_-]+:[A-Za-z0-9_.-]+)(?:[#@][^"]+)?)"(?:,"server":"[^"]*")?(?:,"description":"(?:[^"\\]|\\.)*")?,"signature":"([^"]*)"`)
	handle    = regexp.MustCompile(`\b(?:art|task)_[a-z0-9]{8,}`)
	runID     = regexp.MustCompile(`\brun_[a-z0-9]{8,}`)
)

// remember takes ids, handles and the run from an answer.
func (t *talk) remember(text string) {
	for _, of := range []*regexp.Regexp{cardLine, foundTool} {
		for _, m := range of.FindAllStringSubmatch(text, -1) {
			signed := m[3] != "(tool)" && strings.HasPrefix(m[3], "(")
			t.cards[m[2]] = card{id: m[1], signed: signed || t.cards[m[2]].signed}
		}
	}
	for _, h := range handle.FindAllString(text, -1) {
		if !slices.Contains(t.handles, h) {
			t.handles = append(t.handles, h)
		}
	}
	if id := runID.FindString(text); id != "" {
		t.run = id
	}
}

// person is the person at the client: they allow what they are asked. They read the question, and
// the model does not.
func (t *talk) person(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
	switch r.Method {
	case "elicitation/create":
		t.spent.questions++
		content := map[string]any{}
		for field, yes := range map[string]any{"approve": true, "calls": 50} {
			if rawjson.GetPath(r.Params, "requestedSchema", "properties", field) != nil {
				content[field] = yes
			}
		}
		return json.Marshal(map[string]any{"action": "accept", "content": content})
	case "roots/list":
		return json.RawMessage(`{"roots":[]}`), nil
	}
	return nil, mcp.MethodNotFound(r.Method)
}
