package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/runs"
	"github.com/weir-mcp/weir/internal/text/token"
	"github.com/weir-mcp/weir/mcp"
)

// step is one tool that a task needs.
type step struct {
	Query  string          `json:"query"`  // how the agent looks for it
	Server string          `json:"server"` // whose it is
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"args"`
	// View is the selector by which a result that was held back is read on.
	View json.RawMessage `json:"view"`
}

// agent keeps the account of one conversation.
type agent struct {
	ask     func(ctx context.Context, method, params string) (json.RawMessage, error)
	context int // tokens in the context now
	read    int // tokens read in all turns so far, as a model without a prompt cache reads them
	turns   int
}

// define puts definitions into the context: a tools/list result.
func (a *agent) define(list []byte) { a.context += token.Count(string(list)) }

// turn is one time that the model reads its whole context.
func (a *agent) turn() {
	a.read += a.context
	a.turns++
}

// call has the model call a tool and read its result.
func (a *agent) call(ctx context.Context, name, arguments string) (json.RawMessage, error) {
	a.turn()
	params := fmt.Sprintf(`{"name":%s,"arguments":%s}`, rawjson.Quote(name), arguments)
	a.context += token.Count(params)
	result, err := a.ask(ctx, "tools/call", params)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, arguments, err)
	}
	a.context += resultTokens(result)
	return result, nil
}

// resultTokens are the tokens that a model reads of a result: its text, and blocks of other kinds
// than media as their JSON.
func resultTokens(result []byte) int {
	n := 0
	// A result that is no object has no content either.
	_ = rawjson.EachElement(rawjson.Get(result, "content"), func(block []byte) bool {
		switch rawjson.Text(rawjson.Get(block, "type")) {
		case "text":
			n += token.Count(rawjson.Text(rawjson.Get(block, "text")))
		case "image", "audio":
		default:
			n += token.Count(string(block))
		}
		return true
	})
	return n
}

func isError(result []byte) bool { return string(rawjson.Get(result, "isError")) == "true" }

func textOf(result []byte) string {
	var b strings.Builder
	_ = rawjson.EachElement(rawjson.Get(result, "content"), func(block []byte) bool {
		b.WriteString(rawjson.Text(rawjson.Get(block, "text")))
		return true
	})
	return b.String()
}

// cost is the cost of one mode.
type cost struct {
	definitions int
	browse      int // definitions and one browse; 0 where there is none to do
	context     int // at the end of the task
	read        int // in all turns of the task
	turns       int
}

// modes are how tools reach the agent.
var modes = []struct {
	name string
	run  func(ctx context.Context, s *stage) (cost, error)
}{
	{"native tools/list", runNative},
	{"proxy mode", runProxy},
	{"gateway mode", func(ctx context.Context, s *stage) (cost, error) { return runGateway(ctx, s, false) }},
	{"gateway mode, first try of each tool wrong", func(ctx context.Context, s *stage) (cost, error) { return runGateway(ctx, s, true) }},
}

// runNative has all definitions in the context and calls tools by name.
func runNative(ctx context.Context, s *stage) (cost, error) {
	a := &agent{}
	list := []byte(`{"tools":[`)
	tools := 0
	for _, e := range s.Snapshot().Catalog.Entries() {
		if e.Kind != primitive.KindTool {
			continue
		}
		if tools++; tools > 1 {
			list = append(list, ',')
		}
		list = append(list, e.Raw...)
	}
	a.define(append(list, `]}`...))
	c := cost{definitions: a.context}
	for _, st := range s.steps {
		peer, err := s.Peer(ctx, st.Server)
		if err != nil {
			return c, err
		}
		a.ask = func(ctx context.Context, method, params string) (json.RawMessage, error) {
			return peer.Call(ctx, method, json.RawMessage(params), nil)
		}
		result, err := a.call(ctx, st.Tool, string(st.Args))
		if err != nil {
			return c, err
		}
		if isError(result) {
			return c, fmt.Errorf("%s: %.300s", st.Tool, textOf(result))
		}
	}
	return a.end(c), nil
}

// end is the turn in which the model gives its answer.
func (a *agent) end(c cost) cost {
	a.turn()
	c.context, c.read, c.turns = a.context, a.read, a.turns
	return c
}

// connect returns an agent of a gateway over the stage's servers, with its
// definitions read.
func connect(ctx context.Context, s *stage, opts metatool.Options) (a *agent, end func(), err error) {
	store := artifact.NewMemory(artifact.Options{})
	state := metatool.NewState()
	opts.Upstreams, opts.Artifacts, opts.State = s, store, state
	g := metatool.New(opts)
	session := mcp.NewSession("", "agent")
	a = &agent{ask: func(ctx context.Context, method, params string) (json.RawMessage, error) {
		return g.Serve(ctx, &mcp.Request{ID: "1", Method: method, Params: json.RawMessage(params), Version: mcp.V20251125, Session: session, Peer: mcp.NoPeer})
	}}
	end = func() {
		session.Close()
		state.Close(context.Background())
		store.Close()
	}
	list, err := a.ask(ctx, "tools/list", "{}")
	if err != nil {
		end()
		return nil, nil, err
	}
	a.define(list)
	return a, end, nil
}

// runProxy has every tool's card in tools/list and hydrates those it calls.
func runProxy(ctx context.Context, s *stage) (cost, error) {
	a, end, err := connect(ctx, s, metatool.Options{Mode: metatool.ModeProxy})
	if err != nil {
		return cost{}, err
	}
	defer end()
	c := cost{definitions: a.context}
	for _, st := range s.steps {
		id := s.idOf(st)
		if _, err := a.call(ctx, metatool.ToolHydrate, fmt.Sprintf(`{"tool_id":%q}`, id)); err != nil {
			return c, err
		}
		if err := a.execute(ctx, id, st.Args); err != nil {
			return c, err
		}
	}
	return a.end(c), nil
}

// execute calls tool_execute, which must work.
func (a *agent) execute(ctx context.Context, id string, args []byte) error {
	_, err := a.executed(ctx, id, args)
	return err
}

func (a *agent) executed(ctx context.Context, id string, args []byte) (json.RawMessage, error) {
	result, err := a.call(ctx, metatool.ToolExecute, fmt.Sprintf(`{"tool_id":%q,"args":%s}`, id, args))
	if err == nil && isError(result) {
		err = fmt.Errorf("%s: %.300s", id, textOf(result))
	}
	return result, err
}

// runGateway browses for each tool and views the held-back parts. With stumble, the first call of
// each tool has no arguments and is refused with the schema.
func runGateway(ctx context.Context, s *stage, stumble bool) (cost, error) {
	a, end, err := connect(ctx, s, metatool.Options{Programs: &runs.Runner{}})
	if err != nil {
		return cost{}, err
	}
	defer end()
	c := cost{definitions: a.context}
	for i, st := range s.steps {
		id := s.idOf(st)
		cards, err := a.call(ctx, metatool.ToolBrowse, fmt.Sprintf(`{"query":%s}`, rawjson.Quote(st.Query)))
		if err != nil {
			return c, err
		}
		if i == 0 {
			c.browse = a.context
		}
		// A tool of several servers takes one card, which names the ids of the others at its end.
		if !slices.ContainsFunc(strings.Fields(textOf(cards)), func(word string) bool { return strings.TrimSuffix(word, ",") == id }) {
			return c, fmt.Errorf("browsing for %q does not show %s", st.Query, id)
		}
		if stumble {
			if _, err := a.call(ctx, metatool.ToolExecute, fmt.Sprintf(`{"tool_id":%q,"args":{}}`, id)); err != nil {
				return c, err
			}
		}
		raw, err := a.executed(ctx, id, st.Args)
		if err != nil {
			return c, err
		}
		envelope := rawjson.GetPath(raw, "_meta", result.MetaEnvelope)
		handle := rawjson.Text(rawjson.GetPath(envelope, "firewall_stats", "artifact_ref"))
		if handle == "" {
			continue
		}
		if len(st.View) == 0 {
			return c, fmt.Errorf("the result of %s was held back, and the task has no view for it", id)
		}
		view, err := a.call(ctx, metatool.ToolView, fmt.Sprintf(`{"handle":%q,"selector":%s}`, handle, bytes.TrimSpace(st.View)))
		if err != nil {
			return c, err
		}
		if isError(view) {
			return c, fmt.Errorf("the view of %s: %.300s", id, textOf(view))
		}
	}
	return a.end(c), nil
}
