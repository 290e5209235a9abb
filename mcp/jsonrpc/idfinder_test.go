package jsonrpc

import (
	"strings"
	"testing"
)

func TestIDFinder(t *testing.T) {
	long := strings.Repeat(`x\"},{\\`, 10_000)
	for text, want := range map[string]ID{
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"a":"xxxx`:                     "5",
		`{"id":"a","method":"tools/call"`:                                                       `"a"`,
		`{"method":"m","params":{"id":5,"a":["` + long + `",{"id":6}]},"jsonrpc":"2.0","id":7}`: "7",
		"{\"method\" : \"m\" , \"params\":[[{}]] ,\n \"id\" : \"s,}\\\"\" }":                    `"s,}\""`,
		`{"method":"m","params":{"id":5,"a":"`:                                                  "",
		`{"method":"m","params":"` + long + `"}`:                                                "",
		`{"id":5`:                                                                               "",
		`{"id":5,"id":6,"method":"m"}`:                                                          "",
		`{"id":5,"id":5,"method":"m"}`:                                                          "5",
		`{"id":5,"result":{}}`:                                                                  "",
		`{"id":null,"method":"m"}`:                                                              "",
		`{"id":{"a":1},"method":"m"}`:                                                           "",
		`{"id":[1],"method":"m"}`:                                                               "",
		`{"id":"` + strings.Repeat("i", maxIDBytes) + `","method":"m"}`:                         "",
		`[{"id":5,"method":"m"}]`:                                                               "",
		`{"method":"m","id":1}{"method":"m","id":2}`:                                            "1",
		`{"` + long + `":1,"id":8,"method":"m"}`:                                                "8",
		``:                                                                                      "", `x`: "", `}`: "", `"id":5,`: "",
	} {
		for _, size := range []int{1, 7, len(text) + 1} {
			var f IDFinder
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				if wrote, err := f.Write([]byte(rest[:n])); wrote != n || err != nil {
					t.Fatal(wrote, err)
				}
				rest = rest[n:]
			}
			if got := f.ID(); got != want {
				t.Errorf("%.80s in parts of %d: %q, want %q", text, size, got, want)
			}
			if len(f.token) > maxToken {
				t.Errorf("%.80s: %d bytes are kept", text, len(f.token))
			}
		}
	}
}

// Of a request that can be read, the finder has the id that Parse has.
func FuzzIDFinder(f *testing.F) {
	for _, seed := range []string{`{"jsonrpc":"2.0","id":1.5,"method":"x","params":{"a":[1,"}"]}}`, `{"method":"m","id":"x","jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","method":"n"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var whole, parts IDFinder
		_, _ = whole.Write(data)
		for i := range data {
			_, _ = parts.Write(data[i : i+1])
		}
		if whole.ID() != parts.ID() {
			t.Errorf("%q: %q whole, %q in parts", data, whole.ID(), parts.ID())
		}
		if m, err := Parse(data); err == nil && m.Kind() == Request && len(m.ID) < maxIDBytes && whole.ID() != m.ID && whole.ID() != "" {
			t.Errorf("%q: %q, Parse has %q", data, whole.ID(), m.ID)
		}
	})
}

func TestIndexSpecial(t *testing.T) {
	for _, at := range []int{0, 1, window - 1, window, window + 1, 3*window + 7} {
		text := strings.Repeat("a", at)
		for _, tail := range []string{`"`, `\`, `"\`, `\"`, `"` + strings.Repeat("b", 2*window) + `\`} {
			if got, want := indexSpecial([]byte(text+tail)), strings.IndexAny(text+tail, `"\`); got != want {
				t.Errorf("%d bytes and %q: %d, want %d", at, tail[:1], got, want)
			}
		}
		if got := indexSpecial([]byte(text)); got != -1 {
			t.Errorf("%d bytes: %d, want -1", at, got)
		}
	}
}

// BenchmarkIDFinder reads messages that are refused for their size, with long strings and with strings
// that are mostly escapes.
func BenchmarkIDFinder(b *testing.B) {
	for name, unit := range map[string]string{"plain": strings.Repeat("a", 1<<10), "escapes": strings.Repeat(`\n`, 1<<9)} {
		b.Run(name, func(b *testing.B) {
			data := []byte(`{"method":"tools/call","params":{"text":"` + strings.Repeat(unit, 1<<10) + `"},"id":7}`)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				var f IDFinder
				_, _ = f.Write(data)
				if f.ID() != "7" {
					b.Fatal(f.ID())
				}
			}
		})
	}
}
