package program_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/program"
)

// hostile are programs that try to take more than they may have. Each ends its own run, with a code or with a value
// that shows that the try came to nothing.
var hostile = map[string]struct {
	source string
	code   program.Code
	value  string // if there is no code
}{
	"endless loop":               {source: `for (;;) ;`, code: program.Timeout},
	"endless loop in a try":      {source: `for (;;) try { for (;;) ; } catch {} finally { continue }`, code: program.Timeout},
	"endless loop after a call":  {source: `await call("t"); for (;;) ;`, code: program.Timeout},
	"endless microtasks":         {source: `const f = () => { Promise.resolve().then(f) }; f(); await new Promise(() => {})`, code: program.Timeout},
	"endless await":              {source: `for (;;) await null`, code: program.Timeout},
	"endless generator":          {source: `function* g() { for (;;) yield 1 } let n = 0; for (const x of g()) n += x`, code: program.Timeout},
	"endless toJSON":             {source: `return {toJSON() { for (;;) ; }}`, code: program.Timeout},
	"endless getter in a result": {source: `return {get a() { for (;;) ; }}`, code: program.Timeout},
	"endless message":            {source: `const e = new Error(); Object.defineProperty(e, "message", {get() { for (;;) ; }}); throw e`, code: program.Timeout},
	"endless sort":               {source: `[3, 2, 1].sort(() => { for (;;) ; })`, code: program.Timeout},
	"endless proxy":              {source: `const p = new Proxy({}, {get() { for (;;) ; }}); return p.a`, code: program.Timeout},
	"catastrophic pattern":       {source: `return /^(a+)+$/.test("a".repeat(100) + "!")`, code: program.Timeout},
	"catastrophic replace":       {source: `return "x".repeat(1e5).replace(/(x+x+)+y/g, "")`, code: program.Timeout},
	"promise storm":              {source: `const all = []; for (;;) all.push(new Promise(() => {}))`, code: program.Memory},
	"storm of requests":          {source: `const all = []; for (let i = 0; i < 1e6; i++) all.push(call("t", {i})); await Promise.all(all)`, code: program.TooMany},
	"million calls":              {source: `for (let i = 0; i < 1e6; i++) try { await call("t", {i}) } catch {}`, code: program.TooMany},
	"million finds":              {source: `for (let i = 0; i < 1e6; i++) try { await find("t") } catch {}`, code: program.TooMany},
	"million opens":              {source: `for (let i = 0; i < 1e6; i++) try { await open("t") } catch {}`, code: program.TooMany},
	"string of 10 GB":            {source: `return "x".repeat(1e10)`, code: program.Thrown},
	"string by doubling":         {source: `let s = "x"; for (;;) s += s`, code: program.Thrown},
	"array of 10 GB":             {source: `return new ArrayBuffer(1e10)`, code: program.Thrown},
	"many arrays":                {source: `const a = []; for (;;) a.push(new Uint8Array(1e6))`, code: program.Memory},
	"sparse array":               {source: `return new Array(4e9).fill(0)`, code: program.Memory},
	"huge join":                  {source: `return new Array(1e9).join("xxxxxxxx").length`, code: program.Timeout},
	"huge number":                {source: `let n = 1n; for (;;) n *= n + 1n`, code: program.Thrown},
	"memory that is caught":      {source: `const a = []; for (;;) try { a.push("x".repeat(1e5 + a.length)) } catch {}`, code: program.Timeout},
	"deep recursion":             {source: `const f = () => f() + 1; return f()`, code: program.Thrown},
	"deep recursion of async":    {source: `const f = async () => await f(); return await f()`, code: program.Thrown},
	"deep JSON":                  {source: `let a = []; for (let i = 0; i < 1e6; i++) a = [a]; return a`, code: program.Memory},
	"deep parse":                 {source: `return JSON.parse("[".repeat(1e6))`, code: program.Thrown},
	"deep pattern":               {source: `return new RegExp("(".repeat(1e5) + ")".repeat(1e5)).test("")`, code: program.Thrown},
	"circular result":            {source: `const a = {}; a.a = a; return a`, code: program.Unreturned},
	"thrown getter":              {source: `const e = new Error(); Object.defineProperty(e, "message", {get() { throw e }}); throw e`, code: program.Thrown},
	"thrown proxy":               {source: `throw new Proxy({}, {get() { throw 1 }, getPrototypeOf() { throw 2 }})`, code: program.Thrown},
	"thrown stack":               {source: `throw Object.assign(new Error("a"), {stack: "x".repeat(1e6)})`, code: program.Thrown},
	"thrown message":             {source: `throw new Error("x".repeat(1e6))`, code: program.Thrown},
	"flood of the log":           {source: `for (let i = 0; i < 1e4; i++) log("x".repeat(1000)); return 1`, value: `1`},
	"line of 5 MB":               {source: `log("x".repeat(5e6)); return 1`, value: `1`},
	"constructor of functions":   {source: `return (() => {}).constructor("return 1")()`, code: program.Thrown},
	"constructor of async":       {source: `return await (async () => {}).constructor("return 1")()`, code: program.Thrown},
	"constructor of generators":  {source: `return [...(function* () {}).constructor("yield 1")()]`, code: program.Thrown},
	"constructor of call":        {source: `return call.constructor.constructor("return globalThis")()`, code: program.Thrown},
	"constructor of a class":     {source: `return new (class extends (class {}).constructor {})("return 1")()`, code: program.Thrown},
	"eval":                       {source: `return (0, globalThis["ev" + "al"])("1")`, code: program.Thrown},
	"import":                     {source: `return await import("/etc/passwd")`, code: program.Thrown},
	"import of std":              {source: `return Object.keys(await import("std"))`, code: program.Thrown},
	"break out of the function":  {source: "return 1 });\n(async function () { for (;;) ;", code: program.Timeout},
	"host functions":             {source: `return Object.getOwnPropertyNames(globalThis).filter(n => n.startsWith("host"))`, value: `[]`},
	"overwritten call":           {source: `call = globalThis.call = 1; return typeof call + delete globalThis.call`, value: `"functionfalse"`},
	"polluted options":           {source: `Object.prototype.again = true; return (await call("t", {})).again`, value: `false`},
	"polluted arguments":         {source: `Object.prototype.evil = 1; return (await call("t", {a: 1})).args`, value: `{"a":1}`},
	"polluted by __proto__":      {source: `const o = {}; o["__proto__"]["again"] = true`, code: program.Thrown},
	"polluted JSON": {
		source: `JSON.stringify = () => '{"a":2}'; JSON.parse = () => 7; return (await call("t", {a: 1})).args.a`, value: `1`,
	},
	"polluted promise": {
		source: `Promise.prototype.then = function () { throw 1 }; const r = await call("t", {a: 1}); return r.args.a`, value: `1`,
	},
	"polluted array": {
		source: `Array.prototype[Symbol.iterator] = null; Array.isArray = () => true; Array.prototype.toJSON = () => 1
			return (await call("t", {a: 1})).args.a`, value: `1`,
	},
	"polluted error": {
		source: `globalThis.Error = globalThis.TypeError = class { get stack() { throw 1 } }; return (await call("t", {a: 1})).args.a`, value: `1`,
	},
	"polluted map": {
		source: `WeakMap.prototype.get = WeakMap.prototype.set = Reflect.apply = () => { throw 1 }
			try { await call("refused") } catch (e) { return [e.code, e instanceof ToolError] }`, value: `["NO",true]`,
	},
	"polluted setters": {
		source: `for (const k of ["id", "resolve", "reject", "n", "next", "kind", "body"])
				Object.defineProperty(Object.prototype, k, {set() { throw 1 }, get() { return 666 }})
			return (await call("t", {a: 1})).args.a`, value: `1`,
	},
}

