package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestValid(t *testing.T) {
	for _, s := range []string{
		`{}`, `[]`, `0`, `-0`, `1.5e+10`, `12345678901234567890`, `1e400`, `"\ud800"`, `"\u00e9\n\/"`, ` [1 , {"a" : null} ] `, `"` + strings.Repeat("é", 99) + `"`,
	} {
		if err := Valid([]byte(s)); err != nil {
			t.Errorf("%.40s: %v", s, err)
		}
	}
	for _, s := range []string{
		``, ` `, `{`, `[1,]`, `{"a"}`, `{"a":1,}`, `{a:1}`, `01`, `1.`, `.5`, `1e`, `+1`, `-`, `tru`, `nul`, `"a`, "\"a\nb\"", "\"a\tb\"", `"\x"`, `"\u12g4"`, `1 2`, `[1}`, `"abcdefgh` + "\x01" + `"`,
	} {
		if Valid([]byte(s)) == nil {
			t.Errorf("%q is not JSON", s)
		}
	}
	deep := strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)
	if err := Valid([]byte(deep)); !errors.Is(err, ErrDepth) {
		t.Errorf("deep nesting: %v", err)
	}
}

// What ends a run of plain bytes is found wherever it stands, among short
// strings and long ones, and nothing else ends one.
func TestSkipPlain(t *testing.T) {
	data := bytes.Repeat([]byte("é~ \x7f!#[]"), 300)
	for at := range data {
		old := data[at]
		for _, c := range []byte{0, 1, 0x1f, '"', '\\'} {
			data[at] = c
			if got := skipPlain(data, 0); got != at {
				t.Fatalf("%#x at %d was found at %d", c, at, got)
			}
			if from := max(0, at-7); skipPlain(data, from) != at {
				t.Fatalf("%#x at %d was not found from %d", c, at, from)
			}
			data[at] = old
		}
	}
	for c := range 256 {
		want := 0
		if c >= 0x20 && c != '"' && c != '\\' {
			want = 24
		}
		if got := skipPlain(bytes.Repeat([]byte{byte(c)}, 24), 0); got != want {
			t.Errorf("a run of %#x ends at %d", c, got)
		}
	}
}

// Blocks of vector instructions end where those of words do: before the block with the first byte
// that is not plain.
func TestPlainBlocks(t *testing.T) {
	data := bytes.Repeat([]byte("é~ \x7f!#[]\xff\x80"), 40)
	for length := range data {
		if got, want := plainBlocks(data[:length]), length/blockBytes*blockBytes; got != want {
			t.Fatalf("%d plain bytes have blocks of %d, want %d", length, got, want)
		}
	}
	for c := range 256 {
		for at := range 3 * blockBytes {
			own := bytes.Clone(data[3 : 3+5*blockBytes]) // 3: no alignment
			own[at] = byte(c)
			want := len(own)
			if c < 0x20 || c == '"' || c == '\\' {
				want = at / blockBytes * blockBytes
			}
			if got, words := plainBlocks(own), plainWords(own); got != want || words != want {
				t.Fatalf("%#x at %d ends blocks at %d, words at %d, want %d", c, at, got, words, want)
			}
		}
	}
}

func TestFields(t *testing.T) {
	in := []byte(` {"b" : [1, 2] ,"A":0,"a":{"x":1},"\u0063":"v"} `)
	out := make([][]byte, 4)
	if err := Fields(in, []string{"a", "b", "c", "d"}, out); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%s", out); got != `[{"x":1} [1, 2] "v" ]` {
		t.Errorf("got %s", got)
	}
	if out[3] != nil {
		t.Error("an absent key is not nil")
	}
	for _, in := range []string{`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`} {
		if err := Fields([]byte(in), []string{"a"}, out); !errors.Is(err, ErrDuplicate) {
			t.Errorf("%s: %v", in, err)
		}
		if Get([]byte(in), "a") != nil {
			t.Errorf("%s: Get picked one of two", in)
		}
	}
	// The empty key is a key like any other.
	if err := Fields([]byte(`{"":1,"":2}`), []string{""}, out); !errors.Is(err, ErrDuplicate) {
		t.Errorf("the empty key twice: %v, %s", err, out[0])
	}
	if Get([]byte(`{"":1,"":2}`), "") != nil {
		t.Error("Get picked one of two empty keys")
	}
	if err := Fields([]byte(`[1]`), []string{"a"}, out); !errors.Is(err, ErrType) {
		t.Errorf("an array: %v", err)
	}
}

