package result

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	tables "github.com/weir-mcp/weir/s2sp/table"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/json/rawjson"
)

func sel(t *testing.T, data, selector string) View {
	t.Helper()
	v, err := selectBytes(t.Context(), artifact.Artifact{Handle: "art_x", MediaType: "text/plain"}, []byte(data), json.RawMessage(selector), ViewOptions{})
	if err != nil {
		t.Fatalf("%s: %v", selector, err)
	}
	return v
}

func numbered(format string, n int, sep string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = strings.ReplaceAll(format, "#", fmt.Sprint(i))
	}
	return strings.Join(parts, sep)
}

func TestSelect(t *testing.T) {
	lines := numbered("line #", 10, "\n")
	table := "[" + numbered(`{"id":#, "n":12345678901234567890}`, 4, ",") + "]"
	object := `{"b":[1,{"z":1,"a":"é\u00e9"}],"a":1.50,"c":{},"d":[],"e":null}`
	tests := []struct {
		name, data, selector, text, notice, next string
	}{
		{"head, default", strings.Repeat("é", 501), `{"type":"head"}`, strings.Repeat("é", 500), "characters 0 to 500 of 501", `{"type":"head","start":500,"chars":1}`},
		{"no type is head", "abc", `{}`, "abc", "", ""},
		{"head, all", "abc", `{"type":"head","chars":3}`, "abc", "", ""},
		{"head, none", "abc", `{"type":"head","chars":0}`, "", "characters 0 to 0 of 3", `{"type":"head","start":0,"chars":1}`},
		{"head, from the middle", "abcdef", `{"type":"head","start":2,"chars":3}`, "cde", "characters 2 to 5 of 6", `{"type":"head","start":5,"chars":1}`},
		{"head, beyond the end", "abc", `{"type":"head","start":9}`, "", "characters 3 to 3 of 3", ""},
		{"head, a whole number with a point", "abcd", `{"type":"head","chars":2.0}`, "ab", "characters 0 to 2 of 4", `{"type":"head","start":2,"chars":2}`},
		{"head, bytes that are no UTF-8", "a\xffb", `{"type":"head"}`, "a\uFFFDb", "", ""},

		{"lines, all", lines, `{"type":"lines"}`, lines, "", ""},
		{"lines, end exclusive", lines, `{"type":"lines","start":2,"end":4}`, "line 2\nline 3", "lines 2 to 4 of 10", `{"type":"lines","start":4,"end":6}`},
		{"lines, end beyond", lines, `{"type":"lines","start":8,"end":99}`, "line 8\nline 9", "lines 8 to 10 of 10", ""},
		{"lines, start beyond", lines, `{"type":"lines","start":99}`, "", "lines 10 to 10 of 10", ""},
		{"lines, CRLF and a break at the end", "a\r\nb\r\n", `{"type":"lines"}`, "a\nb", "", ""},
		{"lines of nothing", "", `{"type":"lines"}`, "", "", ""},

		{"json_keys", object, `{"type":"json_keys","keys":["b","a"]}`, "{\n  \"a\": 1.50,\n  \"b\": [\n    1,\n    {\n      \"a\": \"é\\u00e9\",\n      \"z\": 1\n    }\n  ]\n}", "", ""},
		{"json_keys, empty values", object, `{"type":"json_keys","keys":["c","d","e","c"]}`, "{\n  \"c\": {},\n  \"d\": [],\n  \"e\": null\n}", "", ""},
		{"json_keys, none", object, `{"type":"json_keys"}`, "{}", "5 keys: b, a, c, d, e", ""},
		{"json_keys, one missing", object, `{"type":"json_keys","keys":["x","c"]}`, "{\n  \"c\": {}\n}", "no such key: x; 5 keys: b, a, c, d, e", ""},

		{"rows", table, `{"type":"rows"}`, "[\n" + numbered(`{"id":#,"n":12345678901234567890}`, 4, ",\n") + "\n]", "", ""},
		{"rows, some", table, `{"type":"rows","start":1,"end":3}`, "[\n{\"id\":1,\"n\":12345678901234567890},\n{\"id\":2,\"n\":12345678901234567890}\n]", "rows 1 to 3 of 4", `{"type":"rows","start":3,"end":4}`},
		{"rows of the only member", `{"result":` + table + `}`, `{"type":"rows","end":1}`, "[\n{\"id\":0,\"n\":12345678901234567890}\n]", "rows 0 to 1 of 4", `{"type":"rows","start":1,"end":2}`},
		{"rows, one a line", "{\"a\":1}\n{\"a\":2}\n", `{"type":"rows","start":1}`, "[\n{\"a\":2}\n]", "rows 1 to 2 of 2", ""},
		{"rows of CSV", "event,wind\nWind,88\nFlood,\nIce,3\nHail,4\n", `{"type":"rows","end":2}`, "[\n{\"event\":\"Wind\",\"wind\":88},\n{\"event\":\"Flood\",\"wind\":null}\n]", "rows 0 to 2 of 4", `{"type":"rows","start":2,"end":4}`},
		{"rows of CSV with breaks in quotes", "a,b\r\n1,\"x\r\ny\"\r\n2,z\r\n3,z\r\n", `{"type":"rows","end":1}`, "[\n{\"a\":1,\"b\":\"x\\r\\ny\"}\n]", "rows 0 to 1 of 3", `{"type":"rows","start":1,"end":2}`},
		{"rows of CSV, none", "a,b\n1,2\n3,4\n5,6\n", `{"type":"rows","start":9}`, "[]", "rows 3 to 3 of 3", ""},
		{"rows of prose with commas are lines", "Dear Ann, hello\nall is well, you know\nbye, Bob\nPS, one more\n", `{"type":"rows","end":1}`, "Dear Ann, hello", "lines 0 to 1 of 4", `{"type":"rows","start":1,"end":2}`},
		{"rows of text are lines", lines, `{"type":"rows","start":1,"end":2}`, "line 1", "lines 1 to 2 of 10", `{"type":"rows","start":2,"end":3}`},
		{"rows, none", table, `{"type":"rows","start":2,"end":2}`, "[]", "rows 2 to 2 of 4", `{"type":"rows","start":2,"end":3}`},

		{"json_path, a value", object, `{"type":"json_path","path":"$.b[1].a"}`, `"é\u00e9"`, "", ""},
		{"json_path, raw numbers", table, `{"type":"json_path","path":"$[-1].n"}`, "12345678901234567890", "", ""},
		{"json_path, several", table, `{"type":"json_path","path":"$[*].id"}`, "[\n0,\n1,\n2,\n3\n]", "", ""},
		{"json_path, none of several", table, `{"type":"json_path","path":"$[*].x"}`, "[]", "", ""},
		{"json_path, from", table, `{"type":"json_path","path":"[*].id","start":2}`, "[\n2,\n3\n]", "2 of 4 values, from number 2 on", ""},
		{"json_path, without the dollar", object, `{"type":"json_path","path":"b[0]"}`, "1", "", ""},
		{"json_path, one object a line", "{\"a\":1}\n{\"a\":2}", `{"type":"json_path","path":"$[1].a"}`, "2", "", ""},

		{"search", lines, `{"type":"search","pattern":"line [37]"}`, "3:line 3\n7:line 7", "2 matches in 10 lines", ""},
		{"search, context", lines, `{"type":"search","pattern":"[23]$|7","context":1}`, "1-line 1\n2:line 2\n3:line 3\n4-line 4\n--\n6-line 6\n7:line 7\n8-line 8", "3 matches in 10 lines", ""},
		{"search, limit", lines, `{"type":"search","pattern":"line","limit":2}`, "0:line 0\n1:line 1", "the first 2 of 10 matches in 10 lines", `{"type":"search","pattern":"line","limit":2,"start":2}`},
		{"search, from", lines, `{"type":"search","pattern":"line","start":9}`, "9:line 9", "1 match in 10 lines from line 9 on", ""},
		{"search, nothing", lines, `{"type":"search","pattern":"xyz"}`, "", "no match in 10 lines", ""},
		{"search in a table", table, `{"type":"search","pattern":"\"id\":2"}`, `2:{"id":2,"n":12345678901234567890}`, "1 match in 4 rows; row n is $[n]", ""},
		{"search counts matches", "a a\nb\na\n", `{"type":"search","pattern":"a","limit":1}`, "0:a a", "the first 1 of 2 lines that match, with 3 matches, in 3 lines", `{"type":"search","pattern":"a","limit":1,"start":2}`},
		{"search in JSON", `{"a b":[{"s":"l\u0061te"}],"c":"late","n":1}`, `{"type":"search","pattern":"late"}`, "$['a b'][0].s: \"late\"\n$.c: \"late\"", "2 matches in 5 values", ""},
		{"search in JSON for a key", `{"a":[{"s":"x"}],"n":1}`, `{"type":"search","pattern":"\"s\": ","context":1}`, "  $.a[0]: {…}\n$.a[0].s: \"x\"\n  $.n: 1", "1 match in 4 values", ""},
		{"search in JSON, more", `{"a":[1,2,3],"n":1}`, `{"type":"search","pattern":"\\d","limit":2}`, "$.a: [3 elements]\n$.a[0]: 1", "the first 2 of 5 matches in 5 values", `{"type":"search","pattern":"\\d","limit":2,"start":2}`},
		{"search in a long line", strings.Repeat("a", 1000) + "needle" + strings.Repeat("b", 1000), `{"type":"search","pattern":"needle"}`,
			"0:…" + strings.Repeat("a", 100) + "needle" + strings.Repeat("b", 294) + "…", "1 match in 1 line", ""},
	}
	for _, tt := range tests {
		v := sel(t, tt.data, tt.selector)
		if v.Text != tt.text {
			t.Errorf("%s: text\n got %q\nwant %q", tt.name, v.Text, tt.text)
		}
		notice := tt.notice
		if tt.next != "" {
			notice += "; go on with " + tt.next
		}
		if notice != "" {
			notice = "[" + notice + "]"
		}
		if v.Notice != notice || string(v.Next) != tt.next {
			t.Errorf("%s: notice %q, next %s\nwant %q", tt.name, v.Notice, v.Next, notice)
		}
	}
}

