package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// hostileTexts are values that parameters, names and members of bodies get.
var hostileTexts = []string{
	"", " ", "0", "-1", "1e9", "99999999999999999999", "NaN", "null", "true", "[]", "{}", `{"a":`, "../../../../etc/passwd", "..%2f..", "a/b", "a\x00b", "a\r\nX-Evil: 1", "\xff\xfe", "\u202e", hostile,
	strings.Repeat("é", 3000), strings.Repeat("[", 5000), "${HOME}", "' OR 1=1 --", "%", "*", ".", "ABCDEFGH.1", "18446744073709551615",
}

// TestHostileValues asks each operation of the OpenAPI document with wrong and hostile values in each of
// its parameters, in its path and in each member of its body. No answer is a failure of the gateway, each
// one fits the schema of the document, and no value comes back as a header.
func TestHostileValues(t *testing.T) {
	a, concrete := whole(t)
	document, schemaOf := schemasOf(t, a)
	asked := 0
	for _, r := range a.routes() {
		if r.stream != "" {
			continue
		}
		schemas := map[bool]*jsonschema.Schema{true: schemaOf(&r, "200", "application/json"), false: schemaOf(&r, "default", "application/json")}
		ask := func(path, body string) {
			asked++
			one := request(r.method, "x", body)
			one.URL.Path, one.URL.RawQuery, _ = strings.Cut(Path+path, "?")
			w := httptest.NewRecorder()
			a.ServeHTTP(w, one)
			if w.Code >= http.StatusInternalServerError && w.Code != http.StatusServiceUnavailable {
				t.Errorf("%s %.80q with %.80q: %d %.300s", r.method, path, body, w.Code, w.Body)
			}
			if len(w.Header()["X-Evil"]) > 0 || w.Code/100 == 3 {
				t.Errorf("%s %.80q: %d, headers %v", r.method, path, w.Code, w.Header())
			}
			if w.Code/100 == 3 || w.Header().Get("Content-Type") != "application/json" {
				return
			}
			got, err := jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes()))
			if err != nil {
				t.Errorf("%s %.80q: %v in %.300q", r.method, path, err, w.Body)
				return
			}
			if strings.ContainsAny(w.Body.String(), "\u202e\u2028") {
				t.Errorf("%s %.80q: the answer has invisible characters", r.method, path)
			}
			if err := schemas[w.Code == http.StatusOK].Validate(got); err != nil && r.path != "mcp" {
				t.Errorf("%s %.80q with %.80q: %d %v", r.method, path, body, w.Code, err)
			}
		}
		usual := ""
		if r.body != nil {
			if usual = bodies[r.path]; usual == "" {
				usual = "{}"
			}
		}
		for _, value := range hostileTexts {
			if i := strings.Index(r.path, "{"); i >= 0 {
				end := i + strings.Index(r.path[i:], "}") + 1
				if name := strings.ReplaceAll(value, "?", ""); name != "" && !strings.Contains(name, "/") && name != "." && !strings.Contains(name, "..") {
					ask(r.path[:i]+name+r.path[end:], usual)
				}
			}
			for _, p := range r.query {
				if p[0] == "follow" {
					continue // it answers until the caller goes
				}
				path, _, _ := strings.Cut(concrete(r.path), "?")
				ask(path+"?"+url.Values{p[0]: {value}}.Encode(), usual)
				ask(path+"?"+url.Values{p[0]: {value, value}}.Encode(), usual)
			}
		}
		if r.body == nil {
			continue
		}
		for _, body := range []string{"", "null", "[]", "7", `"x"`, "{", `{"unknown":1}`, `{} {}`, strings.Repeat("[", 20000), `{"a":"` + strings.Repeat("x", 100_000) + `"}`} {
			ask(concrete(r.path), body)
		}
		for _, member := range membersOf(t, document, &r) {
			for _, value := range append([]string{`null`, `true`, `-1`, `1e400`, `[]`, `{}`, `[[[{}]]]`}, quoted(hostileTexts)...) {
				ask(concrete(r.path), `{`+quoted([]string{member})[0]+`:`+value+`}`)
			}
		}
	}
	if asked < 3000 {
		t.Errorf("only %d requests", asked)
	}
}

// quoted returns texts as JSON.
func quoted(all []string) []string {
	out := make([]string, len(all))
	for i, one := range all {
		raw, _ := json.Marshal(one) // of a text
		out[i] = string(raw)
	}
	return out
}

// membersOf returns the members of the body of a route, by the document.
func membersOf(t *testing.T, document any, r *route) (names []string) {
	t.Helper()
	at := func(v any, keys ...string) any {
		for _, key := range keys {
			one, _ := v.(map[string]any)
			v = one[key]
		}
		return v
	}
	schema := at(document, "paths", Path+r.path, strings.ToLower(r.method), "requestBody", "content", "application/json", "schema")
	if ref, ok := at(schema, "$ref").(string); ok {
		schema = at(document, "components", "schemas", strings.TrimPrefix(ref, "#/components/schemas/"))
	}
	properties, _ := at(schema, "properties").(map[string]any)
	for name := range properties {
		names = append(names, name)
	}
	return names
}
