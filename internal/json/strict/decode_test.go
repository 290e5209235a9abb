package strict

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// settings has a field of every kind.
type settings struct {
	Name     string            `key:"name"`
	Token    Secret            `key:"token"`
	On       bool              `key:"on" default:"true"`
	Maybe    *bool             `key:"maybe"`
	Attempts int               `key:"max_attempts" default:"3" min:"1" max:"10"`
	Share    float64           `key:"share"`
	Wait     time.Duration     `key:"wait" default:"30s" min:"1s"`
	Room     Bytes             `key:"room" max:"10MB"`
	Mode     string            `key:"mode" default:"slow" enum:"slow,fast"`
	Words    []string          `key:"words"`
	Tokens   []Secret          `key:"tokens"`
	Env      map[string]string `key:"env"`
	Limit    limit             `key:"limit" flag:"enabled" text:"at"`
	Rules    []rule            `key:"rules"`
	Servers  []*entry          `key:"servers" name:"Name" entries:"true"`
	Raw      *Node             `key:"raw"`
	Own      upper             `key:"own"`
	All      []string          `key:"all" empty:"none"`
	Some     []string          `key:"some" empty:"refused"`
	shared
}

type limit struct {
	Enabled bool   `key:"enabled" default:"false"`
	At      string `key:"at"`
	Place   Place
}

type rule struct {
	Tool   string `key:"tool"`
	Action string `key:"action" default:"deny"`
}

type entry struct {
	Name string
	URL  string `key:"url"`
}

type shared struct {
	Note string `key:"note"`
}

// upper reads itself.
type upper string

func (u *upper) DecodeStrict(d *Decoder, n *Node, path string) {
	text, ok := d.Text(n, path)
	if !ok {
		return
	}
	if text == "no" {
		d.Fail(n, path, "%s is a refusal", path)
	}
	*u = upper(strings.ToUpper(text))
}

