package metatool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result/usage"
	"github.com/weir-mcp/weir/internal/tasks"
	"github.com/weir-mcp/weir/internal/text/token"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// taskServer is a server whose calls all become tasks. Its fields are set before the first call.
type taskServer struct {
	modern bool
	lasts  time.Duration // of each task; 0 never ends
	ask    bool          // each task asks for input first
	says   string        // the result's text
	fails  *jsonrpc.Error
	at     string // identifies the server; "" for a program
	apart  bool   // each principal has a connection
	stays  bool   // it cancels no task

	mu       sync.Mutex // guards below
	made     int
	id       string
	start    time.Time
	answered chan struct{}
	answers  string
	cancels  int
	gone     error // answered to everything, if set
	seen     []string
}

func (s *taskServer) OffersTasks() bool          { return s.modern }
func (s *taskServer) TellsAgentTasks() bool      { return false }
func (s *taskServer) TasksOutliveSessions() bool { return true }
func (s *taskServer) TasksAt() (string, bool)    { return s.at, !s.apart }
func (s *taskServer) Era(bool) mcp.Peer          { return s }

func (s *taskServer) status() string {
	waits := false
	if s.ask {
		select {
		case <-s.answered:
		default:
			waits = true
		}
	}
	switch {
	case s.cancels > 0:
		return "cancelled"
	case waits:
		return "input_required"
	case s.lasts == 0 || time.Since(s.start) < s.lasts:
		return "working"
	case s.fails != nil:
		return "failed"
	}
	return "completed"
}

func (s *taskServer) task() string {
	return fmt.Sprintf(`"taskId":%q,"status":%q,"statusMessage":"step %d","pollInterval":1000,"pollIntervalMs":1000`, s.id, s.status(), int(time.Since(s.start).Seconds())/10)
}

const question = `{"method":"elicitation/create","params":{"message":"Which row?"}}`

func (s *taskServer) Call(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, method)
	if s.gone != nil {
		return nil, s.gone
	}
	if method != "tools/call" && rawjson.Text(rawjson.Get(params, "taskId")) != s.id {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Task not found"}
	}
	switch method {
	case "tools/call":
		s.made++
		s.id, s.start, s.answered = fmt.Sprintf("t%d", s.made), time.Now(), make(chan struct{})
		if s.modern {
			return json.RawMessage(`{"resultType":"task",` + s.task() + `}`), nil
		}
		return json.RawMessage(`{"task":{` + s.task() + `}}`), nil
	case "tasks/get":
		extra := ""
		switch status := s.status(); {
		case !s.modern:
		case status == "input_required":
			extra = `,"inputRequests":{"q1":` + question + `}`
		case status == "completed":
			extra = `,"result":` + textResult(s.says)
		case status == "failed":
			extra = `,"error":` + string(s.fails.Append(nil))
		}
		return json.RawMessage(`{` + s.task() + extra + `}`), nil
	case "tasks/cancel":
		if status := s.status(); s.stays || status == "completed" || status == "failed" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Cannot cancel task: it is " + status}
		}
		s.cancels++
		return json.RawMessage(`{` + s.task() + `}`), nil
	case "tasks/update":
		s.answers = string(rawjson.Get(params, "inputResponses"))
		close(s.answered)
		return json.RawMessage(`{}`), nil
	case "tasks/result":
		return s.wait(ctx, back)
	}
	return nil, mcp.MethodNotFound(method)
}