func TestEdit(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"set there", `{"a" : 1,"b":{"z":12345678901234567890,"y":1}}`, `{"a" : [9],"b":{"z":12345678901234567890,"y":1}}`},
		{"set absent", `{"b":1}`, `{"b":1,"a":[9]}`},
		{"set in empty", `{ }`, `{"a":[9] }`},
		{"set in nothing", ``, `{"a":[9]}`},
	} {
		out, err := Set([]byte(c.in), "a", []byte(`[9]`))
		if err != nil || string(out) != c.want {
			t.Errorf("%s: %s, %v", c.name, out, err)
		}
	}
	for in, want := range map[string]string{
		`{"a":1}`: `{}`, `{"a":1,"b":2}`: `{"b":2}`, `{"b":2,"a":1}`: `{"b":2}`, `{"b":2,"a":1,"c":3}`: `{"b":2,"c":3}`, `{"b":1}`: `{"b":1}`, `{"a":1,"a":2}`: `{}`,
	} {
		if out, err := Delete([]byte(in), "a"); err != nil || string(out) != want {
			t.Errorf("Delete from %s: %s, %v", in, out, err)
		}
	}
	if out, err := SetPath([]byte(`{"x":{"y":{}}}`), []byte(`1`), "x", "y", "z"); err != nil || string(out) != `{"x":{"y":{"z":1}}}` {
		t.Errorf("SetPath: %s, %v", out, err)
	}
	if out, err := SetPath(nil, []byte(`1`), "x", "y"); err != nil || string(out) != `{"x":{"y":1}}` {
		t.Errorf("SetPath from nothing: %s, %v", out, err)
	}
	if _, err := Set([]byte(`[]`), "a", []byte(`1`)); err == nil {
		t.Error("Set on an array succeeded")
	}
}

func TestStripNewlines(t *testing.T) {
	if got := string(StripNewlines(nil, []byte("{\r\n\"a\":\n\r\r1\r}\n"))); got != `{"a":1}` {
		t.Errorf("got %q", got)
	}
}

