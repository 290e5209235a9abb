package uritemplate

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Vectors of RFC 6570, sections 1.2 and 3.2.
func TestExpand(t *testing.T) {
	values := map[string]Value{}
	for name, text := range map[string]string{
		"var": "value", "hello": "Hello World!", "path": "/foo/bar", "empty": "", "x": "1024", "y": "768", "half": "50%",
		"base": "http://example.com/home/", "who": "fred", "dub": "me/too", "v": "6", "naïve": "no name of a variable",
	} {
		values[name] = Text(text)
	}
	values["list"], values["count"] = List("red", "green", "blue"), List("one", "two", "three")
	values["dom"], values["none"], values["holes"] = List("example", "com"), List(), List("", "a")
	values["keys"], values["empty_keys"] = Pairs("semi", ";", "dot", ".", "comma", ","), Pairs()
	for template, want := range map[string]string{
		"plain":                   "plain",
		"{var}":                   "value",
		"{hello}":                 "Hello%20World%21",
		"{half}":                  "50%25",
		"O{empty}X":               "OX",
		"O{undef}X":               "OX",
		"map?{x,y}":               "map?1024,768",
		"{x,hello,y}":             "1024,Hello%20World%21,768",
		"?{x,empty}":              "?1024,",
		"?{x,undef}":              "?1024",
		"{var:3}":                 "val",
		"{var:30}":                "value",
		"{+var}":                  "value",
		"{+hello}":                "Hello%20World!",
		"{+half}":                 "50%25",
		"{base}index":             "http%3A%2F%2Fexample.com%2Fhome%2Findex",
		"{+base}index":            "http://example.com/home/index",
		"{+path}/here":            "/foo/bar/here",
		"up{+path}{var}/here":     "up/foo/barvalue/here",
		"{+path:6}/here":          "/foo/b/here",
		"{#var}":                  "#value",
		"{#path,x}/here":          "#/foo/bar,1024/here",
		"foo{#empty}":             "foo#",
		"foo{#undef}":             "foo",
		"{.who,who}":              ".fred.fred",
		"X{.empty}":               "X.",
		"{/who,dub}":              "/fred/me%2Ftoo",
		"{/var,undef}":            "/value",
		"{/var:1,var}":            "/v/value",
		"{;x,y}":                  ";x=1024;y=768",
		"{;x,y,empty}":            ";x=1024;y=768;empty",
		"{;v,undef,who}":          ";v=6;who=fred",
		"{?x,y}":                  "?x=1024&y=768",
		"{?x,y,empty}":            "?x=1024&y=768&empty=",
		"{?undef}":                "",
		"?fixed=yes{&x}":          "?fixed=yes&x=1024",
		"{&x,y,empty}":            "&x=1024&y=768&empty=",
		"{var*}{/var*}":           "value/value",
		"file:///a b/{path}":      "file:///a%20b/%2Ffoo%2Fbar",
		"repo://{who}/{v}{?x,no}": "repo://fred/6?x=1024",

		"{list}":          "red,green,blue",
		"{list*}":         "red,green,blue",
		"{keys}":          "semi,%3B,dot,.,comma,%2C",
		"{keys*}":         "semi=%3B,dot=.,comma=%2C",
		"{+list*}":        "red,green,blue",
		"{+keys}":         "semi,;,dot,.,comma,,",
		"{+keys*}":        "semi=;,dot=.,comma=,",
		"{#list*}":        "#red,green,blue",
		"{#keys*}":        "#semi=;,dot=.,comma=,",
		"www{.dom*}":      "www.example.com",
		"X{.list}":        "X.red,green,blue",
		"X{.list*}":       "X.red.green.blue",
		"X{.keys*}":       "X.semi=%3B.dot=..comma=%2C",
		"X{.empty_keys}":  "X",
		"X{.empty_keys*}": "X",
		"{/list}":         "/red,green,blue",
		"{/list*}":        "/red/green/blue",
		"{/list*,path:4}": "/red/green/blue/%2Ffoo",
		"{/keys*}":        "/semi=%3B/dot=./comma=%2C",
		"{;list}":         ";list=red,green,blue",
		"{;list*}":        ";list=red;list=green;list=blue",
		"{;keys}":         ";keys=semi,%3B,dot,.,comma,%2C",
		"{;keys*}":        ";semi=%3B;dot=.;comma=%2C",
		"{?list}":         "?list=red,green,blue",
		"{?list*}":        "?list=red&list=green&list=blue",
		"{?keys*}":        "?semi=%3B&dot=.&comma=%2C",
		"{?none*,x}":      "?x=1024",
		"{?holes*}":       "?holes=&holes=a",
		"{;holes*}":       ";holes;holes=a",
		"{&x,list*}":      "&x=1024&list=red&list=green&list=blue",
		"{&keys*}":        "&semi=%3B&dot=.&comma=%2C",
	} {
		tmpl, err := Parse(template)
		if err != nil {
			t.Errorf("%s: %v", template, err)
			continue
		}
		if got := tmpl.Expand(values); got != want {
			t.Errorf("%s: %s, want %s", template, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, template := range []string{"{", "}", "{}", "a{b", "a}b", "{+}", "{a b}", "{a,}", "{a:0}", "{a:x}", "{a:10000}", "{é}", "{a..b}", "{!a}", "{=a}", strings.Repeat("a", maxLen+1), strings.Repeat("{a%d}", 3),
		func() string {
			var b strings.Builder
			for i := range maxVars + 1 {
				fmt.Fprintf(&b, "{v%d}", i)
			}
			return b.String()
		}()} {
		if _, err := Parse(template); !errors.Is(err, errInvalid) {
			t.Errorf("%.80s: %v", template, err)
		}
	}
}

func TestVars(t *testing.T) {
	tmpl, err := Parse("a://{b}/{+c}{?d,e*,b}{#f}{;d}")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(tmpl.Vars()); got != "[{b false false} {c false false} {d true false} {e true true} {f true false}]" {
		t.Error(got)
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct{ template, uri, want string }{
		{"file:///{name}", "file:///a.txt", "map[name:a.txt]"},
		{"file:///{name}", "file:///a/b", ""},
		{"file:///{name}", "file:///", ""},
		{"file:///{+path}", "file:///a/b%20c", "map[path:a/b c]"},
		{"db://{table}/{id}", "db://users/7", "map[id:7 table:users]"},
		{"db://{table}/{id}", "db://users", ""},
		{"q://x{?a,b}", "q://x", "map[]"},
		{"q://x{?a,b}", "q://x?a=1&b=2", "map[a:1 b:2]"},
		{"q://x{?a,b}", "q://x?b=2", "map[b:2]"},
		{"x{/a,b}", "x/1/2", "map[a:1 b:2]"},
		{"x{/a,b}", "x/1", "map[a:1]"},
		{"{a}-{a}", "1-1", "map[a:1]"},
		{"{a}-{a}", "1-2", ""},
		{"a.b", "axb", ""},
		{"q://x{?a*}", "q://x?a=1&a=2%2C3", "map[a:1,2,3]"},
		{"q://x{?a*,b}", "q://x?a=1&a=2&b=3", "map[a:1,2 b:3]"},
		{"q://x{?a*}", "q://x?k=1&l=2", "map[a:k=1,l=2]"},
		{"q://x{?a*}", "q://x", "map[]"},
		{"q://x{?a*}", "q://x/y?a=1", ""},
		{"x{/a*}", "x/1/2", "map[a:1,2]"},
		{"x{.a*}", "x.1.k=2", "map[a:1,k=2]"},
		{"x{;a*}", "x;a;a=2", "map[a:,2]"},
	} {
		tmpl, err := Parse(c.template)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if values, ok := tmpl.Match(c.uri); ok {
			got = fmt.Sprint(values)
		}
		if got != c.want {
			t.Errorf("%s on %s: %s, want %s", c.template, c.uri, got, c.want)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add("repo://{owner}/{name}{?ref}", "a/b", "c d")
	f.Add("{+a}{#b}{/c:3}{;d*}{&e}", "é%", "")
	f.Fuzz(func(t *testing.T, template, first, second string) {
		tmpl, err := Parse(template)
		if err != nil {
			return
		}
		values := map[string]Value{}
		for i, v := range tmpl.Vars() {
			values[v.Name] = []Value{Text(first), Text(second), List(first, second), Pairs(first, second), Pairs()}[i%5]
		}
		uri := tmpl.Expand(values)
		for i := range len(uri) {
			if c := uri[i]; c <= ' ' || c > '~' {
				t.Fatalf("%q made %q", template, uri)
			}
		}
		tmpl.Match(uri)
		tmpl.Match(first)
	})
}

func ExampleTemplate_Expand() {
	t, err := Parse("repo://{owner}/{name}{?ref}")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t.Expand(map[string]Value{"owner": Text("weir-mcp"), "name": Text("weir")}))
	fmt.Println(t.Match("repo://weir-mcp/weir?ref=main"))
	// Output:
	// repo://weir-mcp/weir
	// map[name:weir owner:weir-mcp ref:main] true
}