func TestSelectErrorsNameTheParameter(t *testing.T) {
	tests := []struct{ data, selector, want string }{
		{"x", `{"type":"head","chars":"abc"}`, `chars must be a whole number, not the string "abc"`},
		{"x", `{"type":"head","chars":1.5}`, `chars must be a whole number, not 1.5`},
		{"x", `{"type":"head","chars":-1}`, `chars must be 0 or more, not -1`},
		{"x", `{"type":"head","chars":1e300}`, `chars must be a whole number, not 1e300`},
		{"x", `{"type":"head","chars":99999999999999999999}`, `chars must be a whole number, not 99999999999999999999`},
		{"x", `{"type":"head","chars":[1]}`, `chars must be a whole number, not an array`},
		{"x", `{"type":"head","lines":3}`, `"lines" is no parameter of head, whose parameters are chars, start`},
		{"x", `{"type":"head","chars":1,"chars":2}`, `selector has "chars" twice`},
		{"x", `{"type":"head","":1,"":2}`, `selector has "" twice`},
		{"x", `{"type":"lines","start":true}`, `start must be a whole number, not true`},
		{"x", `{"type":"lines","start":3,"end":2}`, `end must not be less than start, but is 2 and start is 3`},
		{"x", `{"type":"end"}`, `type "end" is unknown; selectors are head, lines, tail, headings, section, json_keys, rows, json_path, search, table`},
		{"x", `{"type":7}`, `type must be a string, one of head, lines, tail, headings, section, json_keys, rows, json_path, search, table, not 7`},
		{"x", `{"type":"lines","numbers":1}`, `numbers must be true or false, not 1`},
		{"x", `{"type":"lines","start":-2,"end":-3}`, `end must not be less than start, but is -3 and start is -2`},
		{"x", `{"type":"headings"}`, `type "headings" needs Markdown and art_x has no headings; use lines, tail or search`},
		{"# a\n", `{"type":"section"}`, `heading is missing: section needs the title of a heading or its number in the selector "headings"`},
		{"# a\n", `{"type":"section","heading":3}`, `heading 3 is not there: the headings are 0 to 0`},
		{"# a\n# b\n", `{"type":"section","heading":"x"}`, `heading "x" is not there; headings are 0 a, 1 b`},
		{"# a\n# a\n", `{"type":"section","heading":"a"}`, `heading "a" fits several, name one by its number: 0 a, 1 a`},
		{"x", `"head"`, `selector must be an object such as {"type":"head","chars":500}, not the string "head"`},
		{"x", `null`, `selector must be an object such as {"type":"head","chars":500}, not null`},
		{`{}`, `{"type":"json_keys","keys":"a"}`, `keys must be an array of strings, not the string "a"`},
		{`{}`, `{"type":"json_keys","keys":["a",1]}`, `keys must be an array of strings, but holds 1`},
		{`[1]`, `{"type":"json_keys","keys":["a"]}`, `type "json_keys" needs a JSON object and art_x is an array; use rows or json_path`},
		{`plain`, `{"type":"json_keys","keys":["a"]}`, `type "json_keys" needs JSON and art_x is none (text/plain); use head, lines or search`},
		{`{}`, `{"type":"json_path"}`, `path is missing: json_path needs a path such as $.items[0].name`},
		{`{}`, `{"type":"json_path","path":3}`, `path must be a string, not 3`},
		{`{}`, `{"type":"json_path","path":"$.a["}`, `path "$.a[": at character 4: "[" is not closed`},
		{`{}`, `{"type":"json_path","path":"$[?@.x=1]"}`, `path "$[?@.x=1]": at character 7: "=" is no operator; comparisons are ==, !=, <, <=, >, >=`},
		{`{"a":{"b":1}}`, `{"type":"json_path","path":"$.a.c.d"}`, `path "$.a.c.d" selects nothing; $.a is object with 1 key {b}`},
		{`{"a":[1]}`, `{"type":"json_path","path":"$.a[7]"}`, `path "$.a[7]" selects nothing; $.a is array of 1 (integer)`},
		{"x", `{"type":"search"}`, `pattern is missing: search needs a regular expression (RE2)`},
		{"x", `{"type":"search","pattern":"("}`, "pattern is not a regular expression (RE2): missing closing ): `(`"},
		{"x", `{"type":"search","pattern":["a"]}`, `pattern must be a string, not an array`},
		{"x", `{"type":"search","pattern":"a","limit":"9"}`, `limit must be a whole number, not the string "9"`},
		{"\x00\x01", `{"type":"head"}`, `type "head" shows text; art_x is text/plain, 2 bytes of binary data`},
	}
	for _, tt := range tests {
		_, err := selectBytes(t.Context(), artifact.Artifact{Handle: "art_x", MediaType: "text/plain"}, []byte(tt.data), json.RawMessage(tt.selector), ViewOptions{})
		var e *Error
		if !errors.As(err, &e) || e.Code != ViewFailed || e.Message != tt.want {
			t.Errorf("%s:\n got %v\nwant %s", tt.selector, err, tt.want)
		}
	}
}

