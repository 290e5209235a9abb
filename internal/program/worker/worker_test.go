package worker

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/program/wire"
)

// begin are limits that no test here meets by chance.
var begin = wire.Begin{Calls: 10, Parallel: 2, Memory: 16 << 20, Output: 1 << 10, Millis: 60_000}

// A frame is one that a worker wrote.
type frame struct {
	wire.Header
	head, body string
}

// converse runs a program in this process. answer returns the frame for a request: its kind and its body.
func converse(t *testing.T, b wire.Begin, source, input string, answer func(frame) (wire.Kind, string)) (frames []frame, err error) {
	t.Helper()
	theirIn, in := io.Pipe()
	out, theirOut := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := serve(theirIn, theirOut, walls{func() []string { return nil }, func(wire.Begin) error { return nil }})
		_ = theirOut.Close()
		done <- err
	}()
	r := bufio.NewReader(out)
	for {
		h, err := wire.Read(r, 1<<30)
		if err != nil {
			_ = in.Close()
			return frames, <-done
		}
		all := make([]byte, h.Head+h.Body)
		if _, err := io.ReadFull(r, all); err != nil {
			t.Fatal(err)
		}
		f := frame{h, string(all[:h.Head]), string(all[h.Head:])}
		switch h.Kind {
		case wire.Ready:
			b.Source = len(source)
			head, err := json.Marshal(b)
			if err == nil {
				err = wire.Write(in, wire.Start, 0, head, []byte(source+input))
			}
			if err != nil {
				t.Fatal(err)
			}
		case wire.Call, wire.Find, wire.Open:
			frames = append(frames, f)
			kind, body := answer(f)
			go func() { _ = wire.Write(in, kind, h.ID, nil, []byte(body)) }()
		default:
			frames = append(frames, f)
		}
	}
}

func echo(f frame) (wire.Kind, string) { return wire.Answer, f.body }

// last returns the failure of a program, or its value.
func last(t *testing.T, frames []frame) (string, wire.Failure) {
	t.Helper()
	if len(frames) == 0 {
		t.Fatal("no frames")
	}
	var f wire.Failure
	end := frames[len(frames)-1]
	if end.Kind == wire.Fail {
		if err := json.Unmarshal([]byte(end.head), &f); err != nil {
			t.Fatal(err)
		}
	}
	return end.body, f
}

// TestFailures: a failure has its code, and its place in the program.
func TestFailures(t *testing.T) {
	refuse := func(frame) (wire.Kind, string) {
		return wire.Refuse, `{"code":"RATE_LIMITED","message":"later","retryable":true,"details":{"after":3}}`
	}
	for _, c := range []struct {
		source, code string
		line         int
		message      string
		answer       func(frame) (wire.Kind, string)
	}{
		{"let a = 1\nlet b = ;", syntax, 2, "SyntaxError: unexpected token", nil},
		{"import x from 'std'", syntax, 1, "SyntaxError", nil},
		{"\n  nothing.at.all", thrown, 2, "ReferenceError: 'nothing' is not defined", nil},
		{"throw new Error('no')", thrown, 1, "no", nil},
		{"throw {a: 1}", thrown, 0, `the program threw {"a":1}`, nil},
		{"throw undefined", thrown, 0, "the program threw undefined", nil},
		{"const x = 1\nconst f = async () => {\n  await call('t', {})\n}\nawait f()", thrown, 3, "later", refuse},
		{"await new Promise(() => {})", stuck, 0, "waits for a promise", nil},
		{"return 1n << 70n, () => 1, Symbol()", "", 0, "", nil},
		{"const a = {}; a.a = a\nreturn a", unreturned, 0, "circular", nil},
		{"for (let i = 0; ; i++) {\n  try { await call('t', {i}) } catch {}\n}", tooMany, 2, "more than 10 of call", echo},
		{"await call('', {})", thrown, 0, "must be a string", nil},
		{"await call('t', [1])", thrown, 0, "must be an object", nil},
		{"await call('t', {}, 1); await call('x'.repeat(5000))", thrown, 0, "longer than 4096", echo},
		{"const f = () => f() + 1\nf()", thrown, 1, "stack overflow", nil},
		{"const a = []\nfor (;;) a.push(new Array(1000).fill(1))", memory, 2, "no room", nil},
		{"return 'x'.repeat(1e9)", memory, 1, "no room", nil},
	} {
		answer := c.answer
		if answer == nil {
			answer = func(f frame) (wire.Kind, string) { t.Errorf("request %+v", f); return wire.Answer, "1" }
		}
		frames, err := converse(t, begin, c.source, "", answer)
		_, f := last(t, frames)
		if err != nil || f.Code != c.code || f.Line != c.line && c.line != 0 || !strings.Contains(f.Message, c.message) {
			t.Errorf("%s\n = %+v, %v; want %s in line %d: %s", c.source, f, err, c.code, c.line, c.message)
		}
		if c.message == "later" && (f.Tool == nil || f.Tool.Code != "RATE_LIMITED" || !f.Tool.Retryable || fmt.Sprint(f.Tool.Details) != "map[after:3]") {
			t.Errorf("the error of the host: %+v", f.Tool)
		}
	}
}

