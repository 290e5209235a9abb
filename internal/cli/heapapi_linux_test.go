package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMemoryOfTheAPI: the bound of TestMemoryOfReferences holds for each path and method of the API, as its own
// description lists them, with a body of 9 MB and a long query, and for a kept result with the parameters that
// multiply most.
func TestMemoryOfTheAPI(t *testing.T) {
	l := newLoad(t)
	var description struct {
		Paths map[string]map[string]json.RawMessage
	}
	answer := l.do(l.api("GET", "/api/v1/openapi.json", nil)())
	if err := json.Unmarshal([]byte(answer), &description); err != nil || len(description.Paths) < 20 {
		t.Fatalf("%d paths, %v", len(description.Paths), err)
	}
	long := bytes.Repeat([]byte("a long text of words "), 9<<20/21)
	body := slices.Concat([]byte(`{"text":"`), long, []byte(`"}`))
	query := "?q=" + strings.Repeat("word+", 1_500)
	var all []sent
	for path, methods := range description.Paths {
		for method := range methods {
			method = strings.ToUpper(method)
			if !slices.Contains([]string{"GET", "POST", "PUT", "PATCH", "DELETE"}, method) {
				continue
			}
			at := path
			if method != "DELETE" {
				at = strings.NewReplacer("{handle}", l.table, "{server}", "up", "{name}", "up").Replace(path)
			}
			at = regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(at, "x")
			if !strings.HasPrefix(at, "/api/") {
				at = "/api/v1" + at
			}
			if method == "GET" {
				all = append(all, sent{method + " " + path, l.api(method, at+query, nil)})
			} else {
				all = append(all, sent{method + " " + path, l.api(method, at, body)})
			}
		}
	}
	slices.SortFunc(all, func(a, b sent) int { return strings.Compare(a.name, b.name) })
	for _, q := range []string{
		"/file?format=csv", "/file?format=ndjson", "/file?format=arrow", "/file?format=sheet", `/file?order_by=["-t","a","id"]`,
		`?limit=100&order_by=["-t","a","id"]`, `?limit=100&group_by=["id"]`,
		`?limit=100&group_by=["id"]&aggregate=[{"op":"max","column":"t","as":"b"},{"op":"max","column":"a","as":"c"},{"op":"count_distinct","column":"a","as":"d"}]`,
	} {
		path, query, _ := strings.Cut(q, "?")
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		next := l.api("GET", "/api/v1/artifacts/"+l.table+path+"?"+values.Encode(), nil)
		if rows := l.do(next()); len(rows) < 1_000 {
			t.Fatalf("%s: %.300s", q, rows)
		}
		all = append(all, sent{"table" + q, next})
	}
	for _, format := range []string{"csv", "sheet", "json", "ndjson", "arrow"} {
		all = append(all, sent{"a wide row as " + format, l.api("GET", "/api/v1/artifacts/"+l.wide+"/file?format="+format, nil)})
	}
	for _, s := range all {
		for _, atOnce := range []int{1, 16} {
			l.drive(s, atOnce)
		}
	}
}

// TestMemoryOfTheDataPlane: the same holds for fetches of rows, most of them without a token of a caller: of a row
// of 250 MB at another server, of a table that is kept, and of nothing, with a body of 9 MB.
func TestMemoryOfTheDataPlane(t *testing.T) {
	large := bytes.Repeat([]byte(`{"columns":["a"],"row_ids":[0]} `), 9<<20/32)
	for name, next := range map[string]func(l *load) *http.Request{
		"a row of a server": func(l *load) *http.Request {
			answer := l.do(l.run("divided", `,"args":{"abstract_domains":"a","mode":"async"}`)())
			return l.api("POST", l.plane(answer), []byte(`{}`))()
		},
		"a kept table": func(l *load) *http.Request {
			return l.api("POST", l.plane(l.do(l.api("POST", "/s2sp/offer/"+l.table, []byte(`{}`))())), []byte(`{}`))()
		},
		"a large selection": func(l *load) *http.Request {
			return l.api("POST", l.plane(l.do(l.api("POST", "/s2sp/offer/"+l.table, []byte(`{}`))())), large)()
		},
		"a large offer":      func(l *load) *http.Request { return l.api("POST", "/s2sp/offer/"+l.table, large)() },
		"a large body there": func(l *load) *http.Request { return l.api("POST", "/s2sp/data/"+strings.Repeat("x", 43), large)() },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoad(t)
			for _, atOnce := range []int{1, 16} {
				l.drive(sent{name, func() *http.Request { return next(l) }}, atOnce)
			}
		})
	}
}

// plane returns the path of the URL of rows in an answer.
func (l *load) plane(answer string) string {
	l.t.Helper()
	path := regexp.MustCompile(`/s2sp/data/[0-9A-Za-z_-]+`).FindString(answer)
	if path == "" {
		l.t.Fatalf("there is no URL of rows in %.500s", answer)
	}
	return path
}

// api returns a request of a path of the gateway.
func (l *load) api(method, path string, body []byte) func() *http.Request {
	return func() *http.Request {
		req, err := http.NewRequest(method, l.base+path, bytes.NewReader(body))
		if err != nil {
			l.t.Fatal(err)
		}
		if body != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		return req
	}
}
