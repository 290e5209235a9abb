package dispatch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/s2sp/dispatch"
)

// textOf is a result whose one block has a text.
func textOf(text string) string { return `{"content":[{"type":"text","text":` + quoted(text) + `}]}` }

const secret = "12345678901234567890"

// Whatever abstract and body are, the body does not reach the model, and goes on
// to the next tool.
func TestBodiesOfEveryShape(t *testing.T) {
	rows := `[{"_row_id":0,"n":` + secret + `}]`
	for name, c := range map[string]struct{ doc, want string }{
		"abstract is an object":     {`{"abstract":{"k":0},"body":` + rows + `}`, rows},
		"abstract is null":          {`{"abstract":null,"body":` + rows + `}`, rows},
		"abstract is a text":        {`{"abstract":"two rows","body":` + rows + `}`, rows},
		"body is an object":         {`{"abstract":[],"body":{"n":` + secret + `}}`, `{"n":` + secret + `}`},
		"body is a number":          {`{"abstract":[],"body":` + secret + `}`, secret},
		"body is a text":            {`{"abstract":[],"body":"` + secret + `"}`, secret},
		"both are JSON in texts":    {`{"abstract":"[]","body":` + quoted(rows) + `}`, rows},
		"a marked pair of texts":    {`{"total_rows":1,"abstract":"a","body":"` + secret + ` b"}`, quoted(secret + " b")},
		"in an array, marked":       {`[{"abstract_domains":[],"abstract":[],"body":` + rows + `}]`, rows},
		"NaN in the body":           {`{"abstract":[],"body":[{"n":` + secret + `,"v":NaN,"w":[-Infinity,"NaN"]}]}`, `[{"n":` + secret + `,"v":null,"w":[null,"NaN"]}]`},
		"NaN in the abstract":       {`{"abstract":[{"k":Infinity}],"body":` + rows + `}`, rows},
		"a byte order mark":         {"\ufeff" + `{"abstract":[],"body":` + rows + `}`, rows},
		"written with other spaces": {"\n{ \"abstract\" :[ ],\t\"body\": " + rows + "}\n", rows},
	} {
		forms := map[string]string{
			"text":                         textOf(c.doc),
			"resource":                     `{"content":[{"type":"resource","resource":{"uri":"x:y","text":` + quoted(c.doc) + `}}]}`,
			"nested":                       `{"content":[],"structuredContent":{"result":` + quoted(c.doc) + `}}`,
			"a text in a list":             `{"content":[],"structuredContent":{"result":["note",` + quoted(c.doc) + `]}}`,
			"a text in a list of a text":   textOf(`["note", ` + quoted(c.doc) + `]`),
			"a text in a list of lists":    `{"content":[],"structuredContent":{"result":[[1],["note",` + quoted(c.doc) + `]]}}`,
			"a text under a name":          `{"content":[],"structuredContent":{"note":"n", "page" : ` + quoted(c.doc) + `,"more":[1]}}`,
			"a text under a name in text":  textOf(`{"pages":{"one":` + quoted(c.doc) + `}}`),
			"a text under result in lists": textOf(`[{"result":` + quoted(c.doc) + `}]`),
		}
		if !strings.HasPrefix(c.doc, "\ufeff") {
			forms["structured"] = `{"content":[],"structuredContent":` + c.doc + `}`
			forms["structured, below result"] = `{"content":[],"structuredContent":{"result":` + c.doc + `}}`
		}
		for form, result := range forms {
			t.Run(name+"/"+form, func(t *testing.T) {
				d := dispatch.New(dispatch.Options{})
				defer d.Close()
				out := string(shown(t, d, []byte(result)))
				handle := handleIn(t, out)
				if err := rawjson.Valid([]byte(out)); err != nil {
					t.Errorf("%v in %s", err, out)
				}
				args, err := d.OnToolCall([]byte(`{"resource_url":` + quoted(handle) + `}`))
				if got := rawjson.Text(rawjson.Get(args, "body_data")); err != nil || got != c.want {
					t.Errorf("the next tool gets %s, %v, want %s", got, err, c.want)
				}
				if told := strings.Count(out, "were NaN") + strings.Count(out, "was NaN"); strings.Contains(name, "NaN") && form != "structured" && form != "structured, below result" && told != 1 {
					t.Errorf("told %d times of values that are null: %s", told, out)
				}
			})
		}
	}
}