// TestInterrupt: an endless program is interrupted, and its line known, wherever it runs.
func TestInterrupt(t *testing.T) {
	short := begin
	short.Millis = 100
	for source, line := range map[string]int{
		"let i = 0\nfor (;;) {\n  i = Math.max(i, 1)\n}":                                                 3,
		"try { for (;;) Math.max(1) } catch { return 1 } finally { return 2 }":                           0,
		"await call('t', {})\nfor (;;) ;":                                                                0,
		"return /(a+)+$/.test('a'.repeat(60) + 'b')":                                                     0,
		"const g = () => { p = p.then(g) }; let p = Promise.resolve(); g(); await new Promise(() => {})": 0,
		"for (;;) await null": 0,
	} {
		frames, err := converse(t, short, source, "", echo)
		if _, f := last(t, frames); err != nil || f.Code != timeout || line != 0 && f.Line != line {
			t.Errorf("%s\n = %+v, %v; want %s in line %d", source, f, err, timeout, line)
		}
	}
}

// TestOrder: requests are sent as the program makes them, at most as many at once as may be, and all are answered before
// a program that has returned or thrown ends.
func TestOrder(t *testing.T) {
	for _, end := range []string{"return 1", "throw new Error('no')"} {
		frames, err := converse(t, begin, "for (let i = 0; i < 4; i++) call('t', {i}).then(() => log(i), () => {})\n"+end, "", echo)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range frames {
			got = append(got, fmt.Sprint(f.Kind, f.body))
		}
		want := []string{`5{"i":0}`, `5{"i":1}`, `5{"i":2}`, "80", `5{"i":3}`, "81", "82", "83", "91"}
		if end != "return 1" { // requests that wait are not made
			want = []string{`5{"i":0}`, `5{"i":1}`, "10"}
		}
		if strings.Join(got, " ") != strings.Join(want, " ") && end != "return 1" {
			t.Errorf("%s: %v, want %v", end, got, want)
		}
		if end == "return 1" && (len(got) != len(want) || got[len(got)-1] != "91") {
			t.Errorf("%s: %v, want %v in some order", end, got, want)
		}
	}
}

// TestForeign: bytes that are no start of a program end the worker with an error.
func TestForeign(t *testing.T) {
	none := walls{func() []string { return nil }, func(wire.Begin) error { return nil }}
	answer := wire.Header{Kind: wire.Answer}.Append(nil)
	long := wire.Header{Kind: wire.Start, Head: 2, Body: 1}.Append(nil)
	for _, in := range []string{"x", "GET / HTTP/1.1\r\n\r\n", string(answer), string(long) + "{}", string(long) + `xy1`} {
		if err := serve(strings.NewReader(in), io.Discard, none); err == nil {
			t.Errorf("%q starts a program", in)
		}
	}
	if err := serve(strings.NewReader(""), io.Discard, none); err != nil {
		t.Errorf("a worker that is not needed: %v", err)
	}
}

// TestLong: only integers that a double may round take the slow way.
func TestLong(t *testing.T) {
	for text, want := range map[string]bool{
		`123456789012345`: false, `1234567890123456`: true, `{"a":[-12345678901234567]}`: true,
		`0.12345678901234567`: false, `[1.5,1234567890123456]`: true, `"1234567890123456"`: false,
		`"a\"1234567890123456"`: false, `"a\\",1234567890123456`: true, `"`: false, `"\`: false, ``: false,
	} {
		if got := long(text); got != want {
			t.Errorf("long(%s) = %v", text, got)
		}
	}
}

// TestPlace: the innermost line of the program is found, and lines of the scope are passed over.
func TestPlace(t *testing.T) {
	for stack, want := range map[string][2]int{
		"": {}, "    at call (native)\n": {}, "    at ask (<eval>:50:3)\n    at f (<eval>:1007:12)\n    at <eval>:1009:1\n": {7, 12},
		"<eval>:": {}, "<eval>:1001": {1, 0}, "<eval>:99999999999999999999:1 <eval>:1002:2": {2, 2}, "<eval>:-1:2": {},
	} {
		if line, column := place(stack); line != want[0] || column != want[1] {
			t.Errorf("place(%q) = %d, %d; want %v", stack, line, column, want)
		}
	}
}
