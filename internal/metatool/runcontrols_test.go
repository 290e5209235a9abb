package metatool

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/access/authz"
	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/text/redact"
	"github.com/weir-mcp/weir/mcp"
)

// Each control of a call holds for the calls of programs: the program gets its error, and the server no call.
func TestControlsOfProgramCalls(t *testing.T) {
	const caught = `try { await tools.files.drop({path: input.path}); return "ran" } catch (e) { return e.code + " " + e.message }`
	for _, tt := range []struct {
		name, source string
		opts         Options
		want         string
		called       int
	}{
		{"none", caught, Options{}, "ran", 1},
		{"schema", `try { await tools.files.read_file({}); return "ran" } catch (e) { return e.code }`, Options{}, "ARGS_INVALID", 0},
		{"pin", caught, Options{Pin: dispatch.Pin{Hash: strings.Repeat("0", 64), Strict: true}}, "PERMISSION_DENIED", 0},
		{"policy", caught, Options{Policy: &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "files:drop*"}}}}, "PERMISSION_DENIED", 0},
		{"policy by default", caught, Options{Policy: &dispatch.Policy{Default: dispatch.Deny}}, "PERMISSION_DENIED", 0},
		{"approval that nobody can give", caught, Options{Policy: &dispatch.Policy{Default: dispatch.RequireApproval}}, "PERMISSION_DENIED", 0},
		{"hook", caught, Options{Hooks: calltest.NewDetector(t, "forbidden", true, false).Set}, "PERMISSION_DENIED", 0},
		{"hook about results", caught, Options{Hooks: calltest.NewDetector(t, "forbidden", false, true).Set}, "PERMISSION_DENIED", 1},
		{"flow", `await tools.files.read_file({path: "a"}); try { await tools.files.drop({path: (await tools.files.read_file({path: "a"})).path + "b"}); return "ran" } catch (e) { return e.code }`,
			Options{Flow: flow.New(config.Flow{Mode: config.FlowEnforce, Sinks: []config.FlowSink{{Tool: "drop", Kind: config.SinkEffect}}}, nil)}, "PERMISSION_DENIED", 2},
		{"flow, with a value of its own", caught, Options{Flow: flow.New(config.Flow{Mode: config.FlowEnforce, Sinks: []config.FlowSink{{Tool: "drop", Kind: config.SinkEffect}}}, nil)}, "ran", 1},
		{"quota", `let n = 0; try { for (;;) { await tools.files.drop({n}); n++ } } catch (e) { return n + " " + e.code }`,
			Options{RateLimits: dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{ToolExecute: {PerSession: 3}}}}, "3 RATE_LIMITED", 3},
		{"quota of a minute", `let n = 0; try { for (;;) { await tools.files.drop({n}); n++ } } catch (e) { return n + " " + e.code }`,
			Options{RateLimits: dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{ToolExecute: {PerMinute: 2}}}}, "2 RATE_LIMITED", 2},
		{"quota of browse", `let n = 0; try { for (;;) { await find("drop"); n++ } } catch (e) { return n + " " + e.code }`,
			Options{RateLimits: dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{ToolBrowse: {PerSession: 2}}}}, "2 RATE_LIMITED", 0},
		{"cache", `const a = await tools.files.read_file({path: "a"}), b = await tools.files.read_file({path: "a"}); return a.path + b.path`, Options{Cache: dispatch.CacheOptions{ReadOnly: true}}, "aa", 1},
		{"leak", `try { await tools.files.drop({secret: input.secret}); return "ran" } catch (e) { return e.code }`, Options{Leaks: redact.NewFinder([]string{calltest.Secret}, nil)}, "PERMISSION_DENIED", 0},
		{"redaction", `return (await tools.files.drop({secret: "` + calltest.Secret + `"})).secret.includes("s3cret")`, Options{Redactor: result.NewRedactor([]string{calltest.Secret}), RedactResults: true}, "false", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newRunHarness(t, tt.opts)
			a := h.program(t, tt.source, "input", map[string]string{"path": "forbidden", "secret": calltest.Secret})
			if a.IsError || !strings.HasPrefix(a.Content[0].Text, tt.want) {
				t.Errorf("%+v, want %s", a.Content, tt.want)
			}
			if called := h.Called(); len(called) != tt.called {
				t.Errorf("%d calls, want %d: %s", len(called), tt.called, called)
			}
		})
	}
}