// A body that cannot be read is not shown, and neither is what it stands in.
func TestUnreadableBodiesAreWithheld(t *testing.T) {
	for name, c := range map[string]struct {
		result string
		asked  bool
	}{
		"cut off":                    {textOf(`{"abstract":[],"body":[{"n":` + secret), false},
		"cut off behind the body":    {textOf(`{"abstract":[],"body":[{"n":` + secret + `}]`), false},
		"hexadecimal numbers":        {textOf(`{"abstract":[{"k":1}],"body":[{"n":0x` + secret + `}]}`), false},
		"broken before the body":     {textOf(`{"total_rows":1,"abstract":[{k:1}],"body":[{"n":` + secret + `}]}`), false},
		"as Python prints it":        {textOf(`{'total_rows': 1, 'abstract': [], 'body': [{'n': ` + secret + `}]}`), false},
		"a member twice":             {textOf(`{"abstract":[],"body":[],"body":[` + secret + `]}`), false},
		"the abstract twice":         {textOf(`{"abstract":[],"abstract":[],"body":[` + secret + `]}`), false},
		"a member twice, structured": {`{"structuredContent":{"abstract":[],"body":[],"body":[` + secret + `]}}`, false},
		"a broken result":            {`{"content":[],"structuredContent":{"total_rows":1,"abstract":[],"body":[0x` + secret + `]}}`, false},
		"two contents":               {`{"content":[],"content":[{"type":"text","text":"{\"abstract_domains\":[],\"abstract\":[],\"body\":[` + secret + `]}"}]}`, false},
		"asked for: no marks":        {textOf(`{abstract: [], body: [{n: ` + secret + `}]}`), true},
		"nested too deep":            {textOf(strings.Repeat("[", 20) + `{"total_rows":1,"abstract":[],"body":[` + secret + `]}` + strings.Repeat("]", 20)), true},
		"asked for: a list":          {textOf(`[{'abstract': [], 'body': [` + secret + `]}]`), true},
	} {
		d := dispatch.New(dispatch.Options{})
		on := d.OnToolResult
		if c.asked {
			on = d.OnSyncResult
		}
		out, err := on([]byte(c.result))
		if !errors.Is(err, dispatch.ErrBody) || out != nil || strings.Contains(fmt.Sprint(err), secret) || d.Len() != 0 {
			t.Errorf("%s: %s, %v", name, out, err)
		}
		d.Close()
	}
}

// Of a call that asked for mode sync, the two names alone decide.
func TestSyncWasAskedFor(t *testing.T) {
	d := dispatch.New(dispatch.Options{})
	defer d.Close()
	for _, doc := range []string{`{"abstract":"a","body":"` + secret + ` b"}`, `[{"abstract":[],"body":[` + secret + `]}]`, `{"page":{"abstract":[],"body":[` + secret + `]}}`, `{"pages":[["x",{"abstract":[],"body":[` + secret + `]}]]}`} {
		out, err := d.OnSyncResult([]byte(textOf(doc)))
		if err != nil {
			t.Fatal(err)
		}
		handleIn(t, string(out))
		if passed := shown(t, d, []byte(textOf(doc))); string(passed) != textOf(doc) {
			t.Errorf("unasked: %s", passed)
		}
	}
}

// Whatever a result is, it is withheld, or what is left of it is no body.
func FuzzOnToolResult(f *testing.F) {
	for _, doc := range []string{`{"abstract":[],"body":[1]}`, `{"abstract":[],"body":[NaN]}`, `{"abstract":"x","body":"y"}`, `{"result":{"abstract":{},"body":[]}}`, `[{"abstract":1,"body":2,"total_rows":3}]`, `{"abstract":[],"body":[`} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		d := dispatch.New(dispatch.Options{})
		defer d.Close()
		result := []byte(textOf(string(doc)))
		before := string(result)
		out, err := d.OnSyncResult(result)
		if string(result) != before {
			t.Fatal("the result was changed")
		}
		if err != nil || !bytes.Contains(doc, []byte("abstract")) || !bytes.Contains(doc, []byte("body")) {
			return // no server writes its names with escapes
		}
		if rawjson.Valid(out) != nil {
			t.Fatalf("%q became %q", doc, out)
		}
		var r struct{ Content []struct{ Text string } }
		var left map[string]json.RawMessage
		if json.Unmarshal(out, &r) != nil || len(r.Content) != 1 || json.Unmarshal([]byte(r.Content[0].Text), &left) != nil {
			return
		}
		if body, ok := left["body"]; ok && string(body) != "null" && left["abstract"] != nil {
			t.Fatalf("%q: a body is left in %q", doc, out)
		}
	})
}
