package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/upstream/lineage"
)

// TestToolArgs reads arguments as a shell gives them, without a schema (the
// guess) and with one.
func TestToolArgs(t *testing.T) {
	const schema = `{"type":"object","properties":{
		"text":{"type":"string"}, "n":{"type":"integer"}, "x":{"type":"number"}, "on":{"type":"boolean"},
		"tags":{"type":"array","items":{"type":"string"}}, "ids":{"type":"array","items":{"type":"integer"}},
		"either":{"type":["string","integer"]}, "maybe":{"anyOf":[{"type":"string"},{"type":"null"}]},
		"listed":{"anyOf":[{"type":"array","items":{"type":"string"}},{"type":"null"}]},
		"level":{"enum":["1","2"]}, "deep":{"type":"object"}, "any":true, "free":{}}}`
	tests := []struct {
		name, flag   string // flags separated by |
		guess, typed string
	}{
		{"text", "text=hello", `{"text":"hello"}`, `{"text":"hello"}`},
		{"empty text", "text=", `{"text":""}`, `{"text":""}`},
		{"text with an equals sign", "text=a=b", `{"text":"a=b"}`, `{"text":"a=b"}`},
		{"text that looks like a number", "text=5", `{"text":5}`, `{"text":"5"}`},
		{"text that looks like a boolean", "text=true", `{"text":true}`, `{"text":"true"}`},
		{"text that looks like an object", `text={"a":1}`, `{"text":{"a":1}}`, `{"text":"{\"a\":1}"}`},
		{"leading zero", "text=0123", `{"text":"0123"}`, `{"text":"0123"}`},
		{"integer", "n=5", `{"n":5}`, `{"n":5}`},
		{"large integer keeps its digits", "n=12345678901234567890", `{"n":12345678901234567890}`, `{"n":12345678901234567890}`},
		{"no integer", "n=five", `{"n":"five"}`, `{"n":"five"}`},
		{"number", "x=-1.5e3", `{"x":-1.5e3}`, `{"x":-1.5e3}`},
		{"boolean", "on=true", `{"on":true}`, `{"on":true}`},
		{"boolean in capitals", "on=True", `{"on":"True"}`, `{"on":true}`},
		{"array by repetition", "tags=a|tags=b", `{"tags":["a","b"]}`, `{"tags":["a","b"]}`},
		{"array of one", "tags=a", `{"tags":"a"}`, `{"tags":["a"]}`},
		{"array of numbers as texts", "tags=1|tags=2", `{"tags":[1,2]}`, `{"tags":["1","2"]}`},
		{"array of integers", "ids=1", `{"ids":1}`, `{"ids":[1]}`},
		{"array written as JSON", `ids=[1,2]`, `{"ids":"[1,2]"}`, `{"ids":[1,2]}`},
		{"array or null", "listed=a", `{"listed":"a"}`, `{"listed":["a"]}`},
		{"two types", "either=5", `{"either":5}`, `{"either":5}`},
		{"two types, text", "either=x", `{"either":"x"}`, `{"either":"x"}`},
		{"optional text", "maybe=5", `{"maybe":5}`, `{"maybe":"5"}`},
		{"null", "maybe=null", `{"maybe":null}`, `{"maybe":null}`},
		{"enum of texts", "level=1", `{"level":1}`, `{"level":"1"}`},
		{"object", `deep={"a":[1]}`, `{"deep":{"a":[1]}}`, `{"deep":{"a":[1]}}`},
		{"exact", `text:=5`, `{"text":5}`, `{"text":5}`},
		{"exact array", `tags:=["x",1]`, `{"tags":["x",1]}`, `{"tags":["x",1]}`},
		{"schema that asks for nothing", "any=5|free=x", `{"any":5,"free":"x"}`, `{"any":5,"free":"x"}`},
		{"not in the schema", "other=5", `{"other":5}`, `{"other":5}`},
		{"several", "text=a|n=1|text=b", `{"text":["a","b"],"n":1}`, `{"text":["a","b"],"n":1}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			args, err := parseToolArgs(strings.Split(test.flag, "|"), "", nil)
			if err != nil {
				t.Fatal(err)
			}
			guess, err := args.json(nil)
			if err != nil || string(guess) != test.guess {
				t.Errorf("guess %s, want %s (%v)", guess, test.guess, err)
			}
			typed, err := args.json([]byte(schema))
			if err != nil || string(typed) != test.typed {
				t.Errorf("typed %s, want %s (%v)", typed, test.typed, err)
			}
		})
	}
}

func TestToolArgsWhole(t *testing.T) {
	file := filepath.Join(t.TempDir(), "args.json")
	if err := os.WriteFile(file, []byte(" {\"id\": 12345678901234567890}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, whole, stdin, want, wrong string }{
		{"literal", `{"a":1}`, "", `{"a":1}`, ""},
		{"file", "@" + file, "", `{"id": 12345678901234567890}`, ""},
		{"stdin", "-", "{}\n", `{}`, ""},
		{"no object", `[1]`, "", "", "must be a JSON object"},
		{"no JSON", `{a:1}`, "", "", "must be a JSON object"},
		{"empty stdin", "-", "", "", "standard input must be a JSON object"},
		{"missing file", "@" + file + ".no", "", "", "no such file"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			args, err := parseToolArgs(nil, test.whole, strings.NewReader(test.stdin))
			if test.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), test.wrong) || exitCode(err) != exitUsage {
					t.Fatalf("error %v (exit %d), want one with %q", err, exitCode(err), test.wrong)
				}
				return
			}
			if err != nil || string(args.whole) != test.want {
				t.Errorf("%s, want %s (%v)", args.whole, test.want, err)
			}
		})
	}
	for _, flags := range [][]string{{"novalue"}, {"=x"}, {"a:=nojson"}, {"a:={"}} {
		if _, err := parseToolArgs(flags, "", nil); exitCode(err) != exitUsage {
			t.Errorf("%q: error %v, want a usage error", flags, err)
		}
	}
	if _, err := parseToolArgs([]string{"a=1"}, "{}", nil); exitCode(err) != exitUsage {
		t.Errorf("--arg with --json: error %v, want a usage error", err)
	}
}

// TestSplitCall tells a tool's id from arguments that follow a bare --json.
func TestSplitCall(t *testing.T) {
	for _, test := range []struct {
		args     []string
		id, rest string
	}{
		{[]string{"notes:list#1"}, "notes:list#1", ""},
		{[]string{"notes:list#1", `{"a":1}`}, "notes:list#1", `{"a":1}`},
		{[]string{`{"a":1}`, "notes:list#1"}, "notes:list#1", `{"a":1}`},
		{[]string{"notes:list#1", "-"}, "notes:list#1", "-"},
		{[]string{"@file", "notes:list#1"}, "notes:list#1", "@file"},
		{[]string{"a:b", "c:d"}, "a:b", "c:d"},
		{[]string{"{}"}, "", "{}"},
	} {
		if id, rest := splitCall(test.args); id != test.id || rest != test.rest {
			t.Errorf("%q: %q and %q, want %q and %q", test.args, id, rest, test.id, test.rest)
		}
	}
}

func TestParseSelector(t *testing.T) {
	tests := []struct {
		words string // separated by |
		want  string
		wrong string
	}{
		{"", `{"type":"head"}`, ""},
		{"head", `{"type":"head"}`, ""},
		{"head|100", `{"chars":100,"type":"head"}`, ""},
		{"head|chars=100|start=50", `{"chars":100,"start":50,"type":"head"}`, ""},
		{"lines|0|20", `{"end":20,"start":0,"type":"lines"}`, ""},
		{"lines 0 20", `{"end":20,"start":0,"type":"lines"}`, ""},
		{"lines|5", `{"start":5,"type":"lines"}`, ""},
		{"rows|0|5", `{"end":5,"start":0,"type":"rows"}`, ""},
		{"rows|zero", `{"start":"zero","type":"rows"}`, ""}, // the gateway says what is wrong
		{"json_keys", `{"type":"json_keys"}`, ""},
		{"json_keys|a|b", `{"keys":["a","b"],"type":"json_keys"}`, ""},
		{"json_path|$.a[0]", `{"path":"$.a[0]","type":"json_path"}`, ""},
		{"json_path|$.a[?(@.b=='c')]", `{"path":"$.a[?(@.b=='c')]","type":"json_path"}`, ""},
		{"search|Tornado Warning|limit=3", `{"limit":3,"pattern":"Tornado Warning","type":"search"}`, ""},
		{"search|limit=3", `{"pattern":"limit=3","type":"search"}`, ""}, // the first word is the pattern
		{"table", `{"type":"table"}`, ""},
		{"table|a|b|limit=5", `{"columns":["a","b"],"limit":5,"type":"table"}`, ""},
		{"table|a,b", `{"columns":["a","b"],"type":"table"}`, ""},
		{"table a, b c", `{"columns":["a","b","c"],"type":"table"}`, ""},
		{"table|wind speed|order_by=-wind speed", `{"columns":["wind speed"],"order_by":["-wind speed"],"type":"table"}`, ""},
		{"table|columns=a,b", `{"columns":"a,b","type":"table"}`, ""},
		{"search|12", `{"pattern":"12","type":"search"}`, ""},
		{`{"type":"head","chars":7}`, `{"type":"head","chars":7}`, ""},
		{`{"type":|"head"}`, `{"type": "head"}`, ""},
		{"search", "", "needs its PATTERN"},
		{"lines|1|2|3", "", "does not take"},
		{"tail|5|numbers=true", `{"lines":5,"numbers":true,"type":"tail"}`, ""},
		{"section|3", `{"heading":3,"type":"section"}`, ""},
		{"section|How to run", `{"heading":"How to run","type":"section"}`, ""},
		{"end", "", "unknown selector"},
		{"{no", "", "not JSON"},
	}
	for _, test := range tests {
		t.Run(test.words, func(t *testing.T) {
			var words []string
			if test.words != "" {
				words = strings.Split(test.words, "|")
			}
			got, err := parseSelector(words)
			if test.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), test.wrong) || exitCode(err) != exitUsage {
					t.Fatalf("error %v, want one with %q", err, test.wrong)
				}
				return
			}
			if err != nil || string(got) != test.want {
				t.Errorf("%s, want %s (%v)", got, test.want, err)
			}
		})
	}
}

// TestResultsAreReadable: a person reads JSON on several lines, a program gets
// every byte as it came.
func TestResultsAreReadable(t *testing.T) {
	r := &toolResult{Content: []contentBlock{{Type: "text", Text: `{"n":12345678901234567890,"list":[1,{"a":"<b>"}]}`}, {Type: "text", Text: "{no JSON}"}, {Type: "text", Text: "plain"}}}
	for width, want := range map[int]string{
		0:  r.Content[0].Text + "\n{no JSON}\nplain\n",
		80: "{\n  \"n\": 12345678901234567890,\n  \"list\": [\n    1,\n    {\n      \"a\": \"<b>\"\n    }\n  ]\n}\n{no JSON}\nplain\n",
	} {
		var out strings.Builder
		a := &process{stdout: terminal{Writer: &out, width: width}}
		if err := printResult(a, r); err != nil || out.String() != want {
			t.Errorf("width %d: %v\n%s\nwant\n%s", width, err, out.String(), want)
		}
	}
}

// TestPlainOutput checks that what goes into a pipe is complete and plain, and
// that a screen is not steered by a result.
func TestPlainOutput(t *testing.T) {
	var pipe, screen strings.Builder
	rows := func() [][]cell {
		return [][]cell{{{cyan, "notes"}, {"", strings.Repeat("long ", 30)}}, {{cyan, "weather"}, {red, "x\x1b[2Jy"}}}
	}
	printTable(terminal{Writer: &pipe}, []column{{"NAME", between}, {"TEXT", ending}}, rows())
	if out := pipe.String(); strings.Contains(out, "\x1b[3") || strings.Count(out, "long") != 30 || !strings.HasPrefix(out, "NAME     TEXT\nnotes    long") {
		t.Errorf("a pipe got %q", out)
	}
	printTable(terminal{Writer: &screen, width: 40, colour: true}, []column{{"NAME", between}, {"TEXT", ending}}, rows())
	out := screen.String()
	if strings.Contains(out, "\x1b[2J") {
		t.Errorf("an escape sequence of a result reached the screen: %q", out)
	}
	if !strings.Contains(out, "…") || !strings.Contains(out, "\x1b[36mnotes\x1b[0m") {
		t.Errorf("no cut and coloured table on a screen: %q", out)
	}
}

// TestExitCodes keeps the table and the code together.
func TestExitCodes(t *testing.T) {
	seen := map[int]bool{}
	for _, e := range exitCodes {
		if seen[e.code] {
			t.Errorf("exit code %d stands twice in the table", e.code)
		}
		seen[e.code] = true
	}
	for _, code := range []int{exitOK, exitTool, exitUsage, exitUnavailable, exitRefused, exitInternal, exitInterrupted} {
		if !seen[code] {
			t.Errorf("exit code %d is not in the table", code)
		}
	}
	for err, want := range map[error]int{
		nil:                                 exitOK,
		errors.New("x"):                     exitInternal,
		errQuiet(exitTool):                  exitTool,
		failf(exitUnavailable, "gone"):      exitUnavailable,
		&gatewayError{Code: "ARGS_INVALID"}: exitUsage,
		&gatewayError{Code: "UPSTREAM_UNAVAILABLE"}: exitUnavailable,
		&gatewayError{Code: "HYDRATE_FAILED"}:       exitRefused,
	} {
		if got := exitCode(err); got != want {
			t.Errorf("%v: exit code %d, want %d", err, got, want)
		}
	}
}

func TestInherited(t *testing.T) {
	got := lineage.Inherited([]string{"PATH=/bin", "HOME=/root", "AWS_SECRET_ACCESS_KEY=x", "GITHUB_TOKEN=y", "LC_ALL=C", "XDG_CACHE_HOME=/c", "PATHS=z", "HTTPS_PROXY=p"})
	if want := "PATH=/bin HOME=/root LC_ALL=C XDG_CACHE_HOME=/c HTTPS_PROXY=p"; strings.Join(got, " ") != want {
		t.Errorf("inherited %q, want %q", got, want)
	}
}

// TestFreePort: ports come from below the range that systems give out.
func TestFreePort(t *testing.T) {
	for range 20 {
		port, err := freePort()
		if err != nil || port < firstPort || port >= lastPort {
			t.Fatalf("port %d, want one from %d to %d (%v)", port, firstPort, lastPort, err)
		}
	}
}
