package result

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

func TestViewsFromTheEnd(t *testing.T) {
	lines := numbered("line #", 10, "\n")
	rows := numbered(`{"id":#}`, 4, "\n")
	for _, tt := range []struct{ data, selector, text, notice string }{
		{lines, `{"type":"tail","lines":2}`, "line 8\nline 9", `[lines 8 to 10 of 10; before them {"type":"lines","start":6,"end":8}]`},
		{lines, `{"type":"tail"}`, lines, ""},
		{lines, `{"type":"tail","lines":1,"numbers":true}`, "9:line 9", `[lines 9 to 10 of 10; before them {"type":"lines","start":8,"end":9}]`},
		{lines, `{"type":"lines","start":-2}`, "line 8\nline 9", "[lines 8 to 10 of 10]"},
		{lines, `{"type":"lines","start":-3,"end":-1}`, "line 7\nline 8", `[lines 7 to 9 of 10; go on with {"type":"lines","start":9,"end":10}]`},
		{lines, `{"type":"lines","start":-99,"end":1}`, "line 0", `[lines 0 to 1 of 10; go on with {"type":"lines","start":1,"end":2}]`},
		{lines, `{"type":"lines","start":2,"end":4,"numbers":true}`, "2:line 2\n3:line 3", `[lines 2 to 4 of 10; go on with {"type":"lines","start":4,"end":6,"numbers":true}]`},
		{rows, `{"type":"rows","start":-1}`, "[\n{\"id\":3}\n]", "[rows 3 to 4 of 4]"},
		{rows, `{"type":"rows","start":-2,"end":-1}`, "[\n{\"id\":2}\n]", `[rows 2 to 3 of 4; go on with {"type":"rows","start":3,"end":4}]`},
		{"a,b\n1,2\n3,4\n5,6\n", `{"type":"rows","start":-1}`, "[\n{\"a\":5,\"b\":6}\n]", "[rows 2 to 3 of 3]"},
		{"abcdef", `{"type":"head","start":-2}`, "ef", "[characters 4 to 6 of 6]"},
	} {
		if v := sel(t, tt.data, tt.selector); v.Text != tt.text || v.Notice != tt.notice {
			t.Errorf("%s: %q, %q\nwant %q, %q", tt.selector, v.Text, v.Notice, tt.text, tt.notice)
		}
	}
}

// Rows of JSON are its elements, with any breaks between and in them.
func TestRowsAreElements(t *testing.T) {
	for _, data := range []string{
		`[{"a":1},{"a":2},{"a":3}]`, "[{\"a\":1},\n{\"a\":\n2},{\"a\":3}\n]", "{\"a\":1}\n{\"a\":2}\r\n{\"a\":3}", "[\r{\"a\":1},\r{\"a\":2},\r{\"a\":3}]", "{\"n\":3,\n\"r\":[{\"a\":1},{\"a\":2},\n{\"a\":3}]}",
	} {
		if v := sel(t, data, `{"type":"rows","start":1,"end":2}`); v.Text != "[\n{\"a\":2}\n]" {
			t.Errorf("%q: %q", data, v.Text)
		}
	}
	if v := sel(t, "[1,\n2,[3,\n4]]", `{"type":"rows","start":2}`); v.Text != "[\n[3,4]\n]" {
		t.Errorf("%q", v.Text)
	}
}

