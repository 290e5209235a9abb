package markup

import (
	"os"
	"strings"
	"testing"
)

func rendered(t *testing.T, source string, values Values) string {
	t.Helper()
	var b strings.Builder
	if err := New(source).Write(&b, values); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func Example() {
	page := New(`<ul>{{each servers}}<li title="{{note}}">{{name}}{{if failed}} (failed){{end}}</li>{{end}}</ul>` + "\n")
	_ = page.Write(os.Stdout, Values{"servers": []Values{{"name": "files", "note": `"a" & b`}, {"name": "<web>", "failed": true}}})
	// Output:
	// <ul><li title="&#34;a&#34; &amp; b">files</li><li title="">&lt;web&gt; (failed)</li></ul>
}

func TestWrite(t *testing.T) {
	for name, tt := range map[string]struct {
		source string
		values Values
		want   string
	}{
		"a text":                  {`<p>{{a}}</p>`, Values{"a": `<script>"'&` + "\x00"}, "<p>&lt;script&gt;&#34;&#39;&amp;\uFFFD</p>"},
		"nothing":                 {`<p>{{a}}{{each b}}x{{end}}</p>`, nil, `<p></p>`},
		"a value of a list":       {`{{each l}}{{a}}{{b}} {{end}}`, Values{"a": "1", "b": "2", "l": []Values{{}, {"b": "3"}}}, "12 13 "},
		"else":                    {`{{if a}}yes{{else}}no{{end}}`, Values{"a": ""}, "no"},
		"a list that is not":      {`{{if a}}yes{{else}}no{{end}}`, Values{"a": []Values{}}, "no"},
		"a list":                  {`{{if a}}yes{{else}}no{{end}}`, Values{"a": []Values{{}}}, "yes"},
		"inside":                  {`{{if a}}{{if b}}x{{end}}y{{end}}`, Values{"a": true, "b": false}, "y"},
		"an address":              {`<a href="{{a}}">`, Values{"a": "https://x/?a=b&c=d"}, `<a href="https://x/?a=b&amp;c=d">`},
		"a path":                  {`<a href="{{a}}">`, Values{"a": "/connect/a:b"}, `<a href="/connect/a:b">`},
		"an address that runs":    {`<a class="x" href="{{a}}">`, Values{"a": "javascript:alert(1)"}, `<a class="x" href="#">`},
		"the same with space":     {`<a href="{{a}}">`, Values{"a": " JavaScript:alert(1)"}, `<a href="#">`},
		"a part of an address":    {`<a href="/x/{{a}}">`, Values{"a": "javascript:1"}, `<a href="/x/javascript:1">`},
		"an address that goes on": {`<a href="{{a}}/x/{{b}}?q={{b}}">`, Values{"a": "javascript:1", "b": "1:2"}, `<a href="#/x/1:2?q=1:2">`},
		"a nonce":                 {`<style nonce="{{n}}">a { b: "c" }</style>{{n}}`, Values{"n": "1"}, `<style nonce="1">a { b: "c" }</style>1`},
		"a script":                {"<script nonce=\"{{n}}\">if (a < b && 'c') {}</script><p>{{n}}</p>", Values{"n": "1"}, "<script nonce=\"1\">if (a < b && 'c') {}</script><p>1</p>"},
	} {
		if got := rendered(t, tt.source, tt.values); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// A source with a value where escaping does not protect is refused.
func TestNewRefuses(t *testing.T) {
	for _, source := range []string{
		`<script>{{a}}</script>`, `<style>{{a}}</style>`, `<p {{a}}>`, `<p class={{a}}>`, `<p class='{{a}}'>`, `<p onclick="{{a}}">`, `<p style="{{a}}">`,
		`<{{a}}>`, `<p{{if a}} hidden{{end}}>`, `{{if a}}x`, `{{each a}}x{{else}}y{{end}}`, `x{{end}}`, `{{a`, `<p "x">`,
		`<a href="{{a}}{{b}}">`, `<a href="java{{a}}">`, `<a href="{{a}}:x">`, `<a data-x=href="{{a}}">`, `<form action="x{{a}}">`,
		`<meta http-equiv="refresh" content="{{a}}">`, `<object data="{{a}}">`, `<a ping="{{a}}">`, `<use xlink:href="{{a}}">`,
		`{{}}`, `{{ a }}`, `{{.a}}`, `{{if}}x{{end}}`, `{{each }}x{{end}}`, `{{if a}}x{{end a}}`, "<script\tx=\"1\">{{a}}</script>",
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is accepted", source)
				}
			}()
			New(source)
		}()
	}
}