// A tool that is hidden from the caller does not exist for its programs.
func TestProgramsSeeNoHiddenTools(t *testing.T) {
	h := newRunHarness(t, Options{Policy: &dispatch.Policy{Hide: true, Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "files:drop*", If: &authz.Condition{Groups: []string{"dev"}}}}}})
	id := h.ID(t, "files", "drop")
	source := fmt.Sprintf(`const all = (await find("delete a file", {top_k: 50})).map(t => t.tool_id).includes(%q);
		const out = [all];
		for (const f of [() => call(%q, {}), () => tools.files.drop({}), () => call("files:drop", {})]) try { await f(); out.push("ran") } catch (e) { out.push(e.code) }
		return out.join(" ")`, id, id)
	raw, _ := json.Marshal(map[string]any{"name": ToolRun, "arguments": map[string]any{"program": source}})
	for who, want := range map[string]string{"sre": "true ran ran ran", "dev": "false HYDRATE_FAILED HYDRATE_FAILED HYDRATE_FAILED"} {
		caller := calltest.SRE
		if who == "dev" {
			caller = calltest.Dev
		}
		out, err := h.AskAs(t.Context(), caller, "tools/call", string(raw))
		if err != nil || !strings.Contains(string(out), `"text":"`+want+`"`) {
			t.Errorf("%s: %s, %v", who, out, err)
		}
	}
}

// The audit log and the events have the run and its calls with one id.
func TestRecordsOfARun(t *testing.T) {
	log, recorder, dir := calltest.NewAudit(t, audit.FormFull, true)
	var mu sync.Mutex
	var events []Event
	h := newRunHarness(t, Options{Audit: recorder, OnEvent: func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	}})
	shop(h.harness)
	if a := h.program(t, `await tools.my_shop.list_items({page: 1}); return await tools.my_shop.add({n: 1})`); a.IsError {
		t.Fatalf("%+v", a)
	}
	log.Close()
	var kinds []string
	runs := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			var r struct{ Kind, Method, Run, Detail string }
			if json.Unmarshal([]byte(line), &r) == nil && (r.Kind == "begin" || r.Kind == "end") {
				kinds = append(kinds, r.Kind+" "+r.Method)
				runs[r.Run] = true
				if r.Method == ToolRun && r.Kind == "begin" && !strings.HasPrefix(r.Detail, "program sha256:") {
					t.Error(line)
				}
			}
		}
	}
	if want := "[begin tool_run begin tools/call end tools/call begin tools/call end tools/call end tool_run]"; fmt.Sprint(kinds) != want || len(runs) != 1 || runs[""] {
		t.Errorf("%v of %v, want %s", kinds, runs, want)
	}
	mu.Lock()
	defer mu.Unlock()
	var names []string
	for _, e := range events {
		names = append(names, e.Name)
		if !runs[e.Run] {
			t.Errorf("%+v", e)
		}
		if e.Name == "execute.completed" && (e.TokensRead != 0 || e.TokensRaw == 0) {
			t.Errorf("the agent has read %d tokens of %d: %+v", e.TokensRead, e.TokensRaw, e)
		}
	}
	if fmt.Sprint(names) != "[execute.completed execute.completed run.completed]" {
		t.Error(names)
	}
}

