package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/program"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/store"
)

var testLimits = Limits{Calls: 100, Parallel: 8, Timeout: 30 * time.Second, Memory: 64 << 20, Output: 64 << 10}

// newRunner returns a Runner over documents. Large results are kept in a map.
func newRunner(t testing.TB, engine Engine, docs store.Docs) *Runner {
	t.Helper()
	var mu sync.Mutex
	kept := map[string]json.RawMessage{}
	return &Runner{Engine: engine, Limits: testLimits, Journals: NewJournals(Options{
		Docs: docs, TTL: time.Hour,
		Keep: func(_ context.Context, _, _, _ string, value json.RawMessage) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			handle := fmt.Sprint("art_", len(kept))
			kept[handle] = slices.Clone(value)
			return handle, nil
		},
		Kept: func(_ context.Context, _, _, handle string) (json.RawMessage, error) {
			mu.Lock()
			defer mu.Unlock()
			if value := kept[handle]; value != nil {
				return value, nil
			}
			return nil, errors.New("gone")
		},
	})}
}

func newPool(t testing.TB) *program.Pool {
	t.Helper()
	command, err := program.Self()
	if err != nil {
		t.Fatal(err)
	}
	pool := program.NewPool(program.Options{Command: command})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := pool.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return pool
}

// world is a Gateway over one server: add writes a number, has reads whether it was written, big returns many bytes.
// It counts what the server has done.
type world struct {
	mu    sync.Mutex // guards below
	added map[string]int
	reads int
	told  []string
	// admit checks a call before it is sent. Nil admits all.
	admit func(ctx context.Context, tool Tool) error
	// dead ends the gateway: calls that reach no server any more. Nil does nothing.
	dead func() bool
}

func newWorld() *world { return &world{added: map[string]int{}} }

func (w *world) Resolve(_ context.Context, call program.Call) (Tool, error) {
	switch call.Tool {
	case "add", "big":
		return Tool{ID: call.Tool}, nil
	case "put":
		return Tool{ID: call.Tool, Idempotent: true}, nil
	case "has", "fail":
		return Tool{ID: call.Tool, ReadOnly: true}, nil
	}
	return Tool{}, result.NewError(result.HydrateFailed, "no tool "+call.Tool)
}

var errCut = &program.ToolError{Code: "UPSTREAM_UNAVAILABLE", Message: "the connection was cut"}

func (w *world) Call(ctx context.Context, tool Tool, args json.RawMessage, sending func(context.Context) error) Answer {
	if w.admit != nil {
		if err := w.admit(ctx, tool); err != nil {
			return Answer{Err: err}
		}
	}
	if err := sending(ctx); err != nil {
		return Answer{Err: err}
	}
	if w.dead != nil && w.dead() {
		return Answer{Err: errCut, Ran: true}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch tool.ID {
	case "add", "put":
		w.added[string(args)]++
		if strings.Contains(string(args), "cut") {
			return Answer{Err: errCut, Ran: true}
		}
		if strings.Contains(string(args), "refused") {
			delete(w.added, string(args))
			return Answer{Err: &program.ToolError{Code: CodeTool, Message: "refused"}}
		}
		return Answer{Value: json.RawMessage(fmt.Sprintf(`{"total":%d}`, len(w.added)))}
	case "big":
		w.added[string(args)]++
		return Answer{Value: json.RawMessage(`"` + strings.Repeat("x", maxInline) + `"`)}
	case "fail":
		return Answer{Err: &program.ToolError{Code: CodeTool, Message: "it failed"}}
	}
	w.reads++
	return Answer{Value: json.RawMessage(fmt.Sprint(w.added[string(args)] > 0))}
}

func (w *world) Find(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage("[]"), nil
}

func (w *world) Open(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return nil, result.NewError(result.ViewFailed, "no handle")
}

func (w *world) Called(_ context.Context, n int, tool string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, fmt.Sprint(n, " ", tool))
}

