package rawjson

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAppendCanonical(t *testing.T) {
	for _, tt := range []struct{ raw, want string }{
		{` { "b" : 1.0 , "a" : [ 1 , { "d" : null , "c" : true } , "x" ] } `, `{"a":[1,{"c":true,"d":null},"x"],"b":1.0}`},
		{`[]`, `[]`}, {`{}`, `{}`}, {` [ ] `, `[]`}, {`{ "a" : { } , "b" : [ [ ] ] }`, `{"a":{},"b":[[]]}`},
		{`"\u00e9\/\u000a"`, `"é/\n"`}, {`"\"\\\u0001"`, `"\"\\\u0001"`}, {`-1.50E+2`, `-1.50E+2`}, {`false`, `false`},
		{`{"\u0062":1,"a":2}`, `{"a":2,"b":1}`},
		{`{"é":1,"z":2,"":3,"a\u0000":4,"a":5}`, `{"":3,"a":5,"a\u0000":4,"z":2,"é":1}`},
		// Characters that cannot be read stay as they were written.
		{`"\ud800"`, `'"\ud800"`}, {`"\ufffd"`, `'"\ufffd"`}, {`"` + "\uFFFD" + `"`, `'"` + "\uFFFD" + `"`}, {"\"\xff\"", "'\"\xff\""},
		{`{"\ud800":1}`, `{'"\ud800":1}`}, {`{"\ufffd":1}`, `{'"\ufffd":1}`}, {"{\"\xff\":1}", "{'\"\xff\":1}"},
		{`"\ud83d\ude00"`, `"😀"`},
	} {
		got, ok := AppendCanonical([]byte("x"), []byte(tt.raw))
		if !ok || string(got) != "x"+tt.want {
			t.Errorf("%q: %q, %v, want %q", tt.raw, got, ok, tt.want)
		}
	}
	for _, raw := range []string{
		``, ` `, `{`, `[1,]`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `[{"b":{"a":1,"c":2,"a":3}}]`, `{"\ud800":1,"\ufffd":2}`,
		`"a" "b"`, `1 2`, `{} x`, strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1),
	} {
		if got, ok := AppendCanonical(nil, []byte(raw)); ok {
			t.Errorf("%.40q: %q", raw, got)
		}
	}
	deep := strings.Repeat(`[{"b":2,"a":`, MaxDepth/2) + "1" + strings.Repeat("}]", MaxDepth/2)
	want := strings.Repeat(`[{"a":`, MaxDepth/2) + "1" + strings.Repeat(`,"b":2}]`, MaxDepth/2)
	if got, ok := AppendCanonical(nil, []byte(deep)); !ok || string(got) != want {
		t.Errorf("%.80q, %v", got, ok)
	}
}

// canonicalByLevels is AppendCanonical with another method, which reads each level anew.
func canonicalByLevels(dst, raw []byte) (out []byte, ok bool) {
	if Valid(raw) != nil {
		return dst, false
	}
	written := func(dst, raw []byte) []byte {
		if text := Text(raw); !strings.ContainsRune(text, '\uFFFD') {
			return AppendString(dst, text)
		}
		return append(append(dst, '\''), raw...)
	}
	raw = raw[SkipSpace(raw, 0):]
	switch raw[0] {
	case '{':
		type pair struct {
			key   string
			quote []byte
			value []byte
		}
		var members []pair
		_ = EachMember(raw, func(m Member) bool {
			end, _ := skipString(raw, m.Start)
			members = append(members, pair{Text(raw[m.Start:end]), raw[m.Start:end], m.Value})
			return true
		})
		slices.SortFunc(members, func(a, b pair) int { return strings.Compare(a.key, b.key) })
		dst = append(dst, '{')
		for i, m := range members {
			if i > 0 && members[i-1].key == m.key {
				return dst, false
			}
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, ok = canonicalByLevels(append(written(dst, m.quote), ':'), m.value); !ok {
				return dst, false
			}
		}
		return append(dst, '}'), true
	case '[':
		dst, ok = append(dst, '['), true
		first := true
		_ = EachElement(raw, func(v []byte) bool {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst, ok = canonicalByLevels(dst, v)
			return ok
		})
		return append(dst, ']'), ok
	}
	end, _ := Skip(raw, 0)
	if raw[0] == '"' {
		return written(dst, raw[:end]), true
	}
	return append(dst, raw[:end]...), true
}

func FuzzAppendCanonical(f *testing.F) {
	for _, seed := range []string{`{"b":[1,{"d":null,"c":{}}],"a":"\u00e9"}`, `[[],{},[{"x":1,"a":[]}]]`, `{"\ud800":"\ufffd","a":"b"}`, `"a"`, ` 1 `, `{"a":{"c":1,"b":{"z":[],"y":2}},"A":[[[]]]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, ok := AppendCanonical(nil, raw)
		want, wantOK := canonicalByLevels(nil, raw)
		if ok != wantOK || ok && string(got) != string(want) {
			t.Errorf("%q: %q %v, want %q %v", raw, got, ok, want, wantOK)
		}
	})
}

// BenchmarkAppendCanonical measures small arguments, and what depth costs: x_flat is the time of a
// value that nests 500 levels as a multiple of that of a flat one of as many bytes.
func BenchmarkAppendCanonical(b *testing.B) {
	b.Run("args", func(b *testing.B) {
		raw := []byte(`{"project":"the quick brown fox","id":"12345","filter":{"state":"open","labels":["a","b"]},"limit":20}`)
		buf := make([]byte, 0, len(raw))
		b.ReportAllocs()
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			if _, ok := AppendCanonical(buf, raw); !ok {
				b.Fatal("not valid")
			}
		}
	})
	b.Run("deep", func(b *testing.B) {
		inner := strings.Repeat(`"some text",`, 80_000)
		list := "[" + inner + "1]"
		flat, deep := []byte(list), []byte(strings.Repeat(`{"b":1,"a":`, 500)+list+strings.Repeat(`}`, 500))
		buf := make([]byte, 0, 2*len(deep))
		var times [2]time.Duration
		for b.Loop() {
			for i, raw := range [][]byte{flat, deep} {
				start := time.Now()
				if _, ok := AppendCanonical(buf, raw); !ok {
					b.Fatal("not valid")
				}
				times[i] += time.Since(start)
			}
		}
		b.ReportMetric(float64(times[1])/float64(max(times[0], 1)), "x_flat")
	})
}