// TestSelectIsBounded follows Next from view to view: each is bounded, and
// together they show everything.
func TestSelectIsBounded(t *testing.T) {
	long := numbered("é line # of many, each with some words on it", 5000, "\n")
	array := "[" + numbered(`{"id":#,"words":"some words of a row"}`, 3000, ",") + "]"
	giant := strings.Repeat("0123456789", 10_000)
	tests := []struct {
		name, data, selector string
		join                 func(all, text string) string
		want                 string
	}{
		{"head", long, `{"type":"head","chars":100000}`, concat, long},
		{"lines", long, `{"type":"lines"}`, func(all, text string) string { return strings.TrimPrefix(all+"\n"+text, "\n") }, long},
		{"one long line", giant, `{"type":"lines"}`, concat, giant},
		{"rows", array, `{"type":"rows"}`, joinRows, array},
		{"json_path, an array", `{"x":1,"rows":` + array + `}`, `{"type":"json_path","path":"$.rows"}`, joinRows, array},
		{"json_path, many", array, `{"type":"json_path","path":"$[*]"}`, joinRows, array},
		{"json_path, a long string", `{"text":"` + giant + `"}`, `{"type":"json_path","path":"$.text"}`, concat, giant},
		{"search", numbered("hit #", 3000, "\n"), `{"type":"search","pattern":"hit","limit":1000}`, func(all, text string) string { return strings.TrimPrefix(all+"\n"+text, "\n") }, numbered("#:hit #", 3000, "\n")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all, selector, views := "", tt.selector, 0
			for selector != "" {
				v := sel(t, tt.data, selector)
				if n := utf8.RuneCountInString(v.Text) + utf8.RuneCountInString(v.Notice); n > maxViewChars {
					t.Fatalf("%d characters", n)
				}
				if v.Next != nil && !strings.Contains(v.Notice, string(v.Next)) {
					t.Fatalf("the notice %q does not tell %s", v.Notice, v.Next)
				}
				all = tt.join(all, v.Text)
				selector = string(v.Next)
				if views++; views > 50 {
					t.Fatal("it does not end")
				}
			}
			if all != tt.want {
				t.Errorf("%d views show %d characters of %d", views, len(all), len(tt.want))
			}
			if views < 3 {
				t.Errorf("only %d views", views)
			}
		})
	}
}

