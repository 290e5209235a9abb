package api

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/ipc"

	_ "github.com/weir-mcp/weir/s2sp/columnar" // the forms that are tested
	"github.com/weir-mcp/weir/s2sp/table"
)

// fetch asks for a file and returns the answer, or the panic that ends the connection.
func fetch(a *API, w http.ResponseWriter, target string) (panicked any) {
	defer func() { panicked = recover() }()
	r := httptest.NewRequest(http.MethodGet, Path+target, nil)
	r.Header.Set("X-Principal", "ann")
	a.ServeHTTP(w, r)
	return nil
}

// TestSave: the rows that fit, in each form, and what is kept byte for byte.
func TestSave(t *testing.T) {
	w := newWorld(t)
	c := w.serve(t)
	kept, err := w.store.Put(t.Context(), "ann", "application/json", "rows", []byte(`[{"a":"x,\"y\"","n":12345678901234567890},{"a":"b","n":2},{"a":null,"n":1}]`))
	if err != nil {
		t.Fatal(err)
	}
	secret, err := w.store.Put(t.Context(), "bob", "text/plain", "text", []byte("of bob"))
	if err != nil {
		t.Fatal(err)
	}
	at := "artifacts/" + kept.Handle + "/file?"
	where := "where=" + url.QueryEscape(`[{"column":"n","op":"lt","value":5}]`) + "&order_by=n"
	for query, want := range map[string][2]string{
		"":           {"text/csv; charset=utf-8", "a,n\n\"x,\"\"y\"\"\",12345678901234567890\nb,2\n,1\n"},
		"format=csv": {"text/csv; charset=utf-8", "a,n\n\"x,\"\"y\"\"\",12345678901234567890\nb,2\n,1\n"},
		"format=tsv&" + url.Values{"columns": {`["n"]`}}.Encode():                            {"text/tab-separated-values; charset=utf-8", "n\n12345678901234567890\n2\n1\n"},
		"format=json&" + strings.Replace(where, "=n", "="+url.QueryEscape(`["n"]`), 1):       {"application/json", `[{"a":null,"n":1},{"a":"b","n":2}]`},
		"format=ndjson&" + url.Values{"order_by": {`[{"column":"n","desc":true}]`}}.Encode(): {"application/x-ndjson", "{\"a\":\"x,\\\"y\\\"\",\"n\":12345678901234567890}\n{\"a\":\"b\",\"n\":2}\n{\"a\":null,\"n\":1}\n"},
		"format=csv&" + url.Values{"aggregate": {`[{"op":"sum","column":"n"}]`}}.Encode():    {"text/csv; charset=utf-8", "sum_n\n12345678901234567893\n"},
		"format=sheet&" + url.Values{"columns": {`["a"]`}}.Encode():                          {"text/csv; charset=utf-8", "a\n\"x,\"\"y\"\"\"\nb\n\"\"\n"},
		"format=bytes": {"application/json", `[{"a":"x,\"y\"","n":12345678901234567890},{"a":"b","n":2},{"a":null,"n":1}]`},
	} {
		got := httptest.NewRecorder()
		if p := fetch(c, got, at+query); p != nil || got.Code != 200 || got.Header().Get("Content-Type") != want[0] || got.Body.String() != want[1] {
			t.Errorf("%s: status %d, %s, %q, %v", query, got.Code, got.Header().Get("Content-Type"), got.Body, p)
		}
		if h := got.Header(); h.Get("Content-Disposition") != "attachment" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%s: headers are %v", query, h)
		}
	}
	got := httptest.NewRecorder()
	fetch(c, got, at+"format=arrow")
	stream, err := ipc.NewReader(bytes.NewReader(got.Body.Bytes()))
	if err != nil || !stream.Next() || stream.RecordBatch().NumRows() != 3 || got.Header().Get("Weir-Rows") != "3" {
		t.Errorf("Arrow: %v, %v", err, got.Header())
	}

	got = httptest.NewRecorder()
	fetch(c, got, at+"format=parquet")
	file, err := table.Detect(got.Body.Bytes(), table.DetectOptions{})
	if err != nil || got.Header().Get("Content-Type") != "application/vnd.apache.parquet" || string(file.View().AppendJSON(nil)) != `[{"a":"x,\"y\"","n":12345678901234567890},{"a":"b","n":2},{"a":null,"n":1}]` {
		t.Errorf("Parquet: %v, %v", err, got.Header())
	}

	for query, want := range map[string]struct {
		status int
		part   string
	}{
		at + "format=xlsx":                        {400, "csv, sheet, tsv, json, ndjson, arrow, parquet, bytes"},
		at + "format=bytes&columns=%5B%22n%22%5D": {400, "takes no columns"},
		at + "columns=n":                          {400, "columns must be JSON"},
		at + "columns=%5B%22zz%22%5D":             {400, "zz"},
		at + "where=%5B%7B%22column%22%3A1%7D%5D": {400, "where"},
		"artifacts/" + secret.Handle + "/file":    {404, "no artifact"},
		"artifacts/art_none/file?format=bytes":    {404, "no artifact"},
	} {
		got := httptest.NewRecorder()
		fetch(c, got, query)
		if got.Code != want.status || !strings.Contains(got.Body.String(), want.part) || strings.Contains(got.Body.String(), "of bob") {
			t.Errorf("%s: status %d, %s", query, got.Code, got.Body)
		}
	}
}

// TestSaveEndsMidway: a file that cannot be written to its end is no whole answer.
func TestSaveEndsMidway(t *testing.T) {
	w := newWorld(t)
	c := w.serve(t)
	kept, err := w.store.Put(t.Context(), "ann", "application/json", "rows", []byte("["+strings.Repeat(`{"a":1},`, 200_000)+`{"a":2}]`))
	if err != nil {
		t.Fatal(err)
	}
	broken := &brokenWriter{ResponseRecorder: httptest.NewRecorder(), left: 2}
	if p := fetch(c, broken, "artifacts/"+kept.Handle+"/file?format=json"); p != http.ErrAbortHandler { //nolint:errorlint // a panic's value
		t.Errorf("it ends with %v", p)
	}
	if broken.left >= 0 {
		t.Error("it was written in few parts: ", fmt.Sprint(broken.left))
	}
}

// brokenWriter fails after some writes.
type brokenWriter struct {
	*httptest.ResponseRecorder
	left int
}

func (b *brokenWriter) Write(p []byte) (int, error) {
	if b.left--; b.left < 0 {
		return 0, errors.New("the connection is closed")
	}
	return b.ResponseRecorder.Write(p)
}