// do runs a program; id is of the run.
func do(t testing.TB, r *Runner, w *world, q Request) (value, id string, err error) {
	t.Helper()
	if q.Principal == "" {
		q.Principal = "ann"
	}
	run, err := r.Start(t.Context(), q)
	if err != nil {
		return "", "", err
	}
	out, err := run.Do(t.Context(), w)
	return string(out.Value), run.ID, err
}

// details returns a member of the details of a failure.
func details(t testing.TB, err error) (d struct {
	Reason, Run string
	Line        int
	Calls       []map[string]any
	Log         string
	ToolError   program.ToolError `json:"tool_error"`
}) {
	t.Helper()
	var own *result.Error
	if !errors.As(err, &own) || own.Code != result.ProgramFailed {
		t.Fatalf("no failure of a program: %v", err)
	}
	if err := json.Unmarshal(own.Details, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestGoingOn(t *testing.T) {
	pool, docs := newPool(t), store.NewMemory(store.MemoryOptions{})
	r, w := newRunner(t, pool, docs), newWorld()
	_, id, err := do(t, r, w, Request{Source: `log("begin"); await call("has", {n: 0});
		for (let n = 0; n < 3; n++) await call("add", {n, same: [1, {b: 2, a: 1}]});
		await call("big", {});
		await call("fail", {});`})
	d := details(t, err)
	if d.Reason != "PROGRAM_ERROR" || d.Run != id || d.Line != 4 || d.ToolError.Code != CodeTool || d.Log != "begin" || fmt.Sprint(d.Calls) !=
		"[map[ok:1 tool_id:has writes:false] map[ok:3 tool_id:add writes:true] map[ok:1 tool_id:big writes:true] map[error:1 tool_id:fail writes:false]]" {
		t.Fatalf("%+v", d)
	}
	// Equal arguments in another order are the same call; a further occurrence is a new one.
	mended := `await call("has", {n: 0}); let last;
		for (let n = 0; n < 3; n++) last = await call("add", {same: [1, {a: 1, b: 2}], n});
		const again = await call("add", {n: 0, same: [1, {a: 1, b: 2}]});
		return [last.total, again.total, (await call("big", {})).length]`
	// Another caller, another profile and another run do not exist.
	for _, q := range []Request{{Principal: "bob", Resume: id}, {Profile: "few", Resume: id}, {Resume: "run_aaaaaaaaaaaaaaaa"}, {Resume: "x"}, {Principal: "bob", Resume: "last"}} {
		q.Source = mended
		if _, _, err := do(t, r, w, q); err == nil || !strings.Contains(err.Error(), "there is no run") {
			t.Errorf("%+v: %v", q, err)
		}
	}
	// Another process goes on, by the documents alone.
	other := newRunner(t, pool, docs)
	other.Journals.o.Kept = r.Journals.o.Kept
	value, same, err := do(t, other, w, Request{Source: mended, Resume: "last"})
	if err != nil || value != fmt.Sprintf("[3,5,%d]", maxInline) || same != id || w.reads != 1 || len(w.added) != 5 {
		t.Errorf("%s, %v; %d reads, %v", value, err, w.reads, w.added)
	}
}

// A call whose answer was lost is not made again, unless the program says so, or the tool may run twice.
func TestUnknownOutcome(t *testing.T) {
	r, w := newRunner(t, newPool(t), store.NewMemory(store.MemoryOptions{})), newWorld()
	_, id, err := do(t, r, w, Request{Source: `await call("add", {n: "cut"})`})
	if d := details(t, err); fmt.Sprint(d.Calls) != "[map[tool_id:add unknown:1 writes:true]]" {
		t.Fatalf("%+v", d)
	}
	_, _, err = do(t, r, w, Request{Source: `await call("add", {n: "cut"})`, Resume: id})
	if d := details(t, err); d.ToolError.Code != "OUTCOME_UNKNOWN" || !strings.Contains(d.ToolError.Message, "{again: true}") || w.added[`{"n":"cut"}`] != 1 {
		t.Fatalf("%+v", d)
	}
	_, _, err = do(t, r, w, Request{Source: `try { await call("add", {n: "cut"}) } catch (e) { await call("add", {n: "cut"}, {again: true}) }`, Resume: id})
	if d := details(t, err); d.ToolError.Code != "UPSTREAM_UNAVAILABLE" || w.added[`{"n":"cut"}`] != 2 {
		t.Errorf("%+v, %v", d, w.added)
	}
	_, id, _ = do(t, r, w, Request{Source: `await call("put", {n: "cut"})`})
	_, _, err = do(t, r, w, Request{Source: `await call("put", {n: "cut"})`, Resume: id})
	if d := details(t, err); d.ToolError.Code != "UPSTREAM_UNAVAILABLE" || w.added[`{"n":"cut"}`] != 4 {
		t.Errorf("%+v, %v", d, w.added)
	}
	// An error that the server has answered is known: the call is made again.
	_, id, _ = do(t, r, w, Request{Source: `await call("add", {n: "refused"})`})
	_, _, err = do(t, r, w, Request{Source: `await call("add", {n: "refused"})`, Resume: id})
	if d := details(t, err); d.ToolError.Code != CodeTool {
		t.Errorf("%+v", d)
	}
}

// mortal are documents of a process that ends with its nth change, before or after the change is kept.
type mortal struct {
	store.Docs
	after bool

	mu   sync.Mutex // guards left
	left int
}

func (m *mortal) dead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.left <= 0
}

func (m *mortal) Set(ctx context.Context, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error) {
	m.mu.Lock()
	dies := m.left <= 1
	gone := m.left <= 0
	m.left--
	m.mu.Unlock()
	if gone || dies && !m.after {
		return 0, store.ErrUnavailable
	}
	rev, err := m.Docs.Set(ctx, key, value, rev, ttl)
	if dies {
		return 0, store.ErrUnavailable
	}
	return rev, err
}

// TestEachWriteOnce: a gateway ends at each change of the journal of a program with 20 writes. The mended program goes
// on at another gateway, and the server has each write once.
func TestEachWriteOnce(t *testing.T) {
	const source = `for (let n = 0; n < 20; n++) {
		try { await call("add", {n}) } catch (e) {
			if (e.code != "OUTCOME_UNKNOWN") throw e;
			if (!await call("has", {n})) await call("add", {n}, {again: true});
		}
	}
	return "all"`
	pool := newPool(t)
	ends := 0
	for n := 1; ; n++ {
		for _, after := range []bool{false, true} {
			docs, w := store.NewMemory(store.MemoryOptions{}), newWorld()
			m := &mortal{Docs: docs, after: after, left: n}
			w.dead = m.dead
			value, _, err := do(t, newRunner(t, pool, m), w, Request{Source: source})
			if err == nil && !m.dead() {
				if value != `"all"` || len(w.added) != 20 || ends < 80 {
					t.Errorf("%s, %d writes, after %d ends", value, len(w.added), ends)
				}
				return
			}
			ends++
			w.dead = nil
			q := Request{Source: source, Resume: "last"}
			if n == 1 && !after {
				q.Resume = "" // the run had no journal yet
			}
			if value, _, err := do(t, newRunner(t, pool, docs), w, q); err != nil || value != `"all"` {
				t.Fatalf("end %d, after %v: %s, %v", n, after, value, err)
			}
			for args, times := range w.added {
				if times != 1 {
					t.Fatalf("end %d, after %v: %s was written %d times", n, after, args, times)
				}
			}
			if len(w.added) != 20 {
				t.Fatalf("end %d, after %v: %d writes", n, after, len(w.added))
			}
		}
	}
}

// made starts a call and sends it.
func made(r *journal, ctx context.Context, tool Tool, args json.RawMessage, again bool) (known, error) {
	k, err := r.open(ctx, tool, args, again)
	if err == nil && k.value == nil {
		err = r.sending(ctx, k.n)
	}
	return k, err
}

// A run that was resumed elsewhere makes no further write.
func TestResumedElsewhere(t *testing.T) {
	docs, ctx := store.NewMemory(store.MemoryOptions{}), t.Context()
	j := newRunner(t, nil, docs).Journals
	first := j.begin("ann", "")
	add := Tool{ID: "add"}
	one, err := made(first, ctx, add, json.RawMessage(`{"n":1}`), false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.resume(ctx, "ann", "", first.id); err == nil || !strings.Contains(err.Error(), "has not ended") {
		t.Errorf("the same process resumes a run that goes on: %v", err)
	}
	other := newRunner(t, nil, docs).Journals
	second, err := other.resume(ctx, "ann", "", first.id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := made(first, ctx, add, json.RawMessage(`{"n":2}`), false); err == nil || !strings.Contains(err.Error(), "goes on elsewhere") {
		t.Errorf("%v", err)
	}
	if _, err := made(second, ctx, add, json.RawMessage(`{"n":1}`), false); !errors.Is(err, errUnsure) {
		t.Errorf("%v", err)
	}
	// The answer that comes late is of use.
	if err := first.finish(ctx, one.n, done, labelled{value: json.RawMessage(`"late"`)}); err != nil {
		t.Fatal(err)
	}
	if known, err := made(second, ctx, add, json.RawMessage(`{"n":1}`), false); err != nil || string(known.value) != `"late"` {
		t.Errorf("%s, %v", known.value, err)
	}
	if first.end(ctx, false) {
		t.Error("the lost run says that it can be resumed")
	}
}

// Journals of one principal are bounded, and a full store ends the run before the call.
func TestRoomOfJournals(t *testing.T) {
	docs, ctx := store.NewMemory(store.MemoryOptions{}), t.Context()
	j := newRunner(t, nil, docs).Journals
	for range maxJournals + 3 {
		r := j.begin("ann", "")
		n, err := made(r, ctx, Tool{ID: "add"}, json.RawMessage(`{}`), false)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.finish(ctx, n.n, done, labelled{value: json.RawMessage(`1`)}); err != nil {
			t.Fatal(err)
		}
		r.end(ctx, false)
	}
	heads, err := j.heads(ctx, ownerKey("ann", ""))
	if err != nil || len(heads) != maxJournals {
		t.Errorf("%d journals, %v", len(heads), err)
	}
	values := 0
	for _, err := range docs.List(ctx, valuePrefix) {
		if err != nil {
			t.Fatal(err)
		}
		values++
	}
	if values != maxJournals {
		t.Errorf("%d results", values)
	}
	w := newWorld()
	_, _, err = do(t, newRunner(t, newPool(t), store.NewMemory(store.MemoryOptions{MaxBytes: 64})), w, Request{Source: `try { await call("add", {n: 1}) } catch (e) {} return 1`})
	if d := details(t, err); d.Reason != "UPSTREAM_UNAVAILABLE" || len(w.added) != 0 {
		t.Errorf("%+v, %v", d, w.added)
	}
}

func TestClock(t *testing.T) {
	ctx, c := newClock(t.Context(), 100*time.Millisecond)
	goOn := c.pause()
	time.Sleep(150 * time.Millisecond)
	if ctx.Err() != nil {
		t.Error("the time went on while a person was asked")
	}
	goOn()
	goOn()
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), errTime) {
		t.Error(context.Cause(ctx))
	}
	c.stop()
	ctx, c = newClock(t.Context(), time.Hour)
	c.stop()
	if <-ctx.Done(); errors.Is(context.Cause(ctx), errTime) {
		t.Error("stopped, and the time is over")
	}
}

func TestValue(t *testing.T) {
	keep := func(mediaType string, data []byte) (string, error) {
		return fmt.Sprintf("art_%s_%s", mediaType, data), nil
	}
	for raw, want := range map[string]string{
		`{"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"b":2}}`: `{"b":2}`,
		`{"content":[{"type":"text","text":"{\"a\":1}"}]}`:                             `{"a":1}`,
		`{"content":[{"type":"text","text":" [1, 2]\n"}]}`:                             `[1, 2]`,
		`{"content":[{"type":"text","text":"12"}]}`:                                    `12`,
		`{"content":[{"type":"text","text":"hello"}]}`:                                 `"hello"`,
		`{"content":[]}`: `null`,
		`{}`:             `null`,
		`{"content":[{"type":"text","text":"a"},{"type":"text","text":"true"}]}`:                                                       `["a",true]`,
		`{"content":[{"type":"image","mimeType":"image/png","data":"aGk="}]}`:                                                          `{"media_type":"image/png","size":2,"handle":"art_image/png_hi"}`,
		`{"content":[{"type":"resource","resource":{"uri":"a:b","text":"[3]"}}]}`:                                                      `[3]`,
		`{"content":[{"type":"resource","resource":{"uri":"a:b","mimeType":"x/y","blob":"aGk="}}]}`:                                    `{"media_type":"x/y","size":2,"handle":"art_x/y_hi"}`,
		`{"content":[{"type":"resource_link","uri":"a:b","name":"n"}]}`:                                                                `{"type":"resource_link","uri":"a:b","name":"n"}`,
		`{"content":[{"type":"text","text":"no"},{"type":"text","text":"more"}],"isError":true}`:                                       "TOOL_ERROR: no\nmore",
		`{"content":[],"structuredContent":{"why":1},"isError":true}`:                                                                  "TOOL_ERROR: the tool answered an error without a text",
		`{"content":[{"type":"image","mimeType":"image/png","data":"?"}]}`:                                                             "UPSTREAM_ERROR: the server answered with bytes that are not in base64",
		`{"content":[{"type":"text","text":"` + strings.Repeat("x", maxToolMessage+9) + `"}],"isError":true,"structuredContent":null}`: "TOOL_ERROR: " + strings.Repeat("x", maxToolMessage) + "…",
	} {
		got, err := Value(json.RawMessage(raw), keep)
		text := string(got)
		if err != nil {
			text = err.Error()
		}
		if text != want {
			t.Errorf("%.100s = %.200s, want %.200s", raw, text, want)
		}
	}
}

// A call that waits for a person when its gateway ends was not made: the run that goes on elsewhere makes it, and the
// gateway that comes back does not.
func TestResumeOfAWaitingCall(t *testing.T) {
	t.Parallel()
	docs, ctx, pool, w := store.NewMemory(store.MemoryOptions{}), t.Context(), newPool(t), newWorld()
	const source = `for (let n = 0; n < 3; n++) await call("add", {n}); return "all"`
	first, err := newRunner(t, pool, docs).Start(ctx, Request{Principal: "ann", Tool: "tool_run", Source: source})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	w.admit = func(ctx context.Context, _ Tool) error {
		if asked++; asked != 2 {
			return nil
		}
		w.admit = nil // the person at the other gateway agrees at once
		second, err := newRunner(t, pool, docs).Start(ctx, Request{Principal: "ann", Tool: "tool_run", Source: source, Resume: first.ID})
		if err != nil {
			t.Error(err)
			return err
		}
		out, err := second.Do(ctx, w)
		if err != nil || string(out.Value) != `"all"` {
			t.Errorf("%s, %v", out.Value, err)
		}
		return nil // and here somebody agrees as well, too late
	}
	if _, err := first.Do(ctx, w); err == nil || !strings.Contains(err.Error(), "goes on elsewhere") {
		t.Errorf("%v", err)
	}
	if got := fmt.Sprint(w.added); got != "map[{\"n\":0}:1 {\"n\":1}:1 {\"n\":2}:1]" {
		t.Error(got)
	}
}