func concat(all, text string) string { return all + text }

func joinRows(all, text string) string {
	text = string(compact(nil, []byte(text)))
	if all == "" {
		return text
	}
	return strings.TrimSuffix(all, "]") + "," + strings.TrimPrefix(text, "[")
}

func TestSelectLongMembers(t *testing.T) {
	data := `{"a":1,"long":"` + strings.Repeat("x", 30_000) + `","b":2}`
	short := func(v string) string { // x… for what is cut
		at := strings.Index(v, "xx")
		return v[:at] + "x" + strings.TrimLeft(v[at:], "x")
	}
	const member = `"long":"x… (30000 characters)"`
	const whole = "[\n{\"a\":1," + member + ",\"b\":2}\n]"
	for _, tt := range []struct{ data, selector, text, next string }{
		{data, `{"type":"json_path","path":"$"}`, "{\n\"a\":1,\n" + member + ",\n\"b\":2\n}", `{"type":"json_path","path":"$.long"}`},
		{data, `{"type":"json_keys","keys":["b","long"]}`, "{\n  \"b\": 2\n}", `{"type":"json_path","path":"$.long"}`},
		{"[" + data + "]", `{"type":"rows"}`, whole, `{"type":"json_path","path":"$[0]"}`},
		{"[" + data + "]", `{"type":"json_path","path":"$"}`, whole, `{"type":"json_path","path":"$[0]"}`},
		{`{"r":[` + data + `]}`, `{"type":"rows"}`, whole, `{"type":"json_path","path":"$.r[0]"}`},
	} {
		v := sel(t, tt.data, tt.selector)
		got := v.Text
		if strings.Contains(got, "xx") {
			got = short(got)
		}
		if got != tt.text || string(v.Next) != tt.next {
			t.Errorf("%s: %.80s, next %s", tt.selector, got, v.Next)
		}
	}
}

func TestSelectHonoursContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := selectBytes(ctx, artifact.Artifact{}, []byte(numbered("x", 1000, "\n")), json.RawMessage(`{"type":"search","pattern":"y"}`), ViewOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestJSONPath(t *testing.T) {
	doc := `{"a":[0,1,2,3,4],"b":{"c":{"a":"deep"},"a b":1,"x'y":2},"é":3}`
	tests := []struct{ path, want string }{
		{"$", doc}, {"$.a", "[0,1,2,3,4]"}, {"$['a']", "[0,1,2,3,4]"}, {`$["a"][0]`, "0"}, {"$.a[-2]", "3"}, {"$.a[9]", ""}, {"$.a[-9]", ""},
		{"$.a[1:3]", "1 2"}, {"$.a[:2]", "0 1"}, {"$.a[-2:]", "3 4"}, {"$.a[::2]", "0 2 4"}, {"$.a[::-2]", "4 2 0"}, {"$.a[3:0:-1]", "3 2 1"}, {"$.a[1:1]", ""}, {"$.a[::0]", ""},
		{"$.a[0,2,'x']", "0 2"}, {"$.a.*", "0 1 2 3 4"}, {"$.b['a b']", "1"}, {`$.b['x\'y']`, "2"}, {"$['\\u00e9']", "3"}, {"$.é", "3"},
		{"$..a", `[0,1,2,3,4] "deep"`}, {"$..[1]", "1"}, {"$.b..*", `{"a":"deep"} 1 2 "deep"`}, {"$.a.b", ""}, {"$.b[0]", ""}, {"$ .a [0]", "0"},
		{"$.a[5:1:9223372036854775807]", ""}, {"$.a[0:5:9223372036854775807]", "0"}, {"$.a[::-9223372036854775807]", "4"},
	}
	for _, tt := range tests {
		p, err := parseJSONPath(tt.path)
		if err != nil {
			t.Errorf("%s: %v", tt.path, err)
			continue
		}
		var got []string
		if !p.each(nil, []byte(doc), func(m []byte) bool { got = append(got, string(m)); return true }) {
			t.Errorf("%s: out of budget", tt.path)
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%s selects %s, want %s", tt.path, s, tt.want)
		}
	}
	for _, bad := range []string{"", " ", "$.", "$a", "$[", "$[]", "$['a]", "$[1:2:3:4]", "$.a]", "$[99999999999999999999]", "$['\\uD800']", "$" + strings.Repeat(".a", 65), strings.Repeat("a", 1001)} {
		if _, err := parseJSONPath(bad); err == nil {
			t.Errorf("%.20q is taken for a path", bad)
		}
	}
	nested := strings.Repeat("[", 400) + strings.Repeat("]", 400)
	p, _ := parseJSONPath("$" + strings.Repeat("..*", 20))
	if p.each(nil, []byte(nested), func([]byte) bool { return true }) {
		t.Error("a path of many descents ends within the budget: make the test harder")
	}
}

func TestPathStepRoundTrips(t *testing.T) {
	for _, key := range []string{"a", "_a1", "1a", "a b", "a'b", `a\b`, "a\nb", "é", "", `"`, "]"} {
		doc := append(append([]byte(`{"zz":0,`), rawjson.Quote(key)...), ":7}"...)
		p, err := parseJSONPath("$" + rawjson.PathStep(key))
		if err != nil {
			t.Errorf("%q: %v", key, err)
			continue
		}
		got := ""
		p.each(nil, doc, func(m []byte) bool { got += string(m); return true })
		if got != "7" {
			t.Errorf("%s of %s selects %q", rawjson.PathStep(key), doc, got)
		}
	}
}

func FuzzSelect(f *testing.F) {
	f.Add(`{"a":[{"b":1}]}`, `{"type":"json_path","path":"$.a[*].b"}`)
	f.Add("a\nb", `{"type":"search","pattern":"b","context":1}`)
	f.Add(`[{"a":1},{"b":2}]`, `{"type":"rows","start":1}`)
	f.Add(`{"a":{}}`, `{"type":"json_keys","keys":["a"]}`)
	f.Fuzz(func(t *testing.T, data, selector string) {
		v, err := selectBytes(t.Context(), artifact.Artifact{}, []byte(data), json.RawMessage(selector), ViewOptions{MaxChars: 1500})
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Code != ViewFailed) {
			t.Errorf("error %v", err)
		}
		if n := utf8.RuneCountInString(v.Text) + utf8.RuneCountInString(v.Notice); n > 1500 {
			t.Errorf("%d characters", n)
		}
	})
}

