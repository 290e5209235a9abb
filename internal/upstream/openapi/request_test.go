package openapi

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestStyles writes one value in each style that OpenAPI has for parameters, by the examples of its specification.
func TestStyles(t *testing.T) {
	const (
		one    = `"blue"`
		array  = `["blue","black","brown"]`
		object = `{"R":100,"G":200,"B":150}`
	)
	for _, c := range []struct {
		in, style           string
		explode             bool
		one, array, objects string
	}{
		{"path", "simple", false, "blue", "blue,black,brown", "R,100,G,200,B,150"},
		{"path", "simple", true, "blue", "blue,black,brown", "R=100,G=200,B=150"},
		{"path", "label", false, ".blue", ".blue,black,brown", ".R,100,G,200,B,150"},
		{"path", "label", true, ".blue", ".blue.black.brown", ".R=100.G=200.B=150"},
		{"path", "matrix", false, ";color=blue", ";color=blue,black,brown", ";color=R,100,G,200,B,150"},
		{"path", "matrix", true, ";color=blue", ";color=blue;color=black;color=brown", ";R=100;G=200;B=150"},
		{"query", "form", false, "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"},
		{"query", "form", true, "color=blue", "color=blue&color=black&color=brown", "R=100&G=200&B=150"},
		{"query", "spaceDelimited", false, "color=blue", "color=blue%20black%20brown", "color=R%20100%20G%20200%20B%20150"},
		{"query", "pipeDelimited", false, "color=blue", "color=blue%7Cblack%7Cbrown", "color=R%7C100%7CG%7C200%7CB%7C150"},
		{"query", "deepObject", true, "color=blue", "color=blue&color=black&color=brown", "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"},
	} {
		p := param{name: "color", in: c.in, style: c.style, explode: c.explode}
		for value, want := range map[string]string{one: c.one, array: c.array, object: c.objects} {
			got := ""
			if c.in == "path" {
				got = p.inPath(json.RawMessage(value))
			} else {
				got = strings.Join(p.inQuery(json.RawMessage(value)), "&")
			}
			if got != want {
				t.Errorf("%s of %s, explode %v, is %s; expected %s", value, c.style, c.explode, got, want)
			}
		}
	}
	whole := param{name: "q", in: "query", json: true}
	if got := strings.Join(whole.inQuery(json.RawMessage(`{"a":[1]}`)), "&"); got != "q=%7B%22a%22%3A%5B1%5D%7D" {
		t.Errorf("a parameter of JSON is %s", got)
	}
}

// TestBodies writes one value in each media type that is no form.
func TestBodies(t *testing.T) {
	for _, c := range []struct{ media, value, body, sent string }{
		{"application/json", `{"a":9007199254740993}`, `{"a":9007199254740993}`, "application/json"},
		{"application/merge-patch+json", `{"a":null}`, `{"a":null}`, "application/merge-patch+json"},
		{"text/plain", `"a\nb"`, "a\nb", "text/plain"},
		{"application/xml", `"<a/>"`, "<a/>", "application/xml"},
		{"application/octet-stream", `"AAEC"`, "\x00\x01\x02", "application/octet-stream"},
		{"*/*", `"AAEC"`, "\x00\x01\x02", "application/octet-stream"},
		{formMedia, `{"a":[1,2],"b":{"c":"d&e"}}`, "a=1&a=2&b%5Bc%5D=d%26e", formMedia},
	} {
		b := body{arg: "body", media: c.media}
		data, media, err := b.encode(json.RawMessage(c.value))
		if err != nil || string(data) != c.body || media != c.sent {
			t.Errorf("%s in %s is %q in %s, %v", c.value, c.media, data, media, err)
		}
	}
}

