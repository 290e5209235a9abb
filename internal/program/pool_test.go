package program_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/program"
)

// A host answers a call with its name and arguments, or by its function.
type host struct {
	call func(context.Context, program.Call) (json.RawMessage, error)

	mu    sync.Mutex // guards below
	calls []program.Call
	lines []string
}

func (h *host) Call(ctx context.Context, c program.Call) (json.RawMessage, error) {
	h.mu.Lock()
	h.calls = append(h.calls, c)
	h.mu.Unlock()
	if h.call != nil {
		return h.call(ctx, c)
	}
	return json.Marshal(map[string]any{"tool": c.Tool + c.Server + "/" + c.Name, "args": c.Args})
}

func (h *host) Find(_ context.Context, query string, options json.RawMessage) (json.RawMessage, error) {
	return json.Marshal([]any{query, options})
}

func (h *host) Open(_ context.Context, handle string, selector json.RawMessage) (json.RawMessage, error) {
	return json.Marshal([]any{handle, string(selector)})
}

func (h *host) Log(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, text)
}

// newPool returns a Pool that ends with the test.
func newPool(t testing.TB, o program.Options) *program.Pool {
	t.Helper()
	if o.Command == nil {
		var err error
		if o.Command, err = command(); err != nil {
			t.Fatal(err)
		}
	}
	p := program.NewPool(o)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

// TestScope: programs and their values.
func TestScope(t *testing.T) {
	t.Parallel()
	p := newPool(t, program.Options{})
	for _, c := range []struct{ source, input, want string }{
		{"return 1 + 1", "", "2"},
		{"", "", "null"},
		{"return input.a", `{"a":[1,2]}`, "[1,2]"},
		{`return await call("github:list", {a: 1})`, "", `{"args":{"a":1},"tool":"github:list/"}`},
		{`return (await tools.github.list()).tool`, "", `"github/list"`},
		{`return await find("issues", {top_k: 3})`, "", `["issues",{"top_k":3}]`},
		{`return await open("h1", {rows: 2})`, "", `["h1","{\"rows\":2}"]`},
		{`return await open("h1")`, "", `["h1",""]`},
		{`const a = await Promise.all([1,2,3].map(i => call("t", {i}))); return a.map(r => r.args.i)`, "", "[1,2,3]"},
		{"let s = 0; for (const x of input) s += x\nreturn s // the end", "[1,2,3]", "6"},
		{`return [input.id, await call("t", {id: input.id})]`, `{"id":12345678901234567890}`, `[12345678901234567890,{"args":{"id":12345678901234567890},"tool":"t/"}]`},
		{`return Object.groupBy([1,2,3], x => x % 2 ? "odd" : "even")`, "", `{"odd":[1,3],"even":[2]}`},
		{`return [typeof eval, typeof Function, typeof setTimeout, typeof fetch, typeof require, typeof process, typeof Intl]`, "", `["undefined","undefined","undefined","undefined","undefined","undefined","undefined"]`},
	} {
		got, err := p.Run(t.Context(), program.Program{Source: c.source, Input: json.RawMessage(c.input)}, &host{})
		if err != nil || string(got.Value) != c.want {
			t.Errorf("%s\n = %s, %v; want %s", c.source, got.Value, err, c.want)
		}
	}
}

// TestLog: lines come while the program runs and with its result.
func TestLog(t *testing.T) {
	t.Parallel()
	p, h := newPool(t, program.Options{}), &host{}
	got, err := p.Run(t.Context(), program.Program{Source: `log("a", 1, {b: 2}); console.log(new Error("no"))`}, h)
	if want := `a 1 {"b":2}|Error: no`; err != nil || strings.Join(got.Log, "|") != want || strings.Join(h.lines, "|") != want {
		t.Errorf("log %q, host %q, %v; want %q", got.Log, h.lines, err, want)
	}
}
