package openapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/internal/upstream/openapi"
	"github.com/weir-mcp/weir/mcp"
)

func TestMain(m *testing.M) { leak.Main(m) }

const shop = "testdata/shop.yaml"

// mock is an API that refuses requests which do not fit its document, and keeps the last one.
type mock struct {
	t      *testing.T
	router routers.Router
	url    string

	mu   sync.Mutex // guards below
	last *http.Request
	body []byte
}

func newMock(t *testing.T) *mock {
	d, err := openapi3.NewLoader().LoadFromFile(shop)
	if err != nil {
		t.Fatal(err)
	}
	m := &mock{t: t}
	srv := httptest.NewServer(m)
	t.Cleanup(srv.Close)
	m.url = srv.URL + "/v1"
	d.Servers = openapi3.Servers{{URL: m.url}}
	if m.router, err = legacy.NewRouter(d); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *mock) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	m.mu.Lock()
	m.last, m.body = r.Clone(context.Background()), body
	m.mu.Unlock()
	r.URL.Scheme, r.URL.Host = "http", r.Host
	route, params, err := m.router.FindRoute(r)
	if err == nil {
		err = openapi3filter.ValidateRequest(r.Context(), &openapi3filter.RequestValidationInput{
			Request: r, PathParams: params, Route: route, Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
		})
	}
	if err != nil {
		m.t.Errorf("%s %s does not fit the document: %v", r.Method, r.URL, err)
		w.WriteHeader(http.StatusTeapot)
		return
	}
	answer := func(status int, media, body string) {
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
	switch r.Method + " " + route.Path {
	case "GET /pets/{petId}":
		answer(200, "application/json; charset=utf-8", `{"id":9007199254740993,"name":"Rex"}`)
	case "PUT /pets/{petId}":
		w.WriteHeader(http.StatusNoContent)
	case "DELETE /pets/{petId}":
		answer(404, "application/problem+json", `{"title":"No such pet","detail":"It was sold."}`)
	case "POST /pets/{petId}/picture":
		answer(200, "image/png", "\x89PNG")
	case "GET /export":
		answer(200, "application/zip", "PK\x03\x04")
	case "GET /events":
		w.Header().Set("Content-Type", "text/event-stream")
		for line := []byte("data: " + strings.Repeat("x", 1000) + "\n\n"); r.Context().Err() == nil; {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	default:
		answer(200, "application/json", `[{"a":1},{"a":2}]`)
	}
}

// request returns the last request and its body.
func (m *mock) request() (*http.Request, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last, string(m.body)
}

func open(t *testing.T, o openapi.Options) *openapi.API {
	t.Helper()
	if o.Document == "" {
		o.Document = shop
	}
	if o.MaxResponse == 0 {
		o.MaxResponse = 1 << 20
	}
	o.Name = `upstream "shop"`
	a, err := openapi.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// tools returns the definitions by their names.
func tools(t *testing.T, a *openapi.API) map[string]json.RawMessage {
	t.Helper()
	raw, err := a.Call(t.Context(), "tools/list", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]json.RawMessage{}
	if err := rawjson.EachElement(rawjson.Get(raw, "tools"), func(tool []byte) bool {
		out[rawjson.Text(rawjson.Get(tool, "name"))] = tool
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func call(t *testing.T, a *openapi.API, tool, arguments string) (string, error) {
	t.Helper()
	raw, err := a.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"`+tool+`","arguments":`+arguments+`}`), nil)
	return string(raw), err
}

// TestCalls makes requests of arguments; the API refuses all that its document does not allow.
func TestCalls(t *testing.T) {
	m := newMock(t)
	a := open(t, openapi.Options{Base: m.url + "?key=s3cret", Header: http.Header{"X-Api-Key": {"k3y"}, "Authorization": {"Bearer t0ken"}}})
	for _, c := range []struct{ tool, args, uri, body, result string }{
		{"pets_get", `{"petId":"a/b c","fields":["x","y,z"],"tag":["1","2"],"filter":{"color":"red","max":3},"X-Trace":"t1","visit":"v&1"}`,
			"/v1/pets/a%2Fb%20c?key=s3cret&fields=x,y%2Cz&tag=1&tag=2&filter%5Bcolor%5D=red&filter%5Bmax%5D=3", "",
			`{"content":[{"type":"text","text":"{\"id\":9007199254740993,\"name\":\"Rex\"}"}],"structuredContent":{"id":9007199254740993,"name":"Rex"}}`},
		{"pets_put", `{"petId":"1","body":{"name":null,"price":12345678901234567890}}`, "/v1/pets/1?key=s3cret", `{"name":null,"price":12345678901234567890}`,
			`{"content":[{"type":"text","text":"HTTP 204 No Content"}]}`},
		{"pets_delete", `{"petId":"1"}`, "/v1/pets/1?key=s3cret", "",
			`{"content":[{"type":"text","text":"HTTP 404 Not Found: No such pet: It was sold."},{"type":"text","text":"{\"title\":\"No such pet\",\"detail\":\"It was sold.\"}"}],"isError":true}`},
		{"orders_create", `{"body":{"pet":7,"note":"a&b=c"}}`, "/v1/orders?key=s3cret", "pet=7&note=a%26b%3Dc",
			`{"content":[{"type":"text","text":"[{\"a\":1},{\"a\":2}]"}]}`},
		{"export", `{}`, "/v1/export?key=s3cret", "",
			`{"content":[{"type":"resource","resource":{"uri":"answer:/v1/export","mimeType":"application/zip","blob":"UEsDBA=="}}]}`},
		{"post_pets__petId__picture", `{"petId":"1","body":{"picture":"iVBORw==","caption":"Rex","place":{"x":1.5}}}`, "/v1/pets/1/picture?key=s3cret", "*",
			`{"content":[{"type":"image","data":"iVBORw==","mimeType":"image/png"}]}`},
	} {
		result, err := call(t, a, c.tool, c.args)
		if err != nil || result != c.result {
			t.Errorf("%s: %v, %s; expected %s", c.tool, err, result, c.result)
			continue
		}
		r, body := m.request()
		if r.RequestURI != c.uri || body != c.body && c.body != "*" {
			t.Errorf("%s sent %s %q; expected %s %q", c.tool, r.RequestURI, body, c.uri, c.body)
		}
		if r.Header.Get("X-Api-Key") != "k3y" || r.Header.Get("Authorization") != "Bearer t0ken" {
			t.Errorf("%s was sent without the configured headers: %v", c.tool, r.Header)
		}
		if strings.Contains(result, "s3cret") || strings.Contains(result, "k3y") {
			t.Errorf("%s: a secret is in the result %s", c.tool, result)
		}
	}
	if r, body := m.request(); !strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") || !strings.Contains(body, "filename=\"picture\"\r\nContent-Type: application/octet-stream\r\n\r\n\x89PNG") {
		t.Errorf("the form is %q", body)
	}
	result, err := call(t, a, "events", `{}`)
	if err != nil || !strings.Contains(result, "The stream is cut after 262144 bytes.") || len(result) > 400<<10 {
		t.Errorf("a stream without an end: %v, %d bytes", err, len(result))
	}
}

// TestRefusals has calls that reach no API, and answers beyond the bound.
func TestRefusals(t *testing.T) {
	m := newMock(t)
	a := open(t, openapi.Options{Base: m.url, MaxResponse: 10})
	for _, c := range []struct{ tool, args, want string }{
		{"pets_delete", `{"petId":".."}`, "stands in the path"},
		{"pets_delete", `{}`, "stands in the path"},
		{"pets_delete", `{"petId":"1","force":true}`, "no argument"},
		{"export", `{"body":1}`, "no argument"},
		{"pets_none", `{}`, "no operation"},
		{"pets_get", `{"petId":"1","X-Trace":"a\r\nb: c"}`, "one line"},
		{"post_pets__petId__picture", `{"petId":"1","body":{"picture":"%"}}`, "not base64"},
	} {
		_, err := call(t, a, c.tool, c.args)
		if kind, _ := mcp.KindOf(err); err == nil || kind != mcp.KindInvalidParams || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v", c.tool, c.args, err)
		}
	}
	if r, _ := m.request(); r != nil {
		t.Errorf("the API was asked for %s", r.URL)
	}
	if _, err := call(t, a, "orders_create", `{"body":{"pet":1}}`); err == nil || !strings.Contains(err.Error(), "more than 10 bytes") || errors.Is(err, mcp.ErrNotSent) {
		t.Errorf("an answer beyond the bound: %v", err)
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	a = open(t, openapi.Options{Base: gone.URL + "?key=s3cret"})
	if _, err := call(t, a, "export", `{}`); !errors.Is(err, mcp.ErrNotSent) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("an API that is not there: %v", err)
	}
}

// TestTools has the definitions: names, schemas, hints, and the operations that patterns leave.
func TestTools(t *testing.T) {
	all := tools(t, open(t, openapi.Options{Base: "https://api.example.com", Header: http.Header{"X-Api-Key": {"k3y"}}}))
	for tool, hints := range map[string]string{
		"pets_get":      `{"idempotentHint":true,"openWorldHint":true,"readOnlyHint":true}`,
		"pets_put":      `{"destructiveHint":true,"idempotentHint":true,"openWorldHint":true,"readOnlyHint":false}`,
		"pets_delete":   `{"destructiveHint":true,"idempotentHint":true,"openWorldHint":true,"readOnlyHint":false}`,
		"orders_create": `{"idempotentHint":false,"openWorldHint":true,"readOnlyHint":false}`,
	} {
		if got := string(rawjson.Get(all[tool], "annotations")); got != hints {
			t.Errorf("%s has the hints %s; expected %s", tool, got, hints)
		}
	}
	for _, c := range []struct {
		tool, value string
		ok          bool
	}{
		{"pets_get", `{"petId":"1","filter":{"max":1}}`, true},
		{"pets_get", `{}`, false},
		{"pets_get", `{"petId":"1","X-Api-Key":"mine"}`, false}, // of the configuration
		{"pets_get", `{"petId":"1","X-Trace":"01234567890"}`, false},
		{"pets_put", `{"petId":"1"}`, false},
		{"pets_put", `{"petId":"1","body":{"name":null,"mother":null,"children":[{"name":"x","mother":{"name":"y"}}]}}`, true},
		{"pets_put", `{"petId":"1","body":{"name":"x","price":0}}`, false},
		{"pets_put", `{"petId":"1","body":{"name":"x","children":[{"name":1}]}}`, false},
	} {
		schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(rawjson.Get(all[c.tool], "inputSchema")))
		if err != nil {
			t.Fatal(err)
		}
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource("mem:tool", schema); err != nil {
			t.Fatal(err)
		}
		value, _ := jsonschema.UnmarshalJSON(strings.NewReader(c.value))
		if err := compiler.MustCompile("mem:tool").Validate(value); (err == nil) != c.ok {
			t.Errorf("%s with %s: %v", c.tool, c.value, err)
		}
	}
	for _, c := range []struct{ include, exclude, want string }{
		{"", "", "events export orders_create pets_delete pets_get pets_put post_pets__petId__picture"},
		{"tag:pets", "", "pets_get pets_put"},
		{"GET *", "", "events export pets_get"},
		{"/pets/*", "tag:p*", "pets_delete"},
		{"orders.*", "", "orders_create"},
	} {
		names := []string{}
		patterns := func(p string) []string { return slices.DeleteFunc([]string{p}, func(p string) bool { return p == "" }) }
		for name := range tools(t, open(t, openapi.Options{Base: "https://api.example.com", Include: patterns(c.include), Exclude: patterns(c.exclude)})) {
			names = append(names, name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("include %q and exclude %q leave %s; expected %s", c.include, c.exclude, got, c.want)
		}
	}
}

// TestDocuments has documents that cannot be used, and ones that are hostile.
func TestDocuments(t *testing.T) {
	dir := t.TempDir()
	at := func(text string) string {
		name := filepath.Join(dir, "doc.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for text, want := range map[string]string{
		`{"swagger":"2.0"}`:  "Swagger 2.0",
		`{"openapi":"4.0"}`:  "version 3.x",
		`{"openapi":`:        "not JSON",
		"a: [":               "not YAML",
		"just text":          "version 3.x",
		`{"asyncapi":"3.0"}`: "version 3.x",
	} {
		_, err := openapi.Open(t.Context(), openapi.Options{Name: "x", Document: at(text), Base: "https://api.example.com"})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := openapi.Open(t.Context(), openapi.Options{Name: "x", Document: filepath.Join(dir, "none.yaml"), Base: "https://api.example.com"}); err == nil || strings.Contains(err.Error(), dir) {
		t.Errorf("a file that is not there: %v", err)
	}
	deep := `{"openapi":"3.1.0","paths":{"/a":{"post":{"requestBody":{"content":{"application/json":{"schema":` +
		strings.Repeat(`{"type":"array","items":`, 5000) + `{}` + strings.Repeat(`}`, 5000) + `}}}},"get":{"$ref":"#/paths/~1a/get"},` +
		`"put":{"parameters":[{"name":"q","in":"query","schema":{"$ref":"#/components/schemas/A"}},{"$ref":"https://evil.example/x"}]}}},` +
		`"components":{"schemas":{"A":{"$ref":"#/components/schemas/A"}}}}`
	all := tools(t, open(t, openapi.Options{Document: at(deep), Base: "https://api.example.com"}))
	if len(all) != 2 || len(all["post_a"]) > 4<<10 {
		t.Errorf("%d tools, the deep one of %d bytes", len(all), len(all["post_a"]))
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/doc" {
			http.NotFound(w, r)
			return
		}
		http.ServeFile(w, r, shop)
	}))
	t.Cleanup(srv.Close)
	if n := len(tools(t, open(t, openapi.Options{Document: srv.URL + "/doc?key=s3cret", Base: "https://api.example.com"}))); n != 7 {
		t.Errorf("%d tools of a document at a URL", n)
	}
	if _, err := openapi.Open(t.Context(), openapi.Options{Name: "x", Document: srv.URL + "/none?key=s3cret", Base: "https://api.example.com"}); err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "HTTP 404") {
		t.Errorf("a document that is not there: %v", err)
	}
}