// refusing answers with what it got, and refuses the tool of that name.
func refusing(_ context.Context, c program.Call) (json.RawMessage, error) {
	if c.Tool == "refused" {
		return nil, &program.ToolError{Code: "NO", Message: "never"}
	}
	return json.Marshal(map[string]any{"args": c.Args, "again": c.Again})
}

func TestHostile(t *testing.T) {
	t.Parallel()
	p := newPool(t, program.Options{Running: 2, Limits: program.Limits{
		Calls: 50, Memory: 16 << 20, Output: 4 << 10, Timeout: 400 * time.Millisecond,
	}})
	for name, c := range hostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &host{call: refusing}
			limits := program.Limits{}
			if c.code != program.Timeout {
				limits.Timeout = 20 * time.Second // a slow machine is no reason
			}
			start := time.Now()
			got, err := p.Run(context.Background(), program.Program{Source: c.source, Limits: limits}, h)
			var e *program.Error
			switch {
			case c.code == "" && (err != nil || string(got.Value) != c.value):
				t.Errorf("= %s, %v; want %s", got.Value, err, c.value)
			case c.code != "" && (!errors.As(err, &e) || e.Code != c.code):
				t.Errorf("= %.100s, %T %.300v; want %s", got.Value, err, err, c.code)
			case e != nil && (len(e.Message) > 5000 || len(e.Source) > 300):
				t.Errorf("a message of %d bytes, a line of %d", len(e.Message), len(e.Source))
			}
			size := 0
			for _, line := range got.Log {
				size += len(line)
			}
			if size > 5<<10 {
				t.Errorf("a log of %d bytes", size)
			}
			if len(h.calls) > 50 {
				t.Errorf("%d calls", len(h.calls))
			}
			t.Log(time.Since(start))
		})
	}
}