// A line ends with LF, CR LF or CR.
func TestLinesThatEndWithCR(t *testing.T) {
	for _, breaks := range []string{"\n", "\r\n", "\r"} {
		text := strings.Join([]string{"one", "two", "three", "four"}, breaks) + breaks
		for selector, want := range map[string]string{
			`{"type":"lines","start":1,"end":3}`:             "two\nthree",
			`{"type":"search","pattern":"^t"}`:               "1:two\n2:three",
			`{"type":"rows","start":0,"end":1}`:              "one",
			`{"type":"search","pattern":"four","context":1}`: "2-three\n3:four",
		} {
			v, err := selectBytes(t.Context(), artifact.Artifact{MediaType: "text/plain"}, []byte(text), json.RawMessage(selector), ViewOptions{})
			if err != nil || v.Text != want {
				t.Errorf("%q, %s: %q, %v", breaks, selector, v.Text, err)
			}
		}
		v, err := selectBytes(t.Context(), artifact.Artifact{}, []byte(strings.ReplaceAll(`{"a":1}|{"a":2}|`, "|", breaks)), json.RawMessage(`{"type":"rows","start":1,"end":2}`), ViewOptions{})
		if err != nil || !strings.Contains(v.Text, `{"a":2}`) || strings.Contains(v.Text, `{"a":1}`) {
			t.Errorf("%q: %q, %v", breaks, v.Text, err)
		}
	}
	if got := string(Maker(makeOnHeap).unifyBreaks([]byte("\ra\r\nb\r\r\n\r"))); got != "\na\r\nb\n\r\n\n" {
		t.Errorf("%q", got)
	}
	long := strings.Repeat(strings.Repeat("x", 999)+"\r", 100) + "\r\n\r" // in several pieces
	if got := string(Maker(makeOnHeap).unifyBreaks([]byte(long))); got != strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(long, "\r\n", "|"), "\r", "\n"), "|", "\r\n") {
		t.Errorf("%d bytes of %d", len(got), len(long))
	}
}

// selectBytes is Select for bytes that no store keeps.
func selectBytes(ctx context.Context, a artifact.Artifact, data []byte, selector json.RawMessage, opts ViewOptions) (View, error) {
	read := func(opts tables.DetectOptions) (*tables.Table, error) { return tables.Detect(data, opts) }
	return selectFrom(ctx, a, data, read, selector, opts)
}