// No view shows a line of more characters than maxLineChars, with a few for what stands around it.
func TestViewsCutLongLines(t *testing.T) {
	word := strings.Repeat("é", 9000)
	object := `{"id":7,"body":"` + word + `","tags":["a","b"],"more":{"x":"` + word + `","n":[` + numbered("#", 3000, ",") + `]}}`
	many := "{" + numbered(`"k#":"a value of some characters"`, 400, ",") + "}"
	for _, tt := range []struct{ name, data, selector string }{
		{"lines", "first\n" + word + "\nlast", `{"type":"lines"}`},
		{"one line", word, `{"type":"lines","numbers":true}`},
		{"tail", "first\n" + word, `{"type":"tail"}`},
		{"rows that are lines", "first\n" + word + "\nlast", `{"type":"rows"}`},
		{"rows", "[" + object + "," + many + "]", `{"type":"rows"}`},
		{"rows of CSV", "a,b\n1," + word + "\n2,x\n3,y\n", `{"type":"rows"}`},
		{"table", "[" + object + "," + object + "]", `{"type":"table"}`},
		{"json_path", object, `{"type":"json_path","path":"$"}`},
		{"json_path, many members", many, `{"type":"json_path","path":"$"}`},
		{"json_path, a string", object, `{"type":"json_path","path":"$.body"}`},
		{"json_path, an array", object, `{"type":"json_path","path":"$.more.n"}`},
		{"json_path, several", object, `{"type":"json_path","path":"$..*"}`},
		{"json_keys", object, `{"type":"json_keys","keys":["id","body","more"]}`},
		{"search", object, `{"type":"search","pattern":"é"}`},
	} {
		v := sel(t, tt.data, tt.selector)
		if v.Text == "" {
			t.Errorf("%s: nothing is shown", tt.name)
		}
		for line := range strings.Lines(v.Text) {
			if n := utf8.RuneCountInString(line); n > maxLineChars+10 {
				t.Errorf("%s: a line of %d characters", tt.name, n)
			}
		}
		if tt.name != "json_path, many members" && tt.name != "json_path, an array" && v.Next == nil && !strings.Contains(v.Notice, "short") && !strings.Contains(v.Notice, "cut") && !strings.HasSuffix(v.Text, "…") {
			t.Errorf("%s: nothing says that it is cut: %s", tt.name, v.Notice)
		}
	}
	v := sel(t, "first\n"+word+"\nlast", `{"type":"lines"}`)
	const rest = `{"type":"head","start":2006,"chars":2000}`
	if !strings.HasSuffix(v.Text, "é…\nlast") || !strings.Contains(v.Notice, "line 1 is cut, 7000 characters more") || string(v.Next) != rest {
		t.Errorf("notice %s, next %s", v.Notice, v.Next)
	}
	if v := sel(t, "first\n"+word+"\nlast", rest); v.Text != word[:4000] {
		t.Errorf("the rest is %.20q", v.Text)
	}
}

func TestShortValueIsJSONInItsBound(t *testing.T) {
	word := strings.Repeat("\\n", 300)
	for _, value := range []string{
		`"` + word + `"`, strings.Repeat("9", 300), "[" + numbered("#", 300, ",") + "]", `{"` + word + `":1,"` + word + `2":{"a":"` + word + `"}}`,
		"{" + numbered(`"k#":[1,2,{"a":"`+word+`"}]`, 50, ",") + "}", `[[[["` + word + `"]]]]`,
	} {
		for _, limit := range []int{40, 100, 250} {
			got := shortValue([]byte(value), limit)
			if rawjson.Valid(got) != nil || utf8.RuneCount(got) > limit {
				t.Errorf("%.40s within %d: %d characters %s", value, limit, utf8.RuneCount(got), got)
			}
		}
	}
	if got := string(shortValue([]byte(`{"a":1,"b":"`+strings.Repeat("x", 99)+`","c":[1,2]}`), 80)); !json.Valid([]byte(got)) || !strings.HasPrefix(got, `{"a":1,"b":"x`) || !strings.Contains(got, "… (99 characters)") {
		t.Error(got)
	}
}

const manual = "Intro line\n\n# Guide\nwords\n\n## Install ##\n```sh\n# no heading\n```\nrun it\n\nUsage\n-----\nuse it\n\n### Flags\n-v\n\n# Appendix\nend\n"

func TestMarkdownByHeadings(t *testing.T) {
	for _, tt := range []struct{ selector, text string }{
		{`{"type":"headings"}`, "0: # Guide (lines 2 to 18)\n1: ## Install (lines 5 to 11)\n2: ## Usage (lines 11 to 18)\n3: ### Flags (lines 15 to 18)\n4: # Appendix (lines 18 to 20)"},
		{`{"type":"headings","level":1}`, "0: # Guide (lines 2 to 18)\n4: # Appendix (lines 18 to 20)"},
		{`{"type":"section","heading":"install"}`, "## Install ##\n```sh\n# no heading\n```\nrun it\n"},
		{`{"type":"section","heading":"## Usage"}`, "Usage\n-----\nuse it\n\n### Flags\n-v\n"},
		{`{"type":"section","heading":3}`, "### Flags\n-v\n"},
		{`{"type":"section","heading":"append","numbers":true}`, "18:# Appendix\n19:end"},
	} {
		if v := sel(t, manual, tt.selector); v.Text != tt.text {
			t.Errorf("%s:\n%q\nwant\n%q", tt.selector, v.Text, tt.text)
		}
	}
}