// A server that asks during a call of a program asks the agent, as in any call.
func TestServersAskDuringAProgram(t *testing.T) {
	h := newRunHarness(t, Options{})
	h.Add("asker", func(ctx context.Context, _ json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
		answer, err := back.Serve(ctx, &mcp.Request{ID: "7", Method: "elicitation/create", Params: json.RawMessage(`{"message":"How many?","requestedSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}`), Session: mcp.NewSession("", ""), Peer: mcp.NoPeer})
		if err != nil {
			return nil, err
		}
		return json.RawMessage(`{"content":[],"structuredContent":` + string(answer) + `}`), nil
	}, `{"name":"ask","description":"Asks."}`)
	h.Session = mcp.NewSession("s1", "ann")
	h.Session.SetClient(nil, json.RawMessage(calltest.CanElicit))
	client := &asks{Peer: mcp.NoPeer, answer: func(int, json.RawMessage) string { return `{"action":"accept","content":{"n":5}}` }}
	a := h.programOf(t, client, map[string]any{"program": `return (await tools.asker.ask({})).content.n`})
	if a.IsError || a.Content[0].Text != "5" || len(client.questions) != 1 || !strings.Contains(string(client.questions[0]), "Server asker asks: How many?") {
		t.Errorf("%+v, %s", a, client.questions)
	}
}

// A call of a program that fails on its way is made again as the operator says, and is one call of the run.
func TestRetriesOfProgramCalls(t *testing.T) {
	for attempts, want := range map[int]string{1: "UPSTREAM_UNAVAILABLE true", 3: "third time"} {
		h := newRunHarness(t, Options{Retry: dispatch.RetryPolicy{MaxAttempts: attempts, BaseDelay: time.Millisecond}})
		tries := 0
		h.Add("flaky", calltest.Peer(func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
			if tries++; tries < 3 {
				return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "connection refused")
			}
			return json.RawMessage(calltest.Text("third time")), nil
		}), `{"name":"get","description":"Gets.","annotations":{"readOnlyHint":true}}`)
		a := h.program(t, `try { return await tools.flaky.get({}) } catch (e) { return e.code + " " + e.retryable }`)
		if a.IsError || a.Content[0].Text != want || tries != attempts {
			t.Errorf("%d attempts: %+v after %d", attempts, a.Content, tries)
		}
	}
}

// When the agent goes away, the call of its program ends at the server, the program makes no other one, and the records
// say what ran.
func TestClientOfARunIsGone(t *testing.T) {
	var mu sync.Mutex
	records := map[string]int{}
	h := newRunHarness(t, Options{OnEvent: func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		records[fmt.Sprint(e.MetaTool, " ", shortTool(e.ToolID), " ", e.Code)]++
	}})
	hangs, ended := make(chan struct{}), make(chan struct{})
	h.Add("slow", calltest.Peer(func(ctx context.Context, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
		if strings.Contains(string(params), `"quick"`) {
			return json.RawMessage(calltest.Text("1")), nil
		}
		close(hangs)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}), `{"name":"quick","description":"d"}`, `{"name":"hang","description":"d"}`)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-hangs
		cancel()
	}()
	raw, _ := json.Marshal(map[string]any{"name": ToolRun, "arguments": map[string]any{
		"program": `await tools.slow.quick({}); try { await tools.slow.hang({}) } catch {} await tools.slow.quick({})`,
	}})
	if out, err := h.AskAs(ctx, calltest.SRE, "tools/call", string(raw)); err == nil && !strings.Contains(string(out), "isError") {
		t.Errorf("the run ended with %s", out)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the call goes on at its server")
	}
	mu.Lock()
	defer mu.Unlock()
	const want = "map[tool_execute slow:hang CANCELLED:1 tool_execute slow:quick :1 tool_run  CANCELLED:1]"
	if got := fmt.Sprint(records); got != want {
		t.Errorf("the records are %s, want %s", got, want)
	}
}

// The figures of an agent count what it reads of a run, and what the servers answered to the program.
func TestUsageOfARun(t *testing.T) {
	h := newRunHarness(t, Options{})
	h.Add("x", calltest.Say(calltest.Text(strings.Repeat("many words of a server ", 500))), `{"name":"t","description":"d","annotations":{"readOnlyHint":true}}`)
	if a := h.program(t, `for (let i = 0; i < 3; i++) await tools.x.t({i}); return 1`); a.IsError {
		t.Fatalf("%+v", a)
	}
	n := h.g.state.Stats("").Total
	if n.Calls != 4 || n.Tokens.Read > 200 || n.Tokens.Raw < 3*2000 {
		t.Errorf("%+v", n)
	}
}
