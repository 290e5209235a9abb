package tasks_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/result/usage"
	"github.com/weir-mcp/weir/internal/tasks"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/internal/text/token"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// TestTaskHandle: a longer one gives a handle, which waits, ends in the result, and works in another
// session of the same principal and in no other's.
func TestTaskHandle(t *testing.T) {
	calltest.Eras(t, func(t *testing.T, modern bool) {
		var events []metatool.Event
		h := metatooltest.NewTasks(t, &calltest.TaskServer{Modern: modern, Lasts: 70 * time.Second, Says: "42 rows"}, metatool.Options{OnEvent: func(e metatool.Event) { events = append(events, e) }})
		first := h.ExecuteTask()
		handle := calltest.TaskHandle(t, first)
		if !strings.Contains(first, "still running after 30 s: step") || !strings.Contains(first, "tool_view") || !strings.Contains(first, h.ToolID) {
			t.Errorf("%q", first)
		}
		other := mcp.NewSession("o", "bob")
		defer other.Close()
		if got := h.View(other, handle, calltest.Head); !strings.Contains(got, "no task has the handle") {
			t.Errorf("another principal reads %q", got)
		}
		h.Session.Close()
		again := mcp.NewSession("s2", "ann")
		defer again.Close()
		if got := h.View(again, handle, calltest.Head); !strings.Contains(got, "still running after 60 s") {
			t.Errorf("%q", got)
		}
		for range 2 { // the second reads it again, as an agent does whose connection broke
			if got := h.View(again, handle, calltest.Head); got != "42 rows" {
				t.Errorf("%q", got)
			}
		}
		counted := 0
		for _, e := range events {
			if e.TokensRaw > 0 && e.TokensRead > 0 && e.MetaTool == metatool.ToolView {
				counted++
			}
			if e.MetaTool == metatool.ToolExecute && e.ToolID != h.ToolID {
				t.Errorf("event %+v", e)
			}
		}
		if counted != 1 || h.Server.Made != 1 {
			t.Errorf("the result was counted %d times, the tool ran %d times", counted, h.Server.Made)
		}
		if s := h.State.Stats(""); s.Total == (usage.Usage{}) {
			t.Error("no usage")
		}
	})
}

// TestTaskOfAProfile: a handle is unknown at other endpoints than the one whose call made the task.
func TestTaskOfAProfile(t *testing.T) {
	calltest.Eras(t, func(t *testing.T, modern bool) {
		h := metatooltest.NewTasks(t, &calltest.TaskServer{Modern: modern, Lasts: 70 * time.Second, Says: "42 rows"}, metatool.Options{Profiles: []metatool.Profile{{Name: "all"}, {Name: "none", Exclude: []string{"*:*"}}}})
		at := func(profile, tool, arguments string) string {
			t.Helper()
			text, err := h.CallTool(identity.WithRoute(t.Context(), identity.Route{Profile: profile}), h.Session, tool, arguments)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		for _, own := range []string{"", "all"} {
			handle := calltest.TaskHandle(t, at(own, metatool.ToolExecute, `{"tool_id":"`+h.ToolID+`","args":{}}`))
			for _, profile := range []string{"", "all", "none"} {
				if profile == own {
					continue
				}
				for _, do := range []string{calltest.Head, `,"selector":{"type":"cancel"}}`} {
					if got := at(profile, metatool.ToolView, `{"handle":"`+handle+`"`+do); !strings.Contains(got, "no task has the handle") {
						t.Errorf("a task of %q at %q: %q", own, profile, got)
					}
				}
			}
			at(own, metatool.ToolView, `{"handle":"`+handle+`"`+calltest.Head) // waits
			if got := at(own, metatool.ToolView, `{"handle":"`+handle+`"`+calltest.Head); got != "42 rows" {
				t.Errorf("%q", got)
			}
		}
	})
}

// TestTaskResultIsShaped: a long result that comes late is held back as any other.
func TestTaskResultIsShaped(t *testing.T) {
	calltest.Eras(t, func(t *testing.T, modern bool) {
		h := metatooltest.NewTasks(t, &calltest.TaskServer{Modern: modern, Lasts: 40 * time.Second, Says: strings.Repeat("a long line of the report\n", 4000)}, metatool.Options{})
		handle := calltest.TaskHandle(t, h.ExecuteTask())
		got := h.View(h.Session, handle, calltest.Head)
		if !strings.Contains(got, "art_") || len(got) > 4000 {
			t.Errorf("%d characters: %.300q", len(got), got)
		}
	})
}

// TestTaskAsks: the questions of a task reach the agent once, and the time of the answer does not
// count.
func TestTaskAsks(t *testing.T) {
	calltest.Eras(t, func(t *testing.T, modern bool) {
		h := metatooltest.NewTasks(t, &calltest.TaskServer{Modern: modern, Asks: true, Lasts: 50 * time.Second, Says: "row 3"}, metatool.Options{})
		h.Agent.Delay = 45 * time.Second
		got := h.ExecuteTask()
		if strings.Contains(got, "task_") {
			got = h.View(h.Session, calltest.TaskHandle(t, got), calltest.Head)
		}
		if got != "row 3" || h.Agent.Asked != 1 || !strings.Contains(h.Server.Answers, `"row":3`) {
			t.Errorf("%q, asked %d times, answer %s", got, h.Agent.Asked, h.Server.Answers)
		}
		if h.Agent.Question != "Server work asks: Which row?" {
			t.Errorf("the agent reads %q", h.Agent.Question)
		}
	})
}

// TestTaskAsksInVain: a task whose question has no reader is no dead end.
func TestTaskAsksInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := metatooltest.NewTasks(t, &calltest.TaskServer{Modern: true, Asks: true, Lasts: time.Second, Says: "x"}, metatool.Options{})
		deaf := mcp.NewSession("deaf", "ann")
		defer deaf.Close()
		deaf.SetVersion(mcp.V20251125)
		deaf.SetClient(nil, json.RawMessage(`{}`))
		got, err := h.CallTool(t.Context(), deaf, metatool.ToolExecute, `{"tool_id":"`+h.ToolID+`","args":{}}`)
		if err != nil || !strings.Contains(got, "waits for input") || !strings.Contains(got, "elicitation") {
			t.Fatalf("%q %v", got, err)
		}
		if got := h.View(h.Session, calltest.TaskHandle(t, got), calltest.Head); got != "x" { // another session of the principal can answer
			t.Errorf("%q", got)
		}
	})
}