// wait serves tasks/result. It is called with mu held.
func (s *taskServer) wait(ctx context.Context, back mcp.Handler) (json.RawMessage, error) {
	if s.status() == "input_required" {
		s.mu.Unlock()
		answer, err := back.Serve(ctx, &mcp.Request{ID: "q", Method: "elicitation/create", Params: rawjson.Get([]byte(question), "params"), Peer: mcp.NoPeer})
		s.mu.Lock()
		if err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "nobody answers"}
		}
		s.answers = string(answer)
		close(s.answered)
	}
	for {
		switch status := s.status(); {
		case s.gone != nil:
			return nil, s.gone
		case status == "completed":
			return rawjson.SetPath(json.RawMessage(textResult(s.says)), []byte(`{"taskId":"t1"}`), "_meta", "io.modelcontextprotocol/related-task")
		case status == "failed" || status == "cancelled":
			e := s.fails
			if e == nil {
				e = &jsonrpc.Error{Code: -32000, Message: "cancelled"}
			}
			return nil, e
		}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

func (s *taskServer) Notify(context.Context, string, json.RawMessage) error { return nil }

const (
	slowTool      = `{"name":"slow","description":"Works long.","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`
	slowModern    = `{"name":"slow","description":"Works long.","inputSchema":{"type":"object"}}`
	head          = `,"selector":{"type":"head"}}`
	tasksWait     = 30 * time.Second
	capElicit     = `{"elicitation":{}}`
	progressToken = `"_meta":{"progressToken":7}`
)

// taskHarness is a gateway over one taskServer.
type taskHarness struct {
	*harness
	t      *testing.T
	server *taskServer
	tool   string
	client *taskAgent
}

// taskAgent answers questions and collects progress.
type taskAgent struct {
	mu       sync.Mutex // guards below
	progress []string
	asked    int
	question string // the message of the last one
	delay    time.Duration
}

func (a *taskAgent) Call(ctx context.Context, method string, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
	a.mu.Lock()
	a.asked++
	a.question = rawjson.Text(rawjson.Get(params, "message"))
	a.mu.Unlock()
	select {
	case <-time.After(a.delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return json.RawMessage(`{"action":"accept","content":{"row":3}}`), nil
}

func (a *taskAgent) Notify(_ context.Context, method string, params json.RawMessage) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if method == "notifications/progress" {
		a.progress = append(a.progress, string(params))
	}
	return nil
}

func newTaskHarness(t *testing.T, s *taskServer, opts Options) *taskHarness {
	if opts.Tasks.Wait == 0 {
		opts.Tasks.Wait = tasksWait
	}
	h := &taskHarness{harness: newHarness(t, opts), t: t, server: s, client: &taskAgent{}}
	h.others = map[string]mcp.Peer{"work": s}
	definition := slowTool
	if s.modern {
		definition = slowModern
	}
	h.add("work", nil, definition)
	h.tool = h.id(t, "work", "slow")
	h.session.SetVersion(mcp.V20251125)
	h.session.SetClient(nil, json.RawMessage(capElicit))
	return h
}

// call calls a meta-tool and returns the first text of its result.
func (h *taskHarness) call(ctx context.Context, session *mcp.Session, name, args string) (string, error) {
	raw, err := h.g.Serve(ctx, &mcp.Request{ID: "1", Method: "tools/call", Params: json.RawMessage(`{"name":"` + name + `","arguments":` + args + `,` + progressToken + `}`), Version: mcp.V20251125, Session: session, Peer: h.client})
	if err != nil {
		return "", err
	}
	text := ""
	_ = rawjson.EachElement(rawjson.Get(raw, "content"), func(v []byte) bool { text = rawjson.Text(rawjson.Get(v, "text")); return false })
	return text, nil
}

func (h *taskHarness) execute() string {
	h.t.Helper()
	text, err := h.call(h.t.Context(), h.session, ToolExecute, `{"tool_id":"`+h.tool+`","args":{}}`)
	if err != nil {
		h.t.Fatal(err)
	}
	return text
}

func (h *taskHarness) view(session *mcp.Session, handle, rest string) string {
	h.t.Helper()
	text, err := h.call(h.t.Context(), session, ToolView, `{"handle":"`+handle+`"`+rest)
	if err != nil {
		h.t.Fatal(err)
	}
	return text
}

// handleIn returns the handle of the task that an answer tells.
func handleIn(t *testing.T, text string) string {
	t.Helper()
	i := strings.Index(text, "task_")
	if i < 0 {
		t.Fatalf("no handle in %q", text)
	}
	handle, _, _ := strings.Cut(text[i:], `"`)
	return handle
}

func eras(t *testing.T, f func(t *testing.T, modern bool)) {
	for _, modern := range []bool{false, true} {
		t.Run(map[bool]string{false: "2025-11-25", true: "2026-07-28"}[modern], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, modern) })
		})
	}
}

// TestTaskWithinWait: a call whose task ends in time has the result of any call, with progress.
func TestTaskWithinWait(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		h := newTaskHarness(t, &taskServer{modern: modern, lasts: 25 * time.Second, says: "42 rows"}, Options{})
		if got := h.execute(); got != "42 rows" {
			t.Errorf("%q", got)
		}
		if n := len(h.client.progress); n < 3 || !strings.Contains(h.client.progress[n-1], `"progressToken":7`) || !strings.Contains(h.client.progress[n-1], "step 2") {
			t.Errorf("progress: %q", h.client.progress)
		}
		if h.server.made != 1 || h.g.state.tasks.Len() != 0 {
			t.Errorf("%d calls, %d tasks kept", h.server.made, h.g.state.tasks.Len())
		}
	})
}