// TestSchemas converts schemas of both versions.
func TestSchemas(t *testing.T) {
	for _, c := range []struct{ version, schema, want string }{
		{"3.0.3", `{"type":"string","nullable":true,"enum":["a"]}`, `{"enum":["a",null],"type":["string","null"]}`},
		{"3.0.3", `{"nullable":true,"allOf":[{"type":"object"}]}`, `{"anyOf":[{"allOf":[{"type":"object"}]},{"type":"null"}]}`},
		{"3.0.3", `{"type":"number","maximum":9,"exclusiveMaximum":true,"minimum":1,"exclusiveMinimum":false}`, `{"exclusiveMaximum":9,"minimum":1,"type":"number"}`},
		{"3.0.3", `{"$ref":"#/s","description":"not counted"}`, `{"$ref":"#/$defs/s"}`},
		{"3.1.0", `{"$ref":"#/s","description":"counted"}`, `{"$ref":"#/$defs/s","description":"counted"}`},
		{"3.1.0", `{"type":["string","null"],"const":null,"example":1,"x-a":2,"discriminator":{}}`, `{"const":null,"type":["string","null"]}`},
		{"3.1.0", `{"type":"array","prefixItems":[{"type":"string"}],"items":false}`, `{"items":false,"prefixItems":[{"type":"string"}],"type":"array"}`},
		{"3.1.0", `{"if":{"const":1},"then":{"type":"integer"},"else":true}`, `{"else":true,"if":{"const":1},"then":{"type":"integer"}}`},
		{"3.1.0", `{"type":"file","required":true,"pattern":"(?!a)","minLength":-1,"minimum":"1","enum":"a"}`, `{}`},
		{"3.1.0", `{"properties":{"id":{"readOnly":true},"a":{"writeOnly":true}},"required":["id","a","a"]}`, `{"properties":{"a":{}},"required":["a"]}`},
		{"3.1.0", `{"type":"string","format":"binary"}`, `{"contentEncoding":"base64","type":"string"}`},
		{"3.1.0", `{"$ref":"https://other.example/schema"}`, `{}`},
		{"3.1.0", `{"$ref":"#/none"}`, `{}`},
	} {
		d, err := parse([]byte(`{"openapi":"` + c.version + `","s":{"type":"string"}}`))
		if err != nil {
			t.Fatal(err)
		}
		schema, err := parse([]byte(`{"openapi":"3.1.0","schema":` + c.schema + `}`))
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(newSchemas(d, 1).convert(schema.root["schema"], 0))
		if err != nil || string(got) != c.want {
			t.Errorf("%s of %s is %s, %v; expected %s", c.schema, c.version, got, err, c.want)
		}
	}
}

// FuzzDocument makes tools of any document, and a request of each tool: nothing panics, each schema is JSON, and no
// request leaves the host of the configuration.
func FuzzDocument(f *testing.F) {
	for _, seed := range []string{
		`{"openapi":"3.0.0","paths":{"/a/{b}":{"get":{"parameters":[{"name":"b","in":"path","schema":{"$ref":"#/paths"}}]}}}}`,
		`{"openapi":"3.1.0","paths":{"//evil.example":{"post":{"requestBody":{"content":{"multipart/form-data":{"schema":{"properties":{"f":{"format":"binary"}}}}}}}}}}`,
		"openapi: 3.1.0\npaths:\n  '@evil.example/':\n    get: {operationId: '', tags: [1], parameters: [{in: query}, 1, null]}\n  /b?c#d: {put: {$ref: '#/paths/x'}}\n200: {1: 2}\n",
	} {
		f.Add([]byte(seed))
	}
	base, err := url.Parse("https://api.example.com/v1")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := parse(data)
		if err != nil {
			return
		}
		ops, _ := d.operations(&Options{Base: base.String()})
		for _, op := range ops {
			if !json.Valid(op.tool) {
				t.Fatalf("the tool of %q is no JSON: %s", op.path, op.tool)
			}
			args := map[string]string{}
			for _, p := range op.params {
				args[p.arg] = "x"
			}
			raw, _ := json.Marshal(args)
			r, err := op.request(t.Context(), base, http.Header{"Authorization": {"Bearer t"}}, raw)
			if err != nil {
				continue
			}
			if r.URL.Host != base.Host || r.URL.User != nil || !strings.HasPrefix(r.URL.Path, base.Path) || r.Host != base.Host {
				t.Fatalf("a request of %q leaves the host: %s", op.path, r.URL)
			}
			if r.Body != nil {
				_, _ = io.Copy(io.Discard, r.Body)
			}
		}
	})
}