// decode reads a file into settings with their defaults.
func decode(t *testing.T, o Options, file string) (settings, *Decoder) {
	t.Helper()
	root, err := Read("a.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	o.File = "a.yaml"
	d := NewDecoder(o)
	var s settings
	SetDefaults(&s)
	if root != nil {
		d.Decode(root, "", &s)
	}
	return s, d
}

func lines(problems []Problem) string {
	problems = slices.Clone(problems)
	slices.SortStableFunc(problems, ByPlace)
	return (&Error{problems}).Error()
}

func TestDecode(t *testing.T) {
	s, d := decode(t, Options{}, `
name: files
token: s3cret
on: false
maybe: true
max_attempts: 0x7
share: 0.25
wait: 1.5
room: 1.5 KiB
mode: fast
words: [a, 1, true, 2026-11-01]
tokens: [x]
env: {A: b, C: 4}
limit: {enabled: true, at: noon}
rules:
- {tool: drop}
- {tool: read, action: allow}
servers:
  one: {url: "https://one.example"}
  two: {}
raw: {deep: [1]}
own: loud
all: []
note: shared
`)
	if got := lines(append(d.Problems(), d.Warnings()...)); got != "" {
		t.Fatal(got)
	}
	maybe := true
	want := settings{
		Name: "files", Token: "s3cret", Maybe: &maybe, Attempts: 7, Share: .25, Wait: 1500 * time.Millisecond, Room: 1536, Mode: "fast",
		Words: []string{"a", "1", "true", "2026-11-01"}, Tokens: []Secret{"x"}, Env: map[string]string{"A": "b", "C": "4"},
		Limit: limit{Enabled: true, At: "noon", Place: s.Limit.Place}, Rules: []rule{{"drop", "deny"}, {"read", "allow"}},
		Servers: []*entry{{"one", "https://one.example"}, {"two", ""}}, Raw: s.Raw, Own: "LOUD", All: []string{}, shared: shared{"shared"},
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got\n%+v\nwant\n%+v", s, want)
	}
	if raw, err := JSON(s.Raw); err != nil || string(raw) != `{"deep":[1]}` {
		t.Errorf("raw %s, %v", raw, err)
	}
	if s.Limit.Place.Path != "limit" || s.Limit.Place.Node.Line != 14 {
		t.Errorf("place %+v", s.Limit.Place)
	}
	for path, line := range map[string]int{"name": 2, "limit.at": 14, "rules[1].action": 17, "servers.two": 20, "env.C": 13} {
		if !d.Set(path) || d.At(path).Line != line {
			t.Errorf("%s: %+v, want line %d", path, d.At(path), line)
		}
	}
	if d.Set("some") || d.At("some") != nil || d.Bad("name") || len(d.Places()) < 20 {
		t.Error("places of keys that are not there")
	}
}

// TestDecodeDefaults: what a file leaves out, or leaves empty, has the default of its tag.
func TestDecodeDefaults(t *testing.T) {
	for _, file := range []string{"", "name: files\nmax_attempts:\nrules:\n"} {
		s, d := decode(t, Options{}, file)
		if s.Attempts != 3 || s.Wait != 30*time.Second || !s.On || s.Mode != "slow" || s.Rules != nil || len(d.Problems()) > 0 {
			t.Errorf("%q: %+v, %v", file, s, d.Problems())
		}
	}
}

// TestDecodeInPlaceOfAnObject: true, false or a text stand for one key of an object.
func TestDecodeInPlaceOfAnObject(t *testing.T) {
	for file, want := range map[string]limit{"limit: true": {Enabled: true}, "limit: false": {}, "limit: noon": {At: "noon"}} {
		s, d := decode(t, Options{}, file)
		if s.Limit.Enabled != want.Enabled || s.Limit.At != want.At || len(d.Problems()) > 0 || d.Set("limit.at") != (want.At != "") {
			t.Errorf("%s: %+v, %v", file, s.Limit, d.Problems())
		}
	}
	if _, d := decode(t, Options{}, "limit:\n"); lines(d.Warnings()) != "a.yaml:1:1: limit has nothing behind it, so it sets nothing; write limit: {} to switch it on" {
		t.Error(lines(d.Warnings()))
	}
}

// TestDecodeSaysWhatIsWrong: every mistake with its place, what was expected, and what was probably meant. A value that is
// wrong keeps its default.
func TestDecodeSaysWhatIsWrong(t *testing.T) {
	for _, tt := range []struct{ file, want string }{
		{"nmae: x", `1:1: unknown key "nmae"; did you mean "name"?`},
		{"max-attempts: 3", `1:1: unknown key "max-attempts"; did you mean "max_attempts"?`},
		{"limit: {att: x}", `1:9: unknown key "att" in limit; did you mean "at"?`},
		{"rules: [{zzz: x}]", `1:10: unknown key "zzz" in rules[0]; known keys: tool, action`},
		{"name: a\nname: b", `2:1: duplicate key "name"; it is set on line 1 already`},
		{"? [a]\n: b", `1:3: a key must be a text, not a list`},
		{"name: [a]", `1:7: name must be a text, not a list`},
		{"name: ~", ""},
		{"words: [~]", `1:9: words[0] must be a text, not nothing; write "" for an empty text`},
		{"words: one", `1:8: words must be a list of texts, not the text "one"; put it in [ ]`},
		{"tokens: s3cret", `1:9: tokens must be a list of texts, not a text; put it in [ ]`},
		{"tokens: [{a: b}]", `1:10: tokens[0] must be a text, not a mapping`},
		{"env: s3cret", `1:6: env must be a mapping, not a text`},
		{"on: maybe", `1:5: on must be true or false, not the text "maybe"`},
		{`on: "true"`, `1:5: on must be true or false, not the text "true"`},
		{"max_attempts: 1.5", `1:15: max_attempts must be a whole number, not the number 1.5`},
		{"max_attempts: 0", `1:15: max_attempts must be at least 1, not "0"`},
		{"max_attempts: 11", `1:15: max_attempts must be at most 10, not "11"`},
		{"share: true", `1:8: share must be a number, not true`},
		{`wait: "30"`, `1:7: wait: "30" has no unit; write 30s, or the number of seconds without quotes`},
		{"wait: soon", `1:7: wait must be a duration such as "30s", or a number of seconds, not the text "soon"`},
		{"wait: 10ms", `1:7: wait must be at least 1s, not "10ms"`},
		{"room: 11MB", `1:7: room must be at most 10MB, not "11MB"`},
		{"room: much", `1:7: room must be a size such as "10MB", or a number of bytes, not the text "much"`},
		{"mode: fsat", `1:7: mode must be "slow" or "fast", not "fsat"; did you mean "fast"?`},
		{"mode: 1", `1:7: mode must be "slow" or "fast", not "1"`},
		{"rules: {tool: x}", `1:8: rules must be a list of mappings, not a mapping`},
		{"rules: [x]", `1:9: rules[0] must be a mapping, not a text`},
		{"servers: [x]", `1:10: servers must be a mapping, not a list`},
		{"limit: [1]", `1:8: limit must be a mapping, not a list`},
		{"own: no", `1:6: own is a refusal`},
		{"all:\n", `1:1: all has nothing behind it; write a list, or leave the key out, which has another meaning than an empty list`},
		{"some: []", `1:7: some is empty; name at least one, or leave the key out, which has another meaning`},
		{"name: !!binary aGk=", `1:7: name must be a text, not a value with the tag !!binary`},
		{"name: \"a\\nb\"\nmode: \"a\\nb\"", `2:7: mode must be "slow" or "fast", not "a\nb"`},
	} {
		s, d := decode(t, Options{}, tt.file)
		want := tt.want
		if want != "" {
			want = "a.yaml:" + want
		}
		if got := lines(d.Problems()); got != want {
			t.Errorf("%q:\ngot  %s\nwant %s", tt.file, got, want)
		}
		if strings.Contains(lines(d.Problems()), "s3cret") {
			t.Errorf("%q: a secret in a message", tt.file)
		}
		if s.Wait == 0 && !strings.HasPrefix(tt.file, "wait: 10ms") || !slices.Contains([]string{"slow", "fsat", "1", "a\nb"}, s.Mode) {
			t.Errorf("%q: the defaults are gone: %+v", tt.file, s)
		}
	}
	if d := NewDecoder(Options{}); d.Decode(&Node{Kind: 8, Tag: "!!str", Value: "x"}, "", &settings{}) || lines(d.Problems()) != `the file must be a mapping, not the text "x"` {
		t.Error(lines(d.Problems()))
	}
}

// TestDecodeEntries: what is wrong within one entry is kept apart, so that the others count.
func TestDecodeEntries(t *testing.T) {
	s, d := decode(t, Options{}, "servers:\n  bad: {ulr: x}\n  good: {url: y}\n  none: text\n  good: {}\n")
	if len(d.Problems()) > 0 || len(s.Servers) != 3 || s.Servers[1].URL != "y" {
		t.Errorf("%v, %+v", d.Problems(), s.Servers)
	}
	for path, want := range map[string]string{
		"servers.bad":  `a.yaml:2:9: unknown key "ulr" in servers.bad; did you mean "url"?`,
		"servers.none": `a.yaml:4:9: servers.none must be a mapping, not the text "text"`,
		"servers.good": `a.yaml:5:3: duplicate key "good" in servers; it is set on line 3 already`,
	} {
		if got := lines(d.Faults(path)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	calls := ""
	_, d = decode(t, Options{Entry: func(_ *Node, path string, v any, decode func()) {
		decode()
		calls += path + "=" + v.(*entry).URL + " "
	}}, "servers: {a: {url: x}, b: {url: y}}")
	if calls != "servers.a=x servers.b=y " || d.Entry() != "" {
		t.Errorf("%q, in %q", calls, d.Entry())
	}
}

// TestDecodeLenient: in a file of another program, a key that weir does not know is a warning, and values may be spelled as
// that program does.
func TestDecodeLenient(t *testing.T) {
	s, d := decode(t, Options{Lenient: true, Quoted: true}, "mode: F-ast\nmax_attempts: \"4\"\non: \"false\"\nzzz: 1\nnmae: x\n")
	if s.Mode != "fast" || s.Attempts != 4 || s.On || len(d.Problems()) > 0 {
		t.Errorf("%+v, %v", s, d.Problems())
	}
	want := "a.yaml:4:1: unknown key \"zzz\"; it is ignored\na.yaml:5:1: unknown key \"nmae\"; did you mean \"name\"?"
	if got := lines(d.Warnings()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestDecodeHooks: keys are renamed, unknown ones and texts are the caller's, and a text with a variable may be a number.
func TestDecodeHooks(t *testing.T) {
	var unknown, secrets []string
	s, d := decode(t, Options{
		Rename: func(p Pair, _ *Node, path string, _ reflect.Type) Pair {
			if path == "" && p.Key.Value == "title" {
				key := *p.Key
				key.Value = "name"
				p.Key = &key
			}
			return p
		},
		Unknown: func(p Pair, path string, _ reflect.Type) { unknown = append(unknown, Join(path, p.Key.Value)) },
		Text: func(n *Node, path string, secret bool) (string, bool) {
			if secret {
				secrets = append(secrets, path)
			}
			return strings.ReplaceAll(n.Value, "$N", "5"), true
		},
		Plain: func(name string) bool { return name == "HOME" },
	}, "title: a$N\nmax_attempts: $N\nother: 1\ntoken: t\nenv: {HOME: x, KEY: y}\n")
	if s.Name != "a5" || s.Attempts != 5 || fmt.Sprint(unknown) != "[other]" || fmt.Sprint(secrets) != "[token env.KEY]" || len(d.Problems()) > 0 {
		t.Errorf("%+v, unknown %v, secrets %v, %v", s, unknown, secrets, d.Problems())
	}
	_, d = decode(t, Options{Synonym: func(key string) string { return map[string]string{"tries": "max_attempts"}[key] }}, "tries: 3")
	if got := lines(d.Problems()); !strings.Contains(got, `did you mean "max_attempts"?`) {
		t.Error(got)
	}
}

// TestMergeKeys: YAML's merge keys add what a mapping does not set, and neither circles nor multiplying aliases go on for
// long.
func TestMergeKeys(t *testing.T) {
	s, d := decode(t, Options{}, "env: &base {A: a, B: b}\nlimit: &l {at: noon}\nservers:\n  x: {<<: {url: far}}\nrules:\n- {<<: [{tool: a}, {tool: b, action: allow}]}\n")
	if len(d.Problems()) > 0 || s.Servers[0].URL != "far" || s.Rules[0] != (rule{"a", "allow"}) {
		t.Errorf("%v, %+v", d.Problems(), s.Rules)
	}
	for file, want := range map[string]string{
		"limit: {<<: text}":         `a merge key in limit must name a mapping, not the text "text"`,
		"limit: &l {<<: *l, at: x}": `a merge key in limit leads back to its own mapping`,
	} {
		if _, d := decode(t, Options{}, file); !strings.Contains(lines(d.Problems()), want) {
			t.Errorf("%s: %s", file, lines(d.Problems()))
		}
	}
	deep := "{at: x}"
	for range maxMerges + 1 {
		deep = "{<<: " + deep + "}"
	}
	if _, d := decode(t, Options{}, "limit: "+deep); !strings.Contains(lines(d.Problems()), "refer to one another more than 16 deep") {
		t.Error(lines(d.Problems()))
	}
	var laughs strings.Builder
	laughs.WriteString("raw:\n- &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 7 {
		fmt.Fprintf(&laughs, "- &a%d [%s]\n", i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 10), ","))
	}
	if _, d := decode(t, Options{}, laughs.String()); len(d.Problems()) > 0 {
		t.Errorf("a value that is kept as it stands is not walked: %s", lines(d.Problems()))
	}
	many := "words: [" + strings.Repeat("x,", maxValues) + "x]\nrules: [{tool: x}]"
	if _, d := decode(t, Options{}, many); !strings.Contains(lines(d.Problems()), "stands for more than 500000 values") {
		t.Errorf("%.200s", lines(d.Problems()))
	}
}

// TestProblemsAreBounded: a file of mistakes has no message for each.
func TestProblemsAreBounded(t *testing.T) {
	_, d := decode(t, Options{}, "words: ["+strings.Repeat("[],", 3*maxProblems)+"[]]")
	if n := len(d.Problems()); n != maxProblems {
		t.Errorf("%d problems", n)
	}
}

func TestEqual(t *testing.T) {
	none, empty := settings{}, settings{Words: []string{}, Env: map[string]string{}}
	for _, tt := range []struct {
		a, b settings
		same bool
	}{
		{none, none, true}, {none, empty, true}, {none, settings{Name: "x"}, false}, {settings{Words: []string{"a"}}, settings{Words: []string{"b"}}, false},
		{none, settings{All: []string{}}, false}, // all, and none
		{settings{Limit: limit{At: "x"}}, settings{Limit: limit{At: "x"}}, true}, {settings{Limit: limit{At: "x"}}, none, false},
	} {
		if got := Equal(reflect.ValueOf(tt.a), reflect.ValueOf(tt.b)); got != tt.same {
			t.Errorf("%+v and %+v: %t", tt.a, tt.b, got)
		}
	}
}

func TestFieldsReadTheirDefaults(t *testing.T) {
	kinds := map[string]Kind{}
	for _, f := range Fields(reflect.TypeFor[settings]()) {
		kinds[f.Key] = f.Kind()
		if f.Default != "" && !f.Reads(f.Default) {
			t.Errorf("%s does not read its default %q", f.Key, f.Default)
		}
	}
	want := map[string]Kind{
		"name": KindText, "token": KindSecret, "on": KindBool, "maybe": KindBool, "max_attempts": KindInt, "share": KindNumber, "wait": KindDuration, "room": KindBytes, "mode": KindText,
		"words": KindTexts, "tokens": KindTexts, "env": KindMap, "limit": KindObject, "rules": KindObjects, "servers": KindNamed, "raw": KindNode, "own": KindOwn, "all": KindTexts, "some": KindTexts, "note": KindText,
	}
	if !reflect.DeepEqual(kinds, want) {
		t.Errorf("%v", kinds)
	}
	if Fields(reflect.TypeFor[settings]())[4].Reads("many") {
		t.Error("a number that is a word")
	}
}

// TestSecretsShowNothing: no way to print a secret shows it.
func TestSecretsShowNothing(t *testing.T) {
	s := Secret("s3cret")
	text, _ := s.MarshalText()
	yamlForm, _ := s.MarshalYAML()
	for _, got := range []string{fmt.Sprint(s), fmt.Sprintf("%q %x %#v", s, s, s), fmt.Sprintf("%+v", settings{Token: s}), s.LogValue().String(), string(text), fmt.Sprint(yamlForm)} {
		if strings.Contains(got, "s3cret") || strings.Contains(got, "733363") {
			t.Errorf("%q", got)
		}
	}
	if s.Reveal() != "s3cret" {
		t.Error(s.Reveal())
	}
}