// TestTaskHandle: a longer one gives a handle, which waits, ends in the result, and works in another
// session of the same principal and in no other's.
func TestTaskHandle(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		var events []Event
		h := newTaskHarness(t, &taskServer{modern: modern, lasts: 70 * time.Second, says: "42 rows"}, Options{OnEvent: func(e Event) { events = append(events, e) }})
		first := h.execute()
		handle := handleIn(t, first)
		if !strings.Contains(first, "still running after 30 s: step") || !strings.Contains(first, "tool_view") || !strings.Contains(first, h.tool) {
			t.Errorf("%q", first)
		}
		other := mcp.NewSession("o", "bob")
		defer other.Close()
		if got := h.view(other, handle, head); !strings.Contains(got, "no task has the handle") {
			t.Errorf("another principal reads %q", got)
		}
		h.session.Close()
		again := mcp.NewSession("s2", "ann")
		defer again.Close()
		if got := h.view(again, handle, head); !strings.Contains(got, "still running after 60 s") {
			t.Errorf("%q", got)
		}
		for range 2 { // the second reads it again, as an agent does whose connection broke
			if got := h.view(again, handle, head); got != "42 rows" {
				t.Errorf("%q", got)
			}
		}
		counted := 0
		for _, e := range events {
			if e.TokensRaw > 0 && e.TokensRead > 0 && e.MetaTool == ToolView {
				counted++
			}
			if e.MetaTool == ToolExecute && e.ToolID != h.tool {
				t.Errorf("event %+v", e)
			}
		}
		if counted != 1 || h.server.made != 1 {
			t.Errorf("the result was counted %d times, the tool ran %d times", counted, h.server.made)
		}
		if s := h.g.state.Stats(""); s.Total == (usage.Usage{}) {
			t.Error("no usage")
		}
	})
}

// TestTaskOfAProfile: a handle is unknown at other endpoints than the one whose call made the task.
func TestTaskOfAProfile(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		h := newTaskHarness(t, &taskServer{modern: modern, lasts: 70 * time.Second, says: "42 rows"}, Options{Profiles: []Profile{{Name: "all"}, {Name: "none", Exclude: []string{"*:*"}}}})
		at := func(profile, tool, arguments string) string {
			t.Helper()
			text, err := h.call(identity.WithRoute(t.Context(), identity.Route{Profile: profile}), h.session, tool, arguments)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		for _, own := range []string{"", "all"} {
			handle := handleIn(t, at(own, ToolExecute, `{"tool_id":"`+h.tool+`","args":{}}`))
			for _, profile := range []string{"", "all", "none"} {
				if profile == own {
					continue
				}
				for _, do := range []string{head, `,"selector":{"type":"cancel"}}`} {
					if got := at(profile, ToolView, `{"handle":"`+handle+`"`+do); !strings.Contains(got, "no task has the handle") {
						t.Errorf("a task of %q at %q: %q", own, profile, got)
					}
				}
			}
			at(own, ToolView, `{"handle":"`+handle+`"`+head) // waits
			if got := at(own, ToolView, `{"handle":"`+handle+`"`+head); got != "42 rows" {
				t.Errorf("%q", got)
			}
		}
	})
}

// TestTaskResultIsShaped: a long result that comes late is held back as any other.
func TestTaskResultIsShaped(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		h := newTaskHarness(t, &taskServer{modern: modern, lasts: 40 * time.Second, says: strings.Repeat("a long line of the report\n", 4000)}, Options{})
		handle := handleIn(t, h.execute())
		got := h.view(h.session, handle, head)
		if !strings.Contains(got, "art_") || len(got) > 4000 {
			t.Errorf("%d characters: %.300q", len(got), got)
		}
	})
}