// Whatever encoding/json takes for valid is, except for what is nested deeper
// than MaxDepth; and the parts found are the parts that it finds.
func FuzzAgainstEncodingJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2,{"b":"\ud83d\ude00"}],"c":-1.5e-3}`, `[[],{},"",0]`, "\"\u2028\"", `{"a":1,"a":2}`, `"\u0000"`, "\"\xff\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := Valid(data)
		if errors.Is(err, ErrDepth) {
			return
		}
		if (err == nil) != json.Valid(data) {
			t.Fatalf("%q: %v, but encoding/json says %v", data, err, json.Valid(data))
		}
		if err != nil || !IsObject(data) {
			return
		}
		want := map[string]json.RawMessage{}
		if json.Unmarshal(data, &want) != nil {
			return
		}
		got := map[string][]byte{}
		if err := EachMember(data, func(m Member) bool {
			got[strings.ToValidUTF8(string(m.Key), "\uFFFD")] = m.Value
			return true
		}); err != nil {
			t.Fatal(err)
		}
		for k, v := range want {
			if strings.Contains(k, "\uFFFD") {
				continue // invalid UTF-8 is replaced rune by rune there and run by run here
			}
			if !bytes.Equal(got[k], v) {
				t.Fatalf("%q: member %q is %q, want %q", data, k, got[k], v)
			}
		}
		set, err := Set(data, "\x00new", []byte(`[1]`))
		if err != nil || !json.Valid(set) {
			t.Fatalf("Set on %q: %q, %v", data, set, err)
		}
		if back, err := Delete(set, "\x00new"); err != nil || Valid(back) != nil {
			t.Fatalf("Delete from %q: %q, %v", set, back, err)
		}
	})
}

func FuzzUnquote(f *testing.F) {
	for _, s := range []string{
		`""`, `"plain"`, `"\""`, `"a\"b\\c\/\b\f\n\r\t"`, `"\u00e9\u0000"`, `"\ud83d\ude00!"`, `"\ud83d"`, `"\ude00\ud83d"`, `"\ud83dx\u0041"`, `"\ud83d\n12345"`,
		`"\u12"`, `"\u00zz"`, `"\x"`, `"end\"`, "\"\xff\\n\"", "\"\\n\x01\"", `"a"b\n"`, `"`, `x`, `" \u2028é"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if Valid(raw) != nil || len(raw) == 0 || raw[0] != '"' {
			if _, err := Unquote(raw); err == nil && len(raw) > 0 && raw[0] != '"' {
				t.Errorf("%q is taken for a string", raw)
			}
			return
		}
		raw = bytes.TrimSpace(raw)
		var want string
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
		got, err := Unquote(raw)
		if err != nil || string(got) != want {
			t.Errorf("Unquote(%q) = %q, %v; want %q", raw, got, err, want)
		}
		if s, err := String(raw); err != nil || s != want {
			t.Errorf("String(%q) = %q, %v; want %q", raw, s, err, want)
		}
	})
}

// BenchmarkUnquote measures text in which every line holds escapes, against
// encoding/json.
func BenchmarkUnquote(b *testing.B) {
	raw := []byte(`"` + strings.Repeat(`{\"id\":12,\"name\":\"a name of some length\"},\n`, 2000) + `"`)
	const rounds = 20
	start := time.Now()
	for range rounds {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			b.Fatal(err)
		}
	}
	baseline := time.Since(start) / rounds
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := Unquote(raw); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(baseline)*float64(b.N)/float64(b.Elapsed()), "x_baseline")
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "a\"b\\c\n\t\x00é😀\xff", "</script>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var back string
		if err := json.Unmarshal(Quote(s), &back); err != nil || back != string([]rune(s)) {
			t.Fatalf("%q became %q, %v", s, back, err)
		}
	})
}

// One pass finds what a forwarded message is looked into for.
func ExampleFields() {
	params := []byte(`{"name":"search","arguments":{"n":12345678901234567890},"_meta":{"progressToken":7}}`)
	var out [2][]byte
	err := Fields(params, []string{"name", "_meta"}, out[:])
	fmt.Printf("%s %s %v\n", out[0], out[1], err)
	// Output: "search" {"progressToken":7} <nil>
}

func BenchmarkValid(b *testing.B) {
	for name, in := range map[string]string{
		"rows":    `{"rows":[` + strings.Repeat(`{"id":12,"name":"a name of some length","ok":true,"x":[1.5,null]},`, 2000) + `{}]}`,
		"text":    `{"text":"` + strings.Repeat("Words of a long text, one after the other. ", 2500) + `"}`,
		"escapes": `{"text":"` + strings.Repeat(`{\"a\":\"some text in a document in a text\"},\n`, 2000) + `"}`,
	} {
		b.Run(name, func(b *testing.B) {
			data := []byte(in)
			const rounds = 20
			start := time.Now()
			for range rounds {
				json.Valid(data)
			}
			baseline := time.Since(start) / rounds
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if err := Valid(data); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(baseline)*float64(b.N)/float64(b.Elapsed()), "x_baseline")
		})
	}
}

// Bytes are quoted as a string is, and their length is known before.
func FuzzAppendText(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\\n\r\t\x00\x1f\x7f", "ä\xffö", strings.Repeat("long \" ", 300)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		want := string(Quote(string(text)))
		if got := string(AppendText([]byte("x"), text)); got != "x"+want {
			t.Fatalf("AppendText(%q) = %s, want %s", text, got, want)
		}
		if got := QuoteText(text); string(got) != want || utf8.Valid(text) && QuotedLen(text) != len(want) {
			t.Fatalf("QuoteText(%q) = %s of %d bytes, %d were told", text, got, len(want), QuotedLen(text))
		}
	})
}