// TestErrors: an error has its code, its place and the line itself.
func TestErrors(t *testing.T) {
	t.Parallel()
	p := newPool(t, program.Options{})
	h := &host{call: refusing}
	_, err := p.Run(t.Context(), program.Program{Source: "const a = 1\n\tawait tools.x['refused'](); await call('refused', {})  "}, h)
	var e *program.Error
	if !errors.As(err, &e) || e.Code != program.Thrown || e.Line != 2 || e.Tool == nil || e.Tool.Code != "NO" || e.Tool.Message != "never" ||
		e.Source != "await tools.x['refused'](); await call('refused', {})" || e.Error() != "line 2, column 40: never" {
		t.Errorf("%#v %v", e, err)
	}
	_, err = p.Run(t.Context(), program.Program{Source: "let a = ;"}, h)
	if !errors.As(err, &e) || e.Code != program.Syntax || e.Source != "let a = ;" {
		t.Errorf("%#v %v", e, err)
	}
	_, err = p.Run(t.Context(), program.Program{Source: strings.Repeat("/* */", 1<<20), Limits: program.Limits{Memory: 1 << 20}}, h)
	if !errors.As(err, &e) || e.Code != program.Memory {
		t.Errorf("a program of 5 MB: %v", err)
	}
	_, err = p.Run(t.Context(), program.Program{Source: "await new Promise(() => {})"}, h)
	if !errors.As(err, &e) || e.Code != program.Stuck {
		t.Errorf("%#v %v", e, err)
	}
}

// TestStop: the host can end a run. The program cannot catch that.
func TestStop(t *testing.T) {
	t.Parallel()
	p := newPool(t, program.Options{})
	no := errors.New("a person said no")
	h := &host{call: func(_ context.Context, c program.Call) (json.RawMessage, error) {
		if c.N == 3 {
			return nil, program.Stop(fmt.Errorf("call %d: %w", c.N, no))
		}
		return json.RawMessage("1"), nil
	}}
	got, err := p.Run(t.Context(), program.Program{Source: `for (let i = 0; ; i++) { log(i); try { await call("t") } catch {} }`}, h)
	if !errors.Is(err, no) || len(h.calls) != 3 || strings.Join(got.Log, " ") != "0 1 2" {
		t.Errorf("%d calls, log %q, %v", len(h.calls), got.Log, err)
	}
}

// TestUnavailable: an executable that is no worker, or none, is said to be so.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{{"/no/such/file"}, {"/bin/cat"}, {"/bin/sh", "-c", "echo not a worker at all"}, {"/bin/false"}} {
		p := newPool(t, program.Options{Command: command})
		var e *program.Error
		if _, err := p.Run(t.Context(), program.Program{}, &host{}); !errors.As(err, &e) || e.Code != program.Unavailable {
			t.Errorf("%v: %v", command, err)
		}
	}
	if err := program.NewPool(program.Options{}).Close(t.Context()); err != nil {
		t.Errorf("a pool that has run nothing: %v", err)
	}
	p := program.NewPool(program.Options{})
	if _, err := p.Run(t.Context(), program.Program{}, &host{}); !strings.Contains(err.Error(), program.ErrNotSelf.Error()) {
		t.Errorf("no command: %v", err)
	}
	_ = p.Close(t.Context())
	if _, err := p.Run(t.Context(), program.Program{}, &host{}); !errors.Is(err, program.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