// TestTaskCancel: an agent cancels a task by its handle, and by cancelling the call that waits.
func TestTaskCancel(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		h := newTaskHarness(t, &taskServer{modern: modern}, Options{})
		handle := handleIn(t, h.execute())
		if got := h.view(h.session, handle, `,"selector":{"type":"cancel"}}`); !strings.Contains(got, "is cancelled") || h.server.cancels != 1 {
			t.Errorf("%q, %d cancellations", got, h.server.cancels)
		}
		if got := h.view(h.session, handle, head); !strings.Contains(got, "was cancelled") || !strings.Contains(got, "run the tool again") {
			t.Errorf("%q", got)
		}
		h = newTaskHarness(t, &taskServer{modern: modern}, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { time.Sleep(3 * time.Second); cancel() }()
		if _, err := h.call(ctx, h.session, ToolExecute, `{"tool_id":"`+h.tool+`","args":{}}`); err != context.Canceled {
			t.Errorf("%v", err)
		}
		if h.server.cancels != 1 || h.g.state.tasks.Len() != 0 {
			t.Errorf("%d cancellations, %d kept", h.server.cancels, h.g.state.tasks.Len())
		}
		h = newTaskHarness(t, &taskServer{modern: modern, lasts: 2 * time.Minute, says: "done"}, Options{})
		handle = handleIn(t, h.execute())
		ctx, cancel = context.WithCancel(t.Context())
		go func() { time.Sleep(3 * time.Second); cancel() }()
		if _, err := h.call(ctx, h.session, ToolView, `{"handle":"`+handle+`"`+head); err != context.Canceled || h.server.cancels != 0 {
			t.Errorf("the end of a view: %v, %d cancellations", err, h.server.cancels)
		}
	})
}

// TestTaskAsks: the questions of a task reach the agent once, and the time of the answer does not
// count.
func TestTaskAsks(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		h := newTaskHarness(t, &taskServer{modern: modern, ask: true, lasts: 50 * time.Second, says: "row 3"}, Options{})
		h.client.delay = 45 * time.Second
		got := h.execute()
		if strings.Contains(got, "task_") {
			got = h.view(h.session, handleIn(t, got), head)
		}
		if got != "row 3" || h.client.asked != 1 || !strings.Contains(h.server.answers, `"row":3`) {
			t.Errorf("%q, asked %d times, answer %s", got, h.client.asked, h.server.answers)
		}
		if h.client.question != "Server work asks: Which row?" {
			t.Errorf("the agent reads %q", h.client.question)
		}
	})
}

// TestTaskAsksInVain: a task whose question has no reader is no dead end.
func TestTaskAsksInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTaskHarness(t, &taskServer{modern: true, ask: true, lasts: time.Second, says: "x"}, Options{})
		deaf := mcp.NewSession("deaf", "ann")
		defer deaf.Close()
		deaf.SetVersion(mcp.V20251125)
		deaf.SetClient(nil, json.RawMessage(`{}`))
		got, err := h.call(t.Context(), deaf, ToolExecute, `{"tool_id":"`+h.tool+`","args":{}}`)
		if err != nil || !strings.Contains(got, "waits for input") || !strings.Contains(got, "elicitation") {
			t.Fatalf("%q %v", got, err)
		}
		if got := h.view(h.session, handleIn(t, got), head); got != "x" { // another session of the principal can answer
			t.Errorf("%q", got)
		}
	})
}

// TestTaskFailures: what can go wrong is told with what to do.
func TestTaskFailures(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		h := newTaskHarness(t, &taskServer{modern: modern, lasts: time.Second, fails: &jsonrpc.Error{Code: -32603, Message: "disk is full"}}, Options{})
		if got := h.execute(); !strings.Contains(got, "disk is full") || !strings.Contains(got, "UPSTREAM_ERROR") {
			t.Errorf("failed: %q", got)
		}
		set := func(err error) { h.server.mu.Lock(); h.server.gone = err; h.server.mu.Unlock() }
		h = newTaskHarness(t, &taskServer{modern: modern, lasts: 2 * time.Minute, says: "late"}, Options{})
		handle := handleIn(t, h.execute())
		set(mcp.Errorf(mcp.KindUpstreamUnavailable, `upstream "work" is restarting`))
		if got := h.view(h.session, handle, head); !strings.Contains(got, "cannot be asked now") || !strings.Contains(got, "restarting") || !strings.Contains(got, handle) {
			t.Errorf("unreachable: %q", got)
		}
		set(nil)
		if got := h.view(h.session, handle, head); !strings.Contains(got, "still running after 90 s") {
			t.Errorf("reachable again: %q", got)
		}
		h.server.mu.Lock()
		h.server.id = "another" // as after a restart
		h.server.mu.Unlock()
		for range 2 {
			if got := h.view(h.session, handle, head); !strings.Contains(got, "was restarted, or kept the task for a shorter time") || !strings.Contains(got, "Task not found") || !strings.Contains(got, "run the tool again") {
				t.Errorf("gone: %q", got)
			}
		}
		h = newTaskHarness(t, &taskServer{modern: modern}, Options{})
		handle = handleIn(t, h.execute())
		h.mu.Lock()
		delete(h.others, "work")
		h.peers["work"] = fail(mcp.Errorf(mcp.KindNotFound, `there is no upstream "work"`))
		h.mu.Unlock()
		if got := h.view(h.session, handle, head); !strings.Contains(got, "work") || !strings.Contains(got, "task") {
			t.Errorf("removed: %q", got)
		}
	})
}