// TestTaskFailures: what can go wrong is told with what to do.
func TestTaskFailures(t *testing.T) {
	calltest.Eras(t, func(t *testing.T, modern bool) {
		h := metatooltest.NewTasks(t, &calltest.TaskServer{Modern: modern, Lasts: time.Second, Fails: &jsonrpc.Error{Code: -32603, Message: "disk is full"}}, metatool.Options{})
		if got := h.ExecuteTask(); !strings.Contains(got, "disk is full") || !strings.Contains(got, "UPSTREAM_ERROR") {
			t.Errorf("failed: %q", got)
		}
		set := func(err error) { h.Server.Mu.Lock(); h.Server.Gone = err; h.Server.Mu.Unlock() }
		h = metatooltest.NewTasks(t, &calltest.TaskServer{Modern: modern, Lasts: 2 * time.Minute, Says: "late"}, metatool.Options{})
		handle := calltest.TaskHandle(t, h.ExecuteTask())
		set(mcp.Errorf(mcp.KindUpstreamUnavailable, `upstream "work" is restarting`))
		if got := h.View(h.Session, handle, calltest.Head); !strings.Contains(got, "cannot be asked now") || !strings.Contains(got, "restarting") || !strings.Contains(got, handle) {
			t.Errorf("unreachable: %q", got)
		}
		set(nil)
		if got := h.View(h.Session, handle, calltest.Head); !strings.Contains(got, "still running after 90 s") {
			t.Errorf("reachable again: %q", got)
		}
		h.Server.Mu.Lock()
		h.Server.ID = "another" // as after a restart
		h.Server.Mu.Unlock()
		for range 2 {
			if got := h.View(h.Session, handle, calltest.Head); !strings.Contains(got, "was restarted, or kept the task for a shorter time") || !strings.Contains(got, "Task not found") || !strings.Contains(got, "run the tool again") {
				t.Errorf("gone: %q", got)
			}
		}
		h = metatooltest.NewTasks(t, &calltest.TaskServer{Modern: modern}, metatool.Options{})
		handle = calltest.TaskHandle(t, h.ExecuteTask())
		h.Mu.Lock()
		delete(h.Others, "work")
		h.Peers["work"] = calltest.Fail(mcp.Errorf(mcp.KindNotFound, `there is no upstream "work"`))
		h.Mu.Unlock()
		if got := h.View(h.Session, handle, calltest.Head); !strings.Contains(got, "work") || !strings.Contains(got, "task") {
			t.Errorf("removed: %q", got)
		}
	})
}

// TestTaskBounds: handles expire, and a principal has so many tasks.
func TestTaskBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := metatooltest.NewTasks(t, &calltest.TaskServer{}, metatool.Options{Tasks: tasks.Options{Wait: time.Second, TTL: time.Minute, Max: 2}})
		one := calltest.TaskHandle(t, h.ExecuteTask())
		h.ExecuteTask()
		if got := h.ExecuteTask(); !strings.Contains(got, "RATE_LIMITED") || !strings.Contains(got, "tasks.max") || !strings.Contains(got, "nothing was run") || h.Server.Made != 2 {
			t.Errorf("%q, %d calls", got, h.Server.Made)
		}
		time.Sleep(time.Minute)
		if got := h.View(h.Session, one, calltest.Head); !strings.Contains(got, "for 1m0s (tasks.ttl)") {
			t.Errorf("%q", got)
		}
		h.ExecuteTask()
	})
}

