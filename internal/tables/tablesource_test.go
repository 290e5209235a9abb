package tables_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/tables"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/s2sp/table"
)

// elsewhere is a harness whose tool native.alerts keeps its rows at a data plane
// of its own, on loopback.
type elsewhere struct {
	*served
	there *artifact.Local
	asked []string // of the data plane
	fail  http.HandlerFunc
}

func newElsewhere(t *testing.T, rows string) *elsewhere {
	t.Helper()
	h := &elsewhere{served: newServed(t, metatool.Options{Tables: tables.Options{Reach: func(string) tables.Reach { return tables.ReachRelay }}}), there: artifact.NewMemory(artifact.Options{MaxBytes: 1 << 30})}
	t.Cleanup(func() { h.there.Close() })
	handler := plane.Handler(h.there, plane.HandlerOptions{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h.asked = append(h.asked, string(body))
		if h.fail != nil {
			h.fail(w, r)
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	h.Add("native", func(ctx context.Context, _ json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
		t, err := table.Index([]byte(rows), table.Options{})
		if err != nil {
			return nil, err
		}
		token, err := h.there.Deposit(ctx, "x", "x", t, 0)
		if err != nil {
			return nil, err
		}
		return json.RawMessage(calltest.Text(`{"total_rows":3,"columns":["event","wind"],"abstract_domains":["event"],"body_domains":["wind"],"resource_url":"` + plane.URL(server.URL, token.Value) + `","abstract":[]}`)), nil
	}, nativeTool)
	h.Add("math", calltest.Echo, calltest.SumTool)
	return h
}

// url is a resource_url of the gateway for the rows.
func (h *elsewhere) url(t *testing.T) string {
	t.Helper()
	s := h.Execute(t, "native", "alerts", "{}", `,"abstract_domains":"event"`)
	url := rawjson.Text(rawjson.Get([]byte(s.Content[0].Text), "resource_url"))
	if !strings.HasPrefix(url, h.served.url) {
		t.Fatalf("%s", s.Content[0].Text)
	}
	return url
}

const threeStorms = `[{"event":"Wind","wind":1},{"event":"Flood","wind":2},{"event":"Wind","wind":3}]`

// Of a table that is elsewhere, $table asks for what it needs, once, and only
// when the call is made.
func TestTableReferenceAsksForWhatItNeeds(t *testing.T) {
	for args, want := range map[string]struct{ args, asked string }{
		`{"rows":{"$table":"U","row_ids":[2,0]}}`:                     {`{"rows":[{"event":"Wind","wind":1},{"event":"Wind","wind":3}]}`, `{"row_ids":[2,0]}`},
		`{"rows":{"$table":"U","row_ids":[2,0],"columns":["event"]}}`: {`{"rows":[{"event":"Wind"},{"event":"Wind"}]}`, `{"row_ids":[2,0],"columns":["event"]}`},
		`{"rows":{"$table":"U","row_ids":[0,1],"columns":["event"]},"nested":{"$table":"U","row_ids":[2],"columns":["_row_id","wind"]}}`: {
			`{"rows":[{"event":"Wind"},{"event":"Flood"}],"nested":[{"_row_id":2,"wind":3}]}`, `{"row_ids":[0,1,2],"columns":["event","_row_id","wind"]}`},
		`{"rows":{"$table":"U","row_ids":[0,1]},"nested":{"$table":"U","columns":["wind"]}}`: {
			`{"rows":[{"event":"Wind","wind":1},{"event":"Flood","wind":2}],"nested":[{"wind":1},{"wind":2},{"wind":3}]}`, `{}`},
	} {
		h := newElsewhere(t, threeStorms)
		args = strings.ReplaceAll(args, "U", h.url(t))
		h.Execute(t, "math", "sum", args, `,"dry_run":true`)
		if len(h.asked) != 0 {
			t.Errorf("%s: a dry run asks for %s", args, h.asked)
		}
		if s := h.Execute(t, "math", "sum", args, ""); s.IsError || string(lastArgs(t, h.Harness)) != want.args {
			t.Errorf("%s: %+v\n got %s\nwant %s", args, s.Content, lastArgs(t, h.Harness), want.args)
		}
		if len(h.asked) != 1 || h.asked[0] != want.asked {
			t.Errorf("%s: asked for %s, want %s", args, h.asked, want.asked)
		}
		if e := calltest.Failure(t, h.Execute(t, "math", "sum", args, "")); !strings.Contains(e.Message, "works once") || len(h.asked) != 1 {
			t.Errorf("twice: %+v, asked %d times", e, len(h.asked))
		}
	}
}

// A call that is not made leaves the URL as it was, although the rows have come.
func TestTableReferenceThatDoesNotFitSpendsNothing(t *testing.T) {
	h := newElsewhere(t, `[{"event":"Wind","wind":1},{"event":7,"wind":2},{"event":"Wind","wind":3}]`)
	url := h.url(t)
	args := `{"rows":{"$table":"` + url + `"}}`
	for range 2 { // the second time from the store
		if e := calltest.Failure(t, h.Execute(t, "math", "sum", args, "")); e.Error != "ARGS_INVALID" || len(h.asked) != 1 {
			t.Errorf("%+v, asked %d times", e, len(h.asked))
		}
	}
	for _, bad := range []string{`"row_ids":[0,9]`, `"columns":["event","nope"]`} {
		if e := calltest.Failure(t, h.Execute(t, "math", "sum", strings.Replace(args, `"}`, `",`+bad+`}`, 1), "")); e.Error != "ARGS_INVALID" {
			t.Errorf("%s: %+v", bad, e)
		}
	}
	h.Execute(t, "math", "sum", strings.Replace(args, `"}`, `","row_ids":[0,2]}`, 1), "")
	if got := string(lastArgs(t, h.Harness)); got != `{"rows":[{"event":"Wind","wind":1},{"event":"Wind","wind":3}]}` || len(h.asked) != 1 {
		t.Errorf("%s, asked %d times", got, len(h.asked))
	}
	if code, _ := post(t, url, "{}"); code != 404 {
		t.Errorf("it is not spent: %d", code)
	}
	// A column that does not exist is refused before anything is asked for.
	url = h.url(t)
	if e := calltest.Failure(t, h.Execute(t, "math", "sum", `{"rows":{"$table":"`+url+`","columns":["nope"]}}`, "")); e.Error != "ARGS_INVALID" || !strings.Contains(e.Message, "nope") || !strings.Contains(e.Message, "event, wind") || len(h.asked) != 1 {
		t.Errorf("%+v, asked %d times", e, len(h.asked))
	}
	// What was kept for one call is not all of the table.
	calltest.Failure(t, h.Execute(t, "math", "sum", `{"rows":{"$table":"`+url+`","row_ids":[0,1]}}`, ""))
	if e := calltest.Failure(t, h.Execute(t, "math", "sum", `{"rows":{"$table":"`+url+`"}}`, "")); !strings.Contains(e.Message, "row_ids [0 1]") {
		t.Errorf("%+v", e)
	}
}

// An error says whether another try may help.
func TestTableReferenceFailures(t *testing.T) {
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			io.WriteString(w, body)
		}
	}
	for name, c := range map[string]struct {
		fail      http.HandlerFunc
		code      string
		retryable bool
		says      string
	}{
		"busy":       {status(503, `{"error":"reading the disk"}`), "UPSTREAM_UNAVAILABLE", true, "reading the disk"},
		"no answer":  {status(200, `{"rows":[]}`), "UPSTREAM_ERROR", false, "no body"},
		"no numbers": {status(200, `{"body":[{"event":"Wind"},{"event":"Flood"}]}`), "UPSTREAM_ERROR", false, "_row_id"},
		"gone":       {status(404, ``), "ARGS_INVALID", false, "works once"},
		"broken off": {func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"body":[{"_row_id":0,"event":"Wind"},`)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, "UPSTREAM_ERROR", false, "did not come whole"},
	} {
		h := newElsewhere(t, threeStorms)
		h.fail = c.fail
		e := calltest.Failure(t, h.Execute(t, "math", "sum", `{"rows":{"$table":"`+h.url(t)+`"}}`, ""))
		if e.Error != c.code || *e.Retryable != c.retryable || !strings.Contains(e.Message, c.says) {
			t.Errorf("%s: %+v", name, e)
		}
	}
	// More than a call may have: choosing fewer helps, trying again does not.
	large := fmt.Sprintf(`{"event":"%s"}`, strings.Repeat("x", 1<<20))
	h := newElsewhere(t, "["+strings.Repeat(large+",", 70)+large+"]")
	big := artifact.NewMemory(artifact.Options{MaxBytes: 1 << 30})
	defer big.Close()
	h.Change(func(o *metatool.Options) { o.Artifacts = big })
	url := h.url(t)
	if e := calltest.Failure(t, h.Execute(t, "math", "sum", `{"nested":{"$table":"`+url+`"}}`, "")); e.Error != "ARGS_INVALID" || *e.Retryable || !strings.Contains(e.Message, "choose fewer") {
		t.Errorf("%+v", e)
	}
	if s := h.Execute(t, "math", "sum", `{"nested":{"$table":"`+url+`","row_ids":[70]}}`, ""); s.IsError || len(h.asked) != 1 {
		t.Errorf("fewer: %.200s, asked %d times", s.Content[0].Text, len(h.asked))
	}
}

// A server whose data plane loses rows that its JSON writer refuses, such as the reference
// implementation's with NaN and timestamps, is asked for all rows with the call. A server that gives
// a URL in spite of it has it replaced.
func TestRowsOfALocalServerComeWithTheCall(t *testing.T) {
	asked := 0
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked > 1 { // the rows are gone with the first request, whatever comes of it
			http.Error(w, `{"error":"Unknown or expired resource"}`, http.StatusNotFound)
			return
		}
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
	}))
	defer broken.Close()
	async := `{"total_rows":2,"columns":["v","k","at"],"abstract_domains":["k"],"body_domains":["v","at"],"resource_url":"` + broken.URL + `/s2sp/data/abc","abstract":[{"_row_id":0,"k":1},{"_row_id":1,"k":2}]}`
	sync := `{"total_rows":2,"columns":["v","k","at"],"abstract_domains":["k"],"body_domains":["v","at"],"abstract":[{"_row_id":0,"k":1},{"_row_id":1,"k":2}],` +
		`"body":[{"_row_id":0,"v":NaN,"at":"2026-01-01 00:00:00"},{"_row_id":1,"v":2.5,"at":"NaT"}]}`
	h := newServed(t, metatool.Options{Tables: tables.Options{Reach: func(string) tables.Reach { return tables.ReachKeep }}})
	h.Add("pandas", func(_ context.Context, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
		if rawjson.Text(rawjson.GetPath(params, "arguments", "mode")) == "sync" {
			return json.RawMessage(calltest.Text(sync)), nil
		}
		return json.RawMessage(calltest.Text(async)), nil
	}, nativeTool)
	for _, args := range []string{`{}`, `{"abstract_domains":"k"}`} { // of tool_execute, and of the tool
		more := ""
		if args == `{}` {
			more = `,"abstract_domains":"k","mode":"async"`
		}
		s := h.Execute(t, "pandas", "alerts", args, more)
		text := []byte(s.Content[0].Text)
		if s.IsError || rawjson.Get(text, "body") != nil || bytes.Contains(text, []byte("NaT")) {
			t.Fatalf("%s", text)
		}
		url := rawjson.Text(rawjson.Get(text, "resource_url"))
		if code, body := post(t, url, `{}`); code != 200 || body != `{"body":[{"_row_id":0,"v":null,"k":1,"at":"2026-01-01 00:00:00"},{"_row_id":1,"v":2.5,"k":2,"at":"NaT"}],"total_rows":2,"columns_returned":["_row_id","v","k","at"]}` {
			t.Errorf("%d %s", code, body)
		}
	}
	if asked != 0 {
		t.Errorf("the server's plane was asked %d times", asked)
	}
	h.Add("pandas", calltest.Say(calltest.Text(async)), nativeTool)
	s := h.Execute(t, "pandas", "alerts", `{}`, `,"abstract_domains":"k"`)
	if url := rawjson.Text(rawjson.Get([]byte(s.Content[0].Text), "resource_url")); !strings.HasPrefix(url, h.url) {
		t.Errorf("a URL that came in spite of mode sync: %s", s.Content[0].Text)
	}
}

// A result that is a table with a setting of its server names the setting, and CSV is called CSV.
func TestRefusalNamesTheSetting(t *testing.T) {
	const csv = "event,wind\nWind,1\nFlood,2\n"
	wrapped := strings.Replace(calltest.Text(csv), "{", `{"structuredContent":{"result":`+string(rawjson.Quote(csv))+`},`, 1)
	for name, c := range map[string]struct{ result, want string }{
		"CSV":                   {calltest.Text(csv), "comma-separated values, which mcpServers.weather.tables.csv: true makes a table"},
		"CSV of FastMCP":        {wrapped, "comma-separated values, which mcpServers.weather.tables.csv: true makes a table"},
		"rows and other things": {calltest.Text(`{"count":2,"rows":[{"a":1},{"a":2}],"next":null}`), "an object with rows at rows, which mcpServers.weather.tables.paths: [rows] makes a table"},
		"rows further inside":   {calltest.Text(`{"count":2,"data":{"items":[{"a":1}],"more":[{"b":2}]}}`), "rows at data.items, data.more, which mcpServers.weather.tables.paths: [data.items]"},
		"prose":                 {calltest.Text("fine weather"), "is no table (neither an array nor an object)"},
		"an object":             {calltest.Text(`{"a":1}`), "is no table (one object)"},
	} {
		h := newServed(t, metatool.Options{})
		h.Add("weather", calltest.Say(c.result), listTool)
		e := calltest.Failure(t, h.Execute(t, "weather", "list", "{}", `,"abstract_domains":"a"`))
		if e.Error != "ARGS_INVALID" || !strings.Contains(e.Message, c.want) || !strings.Contains(e.Message, "it has run, and its answer is kept as art_") {
			t.Errorf("%s: %+v", name, e)
		}
	}
	// With the setting they are tables, and documents that name their columns once always are.
	for name, c := range map[string]struct {
		result string
		detect table.DetectOptions
	}{
		"CSV":                  {wrapped, table.DetectOptions{CSV: true}},
		"columns and rows":     {calltest.Text(`{"columns":["event","wind"],"rows":[["Wind",1],["Flood",2]],"took":3}`), table.DetectOptions{}},
		"pandas, orient split": {calltest.Text(`{"columns":["event","wind"],"index":[0,1],"data":[["Wind",1],["Flood",2]]}`), table.DetectOptions{}},
		"pandas, by column":    {calltest.Text(`{"event":{"0":"Wind","1":"Flood"},"wind":{"0":1,"1":2}}`), table.DetectOptions{}},
	} {
		h := newServed(t, metatool.Options{Tables: tables.Options{Detect: func(string) table.DetectOptions { return c.detect }}})
		h.Add("weather", calltest.Say(c.result), listTool)
		s := h.Execute(t, "weather", "list", "{}", `,"abstract_domains":"wind"`)
		if !strings.Contains(s.Content[0].Text, `"abstract":[{"_row_id":0,"wind":1},{"_row_id":1,"wind":2}]`) {
			t.Errorf("%s: %s", name, s.Content[0].Text)
		}
	}
}