// TestTaskBounds: handles expire, and a principal has so many tasks.
func TestTaskBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTaskHarness(t, &taskServer{}, Options{Tasks: tasks.Options{Wait: time.Second, TTL: time.Minute, Max: 2}})
		one := handleIn(t, h.execute())
		h.execute()
		if got := h.execute(); !strings.Contains(got, "RATE_LIMITED") || !strings.Contains(got, "tasks.max") || !strings.Contains(got, "nothing was run") || h.server.made != 2 {
			t.Errorf("%q, %d calls", got, h.server.made)
		}
		time.Sleep(time.Minute)
		if got := h.view(h.session, one, head); !strings.Contains(got, "for 1m0s (tasks.ttl)") {
			t.Errorf("%q", got)
		}
		h.execute()
	})
}

// TestTaskControls: a call counts once, is approved once, and a result may not be read that may no
// longer be asked for.
func TestTaskControls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &taskServer{lasts: 40 * time.Second, says: "ok"}
		h := newTaskHarness(t, s, Options{
			RateLimits: dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{ToolExecute: {PerSession: 1}}},
			Policy:     &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.RequireApproval}}},
		})
		handle := handleIn(t, h.execute())
		asked := h.client.asked
		opts := h.g.opts
		opts.Policy = &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Namespace: "work"}}}
		old := h.g
		h.g = New(opts) // a reload: same State
		if got := h.view(h.session, handle, head); !strings.Contains(got, "PERMISSION_DENIED") {
			t.Errorf("refused by now: %q", got)
		}
		h.g = old
		if got := h.view(h.session, handle, head); got != "ok" {
			t.Errorf("%q", got)
		}
		if asked != 1 || h.client.asked > 2 { // the view itself is asked about, as any
			t.Errorf("asked %d times, then %d", asked, h.client.asked)
		}
	})
}

// TestTaskInProxyMode: without tool_view, tool_execute takes the handle.
func TestTaskInProxyMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTaskHarness(t, &taskServer{lasts: 40 * time.Second, says: "ok"}, Options{Mode: ModeProxy})
		text := h.execute()
		handle := handleIn(t, text)
		if strings.Contains(text, "tool_view") {
			t.Errorf("%q names a tool that is not there", text)
		}
		if got, err := h.call(t.Context(), h.session, ToolExecute, `{"tool_id":"`+handle+`","args":{}}`); got != "ok" {
			t.Errorf("%q %v", got, err)
		}
		if got, err := h.call(t.Context(), h.session, ToolExecute, `{"tool_id":"`+handle+`","args":{"cancel":true}}`); !strings.Contains(got, "has ended already") {
			t.Errorf("%q %v", got, err)
		}
	})
}

// TestTaskTranscript: the flow of an async tool, as an agent reads it, and its tokens.
func TestTaskTranscript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTaskHarness(t, &taskServer{lasts: 50 * time.Second, says: "42 rows were written."}, Options{})
		first := h.execute()
		handle := handleIn(t, first)
		flow := strings.ReplaceAll(first+"\n--\n"+h.view(h.session, handle, head), handle, "task_HANDLE")
		want := h.tool + " still running after 30 s: step 3\n" +
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
		h := newTaskHarness(t, &taskServer{lasts: 40 * time.Second, says: "ok"}, Options{Mode: ModePlain})
		h.add("work", nil, slowTool[:len(slowTool)-1]+`,"outputSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}`)
		list, err := h.ask(t, "tools/list", `{}`)
		if err != nil || strings.Contains(string(list), "taskSupport") {
			t.Fatalf("%s %v", list, err)
		}
		raw, err := h.g.Serve(t.Context(), &mcp.Request{ID: "1", Method: "tools/call", Params: json.RawMessage(`{"name":"work__slow","arguments":{}}`), Version: mcp.V20251125, Session: h.session, Peer: h.client})
		if err != nil || rawjson.Get(raw, "structuredContent") == nil {
			t.Fatalf("%s %v", raw, err)
		}
		handle, _, _ := strings.Cut(handleIn(t, string(raw)), `\`)
		if got := h.view(h.session, handle, head); got != "ok" {
			t.Errorf("%q", got)
		}
	})
}