// TestTaskControls: a call counts once, is approved once, and a result may not be read that may no
// longer be asked for.
func TestTaskControls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &calltest.TaskServer{Lasts: 40 * time.Second, Says: "ok"}
		h := metatooltest.NewTasks(t, s, metatool.Options{
			RateLimits: dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{metatool.ToolExecute: {PerSession: 1}}},
			Policy:     &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.RequireApproval}}},
		})
		handle := calltest.TaskHandle(t, h.ExecuteTask())
		asked := h.Agent.Asked
		old := h.Options.Policy
		h.Change(func(o *metatool.Options) {
			o.Policy = &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Namespace: "work"}}}
		})
		if got := h.View(h.Session, handle, calltest.Head); !strings.Contains(got, "PERMISSION_DENIED") {
			t.Errorf("refused by now: %q", got)
		}
		h.Change(func(o *metatool.Options) { o.Policy = old })
		if got := h.View(h.Session, handle, calltest.Head); got != "ok" {
			t.Errorf("%q", got)
		}
		if asked != 1 || h.Agent.Asked > 2 { // the view itself is asked about, as any
			t.Errorf("asked %d times, then %d", asked, h.Agent.Asked)
		}
	})
}

// TestTaskInProxyMode: without tool_view, tool_execute takes the handle.
func TestTaskInProxyMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := metatooltest.NewTasks(t, &calltest.TaskServer{Lasts: 40 * time.Second, Says: "ok"}, metatool.Options{Mode: metatool.ModeProxy})
		text := h.ExecuteTask()
		handle := calltest.TaskHandle(t, text)
		if strings.Contains(text, "tool_view") {
			t.Errorf("%q names a tool that is not there", text)
		}
		if got, err := h.CallTool(t.Context(), h.Session, metatool.ToolExecute, `{"tool_id":"`+handle+`","args":{}}`); got != "ok" {
			t.Errorf("%q %v", got, err)
		}
		if got, err := h.CallTool(t.Context(), h.Session, metatool.ToolExecute, `{"tool_id":"`+handle+`","args":{"cancel":true}}`); !strings.Contains(got, "has ended already") {
			t.Errorf("%q %v", got, err)
		}
	})
}

// TestTaskTranscript: the flow of an async tool, as an agent reads it, and its tokens.
func TestTaskTranscript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := metatooltest.NewTasks(t, &calltest.TaskServer{Lasts: 50 * time.Second, Says: "42 rows were written."}, metatool.Options{})
		first := h.ExecuteTask()
		handle := calltest.TaskHandle(t, first)
		flow := strings.ReplaceAll(first+"\n--\n"+h.View(h.Session, handle, calltest.Head), handle, "task_HANDLE")
		want := h.ToolID + " still running after 30 s: step 3\n" +
			"Wait for its result: tool_view {\"handle\":\"task_HANDLE\",\"selector\":{\"type\":\"head\"}}\n" +
			"Cancel: tool_view {\"handle\":\"task_HANDLE\",\"selector\":{\"type\":\"cancel\"}}\n--\n42 rows were written."
		if flow != want {
			t.Errorf("got:\n%s\nwant:\n%s", flow, want)
		}
		if n := token.Count(first); n > 90 {
			t.Errorf("the handle costs %d tokens", n)
		}
	})
}

// TestTaskInPlainMode: a tool that is called directly gives the handle, too, also if it promises
// structured content. Clients are not told of taskSupport, as they cannot make tasks here.
func TestTaskInPlainMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := metatooltest.NewTasks(t, &calltest.TaskServer{Lasts: 40 * time.Second, Says: "ok"}, metatool.Options{Mode: metatool.ModePlain})
		h.Add("work", nil, calltest.SlowTool[:len(calltest.SlowTool)-1]+`,"outputSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}`)
		list, err := h.Ask(t, "tools/list", `{}`)
		if err != nil || strings.Contains(string(list), "taskSupport") {
			t.Fatalf("%s %v", list, err)
		}
		raw, err := h.Gateway.Serve(t.Context(), &mcp.Request{ID: "1", Method: "tools/call", Params: json.RawMessage(`{"name":"work__slow","arguments":{}}`), Version: mcp.V20251125, Session: h.Session, Peer: h.Agent})
		if err != nil || rawjson.Get(raw, "structuredContent") == nil {
			t.Fatalf("%s %v", raw, err)
		}
		handle, _, _ := strings.Cut(calltest.TaskHandle(t, string(raw)), `\`)
		if got := h.View(h.Session, handle, calltest.Head); got != "ok" {
			t.Errorf("%q", got)
		}
	})
}
