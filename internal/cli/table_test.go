package cli

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestTableErrorsTellNoSecrets: neither a password nor a token in a URL is in what
// is told of an answer that is none.
func TestTableErrorsTellNoSecrets(t *testing.T) {
	code := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
	defer server.Close()
	base := strings.Replace(server.URL, "://", "://ann:secret@", 1)
	a := &process{lookupEnv: func(string) (string, bool) { return "", false }, stdout: terminal{Writer: &bytes.Buffer{}}}
	for _, tt := range []struct {
		code       int
		what, want string
	}{
		{http.StatusUnauthorized, "art_1", "bearer token"},
		{http.StatusUnauthorized, base + "/s2sp/data/secret", "bearer token"},
		{http.StatusOK, "art_1", "something else than a weir gateway"},
	} {
		code = tt.code
		err := runTable(a, t.Context(), target{url: base + "/mcp"}, tableRequest{what: tt.what, format: formatCSV})
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d for %s: %v", tt.code, tt.what, err)
		}
	}
}

// TestMessagesOfAGatewayTellNoPassword: the password of a --url is in no message
// about what is beside it.
func TestMessagesOfAGatewayTellNoPassword(t *testing.T) {
	for _, answer := range []struct {
		code       int
		body, want string
	}{
		{http.StatusUnauthorized, "", "bearer token"},
		{http.StatusNotFound, "", "404"},
		{http.StatusOK, "no JSON", "something else than a weir gateway"},
		{http.StatusOK, `{"status":"ok"}`, "bearer token"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(answer.code)
			_, _ = w.Write([]byte(answer.body)) // the test sees what has come
		}))
		at := strings.Replace(server.URL, "://", "://ann:secret@", 1) + "/mcp"
		_, err := fetchHealth(t.Context(), at, "")
		server.Close()
		if err == nil || !strings.Contains(err.Error(), answer.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d %q: %v", answer.code, answer.body, err)
		}
		if _, err := fetchHealth(t.Context(), at, ""); err == nil || !strings.Contains(err.Error(), "cannot reach") || strings.Contains(err.Error(), "secret") {
			t.Errorf("nobody answers: %v", err)
		}
	}
}

// TestTableOfAnotherServer: whatever a server sends, rows are counted, and what is
// particular about them is told.
func TestTableOfAnotherServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/s2sp/data/rows":
			io.WriteString(w, `{"body":[{"a":null,"_row_id":0,"b":""},{"_row_id":1,"a":NaN,"b":"x\ty"},{"a":7}],"total_rows":3}`)
		case "/s2sp/data/none":
			io.WriteString(w, `{"body":[],"total_rows":0,"columns_returned":["_row_id","a"]}`)
		case "/s2sp/data/cut":
			io.WriteString(w, `{"body":[{"_row_id":0},`)
		case "/s2sp/data/down":
			w.WriteHeader(http.StatusServiceUnavailable)
			io.WriteString(w, `{"error":"reading the disk"}`)
		}
	}))
	defer server.Close()
	for what, c := range map[string]struct{ want, notes, wrong string }{
		"rows csv":    {"_row_id,a,b\n0,,\"\"\n1,,\"x\ty\"\n", "1 value was NaN", ""},
		"rows tsv":    {"_row_id\ta\tb\n0\t\t\"\"\n1\t\t\"x\ty\"\n", "1 row without _row_id left out", ""},
		"rows json":   {`[{"_row_id":0,"a":null,"b":""},{"_row_id":1,"a":null,"b":"x\ty"}]` + "\n", "no column \"c\"", ""},
		"rows ndjson": {`{"_row_id":0,"a":null,"b":""}` + "\n" + `{"_row_id":1,"a":null,"b":"x\ty"}` + "\n", "", ""},
		"none csv":    {"_row_id,a\n", "", ""},
		"none tsv":    {"_row_id\ta\n", "", ""},
		"none json":   {"[]\n", "", ""},
		"none ndjson": {"", "", ""},
		"cut json":    {"", "", "ends early"},
		"cut csv":     {"", "", "ends early"},
		"down csv":    {"", "", "reading the disk"},
	} {
		name, format, _ := strings.Cut(what, " ")
		var out, notes bytes.Buffer
		a := &process{lookupEnv: func(string) (string, bool) { return "", false }, stdout: terminal{Writer: &out}, stderr: terminal{Writer: &notes}}
		err := runTable(a, t.Context(), target{}, tableRequest{what: server.URL + "/s2sp/data/" + name, format: format, columns: "a,b,c"})
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: %v, want %q", what, err, c.wrong)
			}
			continue
		}
		if err != nil || out.String() != c.want || !strings.Contains(notes.String(), c.notes) {
			t.Errorf("%s: %q, %v\nnotes %s", what, out.String(), err, notes.String())
		}
	}
	for name, want := range map[string]string{"": formatCSV, "x": formatCSV, "x.CSV": formatCSV, "a/x.tsv": formatTSV, "x.json": formatJSON, "x.jsonl": formatNDJSON, "x.arrow": formatArrow} {
		if got, err := formatOfFile(name); err != nil || got != want {
			t.Errorf("%q: %s, %v", name, got, err)
		}
	}
}
