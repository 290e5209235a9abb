package metatool

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/runs"
	"github.com/weir-mcp/weir/internal/text"
)

// ToolRun is the name of the meta-tool that runs a program.
const ToolRun = dispatch.VerbRun

// MetaRun is the member of _meta of an answer of tool_run with the id of the run and its calls.
const MetaRun = "weir/run"

const (
	runSchema = `{"type":"object","properties":{` +
		`"program":{"type":"string"},` +
		`"input":{"type":"object"},` +
		`"resume":{"type":"string","description":"run id of an error: finished calls are not repeated"},` +
		`"timeout":{"type":"number","description":"seconds"}},` +
		`"required":["program"],"additionalProperties":false}`
	runTool = `{"name":"tool_run","description":"Several calls, loops, filters, joins: run one JavaScript program, an async function body. ` +
		`In scope: await call(tool_id, args) → the result as a value, or throws; await tools.SERVER.TOOL(args), the same by names; ` +
		`await find(query) → [{tool_id, signature, …}]; await open(handle, selector?); input; log(…). Example:\n` +
		`const all = await tools.github.list_issues({repo: \"a\"});\n` +
		`const old = all.filter(i => i.updated_at < input.day);\n` +
		`return {n: old.length, first: old[0]};\n` +
		`Only what it returns comes back.","inputSchema":` + runSchema + `}`
)

// argResume is the run to go on with, an argument of tool_run and of saved programs.
const argResume = "resume"

var runKeys = []string{"program", "input", argResume, "timeout"}

// runRequest reads a call of tool_run.
func runRequest(ctx context.Context, c *dispatch.Call) (q runs.Request, err error) {
	var out [4][]byte
	if err := readArguments(c, runKeys, out[:]); err != nil {
		return q, err
	}
	q.Principal, q.Profile, q.Input, q.Tool = c.Request.Session.Principal(), identity.RouteOf(ctx).Profile, out[1], ToolRun
	if out[0] == nil {
		return q, metaArgs(ToolRun, "program is missing")
	}
	if q.Source, err = rawjson.String(out[0]); err != nil {
		return q, metaArgs(ToolRun, "program must be a string, not %s", text.Value(out[0]))
	}
	if strings.TrimSpace(q.Source) == "" {
		return q, metaArgs(ToolRun, "program is empty")
	}
	if out[2] != nil {
		if q.Resume, err = rawjson.String(out[2]); err != nil || q.Resume == "" {
			return q, metaArgs(ToolRun, "resume must be the id of a run, not %s", text.Value(out[2]))
		}
	}
	if out[3] != nil {
		var ok bool
		if q.Timeout, ok = durationOf(out[3]); !ok {
			return q, metaArgs(ToolRun, `timeout must be seconds, or a duration such as "2s", not %s`, text.Value(out[3]))
		}
	}
	return q, nil
}

// durationOf reads seconds, or a duration in a text.
func durationOf(raw json.RawMessage) (time.Duration, bool) {
	if t := rawjson.Text(raw); t != "" {
		d, err := time.ParseDuration(t)
		if err == nil {
			return d, d > 0
		}
		raw = json.RawMessage(t)
	}
	seconds, err := strconv.ParseFloat(string(raw), 64)
	d := time.Duration(min(seconds, 1e6) * float64(time.Second))
	return d, err == nil && d > 0
}

// programs are the runs of one face of a gateway.
//
//	tool_run ─▶ account ▶ answer ▶ size ▶ program ▶ shape ▶ admit ▶ run ─▶ runs.Runner ─▶ worker
//	                                                                           │ call
//	                      account ▶ find ▶ value ▶ the steps of tool_execute ◀─┘
type programs struct {
	g      *Gateway
	runner *runs.Runner
	shape  *shaping
	finder *finder
	work   *taskCalls
	call   *dispatch.Pipeline // a call of a tool
	find   *dispatch.Pipeline
	open   *dispatch.Pipeline
	names  toolPaths
}

// program reads the arguments, so that the policy and a person can judge the program.
func (p *programs) program() dispatch.Step {
	return dispatch.Step{Phase: dispatch.PhaseFind, Name: "program", Before: func(ctx context.Context, c *dispatch.Call) error {
		q, err := runRequest(ctx, c)
		if err != nil {
			return err
		}
		c.Starts = dispatch.NewRun("", runs.HashOf(q.Source), q.Source, q.Input, 0)
		return nil
	}}
}

// run returns the Sender that runs the program of a call.
func (p *programs) run() dispatch.Sender {
	return dispatch.Sender{Names: []string{"run"}, Send: func(ctx context.Context, c *dispatch.Call) (json.RawMessage, error) {
		q, err := runRequest(ctx, c)
		if err != nil {
			return nil, err
		}
		return p.do(ctx, c, q)
	}}
}

// do makes a run, and returns what its program returns as the result of a tool.
func (p *programs) do(ctx context.Context, c *dispatch.Call, q runs.Request) (json.RawMessage, error) {
	q.Asks = p.g.ctl.Policy.Asks()
	r, err := p.runner.Start(ctx, q)
	if err != nil {
		return nil, err
	}
	c.Starts = r.Run
	r.Flow = p.g.opts.Flow.NewProgram(ctx, c.Session.Flow(), q.Source, q.Input)
	defer func() { c.Label = c.Label.Join(r.Flow.Label()) }()
	if err := p.g.accounts.audit.start(ctx, c); err != nil {
		r.Drop()
		return nil, dispatch.Classify(ctx, "", err)
	}
	out, err := r.Do(ctx, newRunCalls(p, c, r))
	if err != nil {
		return nil, err
	}
	text := string(out.Value)
	if value, err := rawjson.String(out.Value); err == nil {
		text = value
	}
	blocks := []string{text}
	if len(out.Log) > 0 {
		blocks = append(blocks, "log:\n"+strings.Join(out.Log, "\n"))
	}
	return rawjson.SetPath(result.Texts(nil, blocks...), r.Calls(), "_meta", MetaRun)
}

// result passes what a program returns through the firewall, as the result of a tool.
func (p *programs) result() dispatch.Step {
	return dispatch.Step{Phase: dispatch.PhaseShape, Name: "shape", After: func(ctx context.Context, c *dispatch.Call, err error) error {
		if err != nil || c.Format == result.FormatRaw {
			return err
		}
		c.Provenance = result.Provenance{Tool: ToolRun, Protocol: "mcp", ToolID: ToolRun}
		c.Reply, err = p.shape.shape(ctx, p.shape.firewall, c, c.Reply)
		return err
	}}
}

// programs returns the runs of a face. Results reach a program whole, so the firewall sees only what it returns.
func (g *Gateway) programs(find *finder, shape *shaping, kept *dispatch.Cache) *programs {
	whole := *shape
	whole.holdsBack = false
	work := newTaskCalls(g, true, &whole)
	p := &programs{g: g, runner: g.opts.Programs, shape: shape, finder: find, work: work}
	send := g.opts.Retry.Sender(dispatch.Sender{Names: []string{"send"}, Send: g.caller.call})
	p.call = dispatch.New(send, slices.Concat(g.learns(), g.callSteps(true, kept, work), dispatch.Shows(g.opts.Flow), []dispatch.Step{g.accounts.step(), find.step(find.execute), whole.tools(), p.journal()})...)
	p.find = dispatch.New(dispatch.Sender{Names: []string{"find"}, Send: p.found}, g.accounts.step(), g.admit())
	p.open = dispatch.New(dispatch.Sender{Names: []string{"open"}, Send: p.opened}, append(dispatch.Shows(g.opts.Flow), g.accounts.step(), g.admit())...)
	return p
}
