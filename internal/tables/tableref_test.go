package tables_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/tables"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/s2sp/plane"
)

// keep puts rows into the store for ann, and returns the handle.
func keep(t testing.TB, h *metatooltest.Harness, data string) string {
	t.Helper()
	a, err := h.Options.Artifacts.At("").Put(t.Context(), "ann", "application/json", "rows", []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return a.Handle
}

func TestTableReferences(t *testing.T) {
	h := newServed(t, metatool.Options{Retry: dispatch.RetryPolicy{MaxAttempts: 2}})
	h.Add("math", calltest.Echo, calltest.SumTool)
	h.Add("chart", calltest.Echo, chartTool)
	handle := keep(t, h.Harness, `[{"event":"Wind","wind":88.0},{"event":"Flood"},{"event":"Wind","wind":1e2,"_row_id":"own"}]`)
	for _, tt := range []struct{ tool, args, want string }{
		{"sum", `{"label":"a \"$table\" in a text","rows":{"$table":"H","columns":["event","wind"]}}`, `{"label":"a \"$table\" in a text","rows":[{"event":"Wind","wind":88.0},{"event":"Flood"},{"event":"Wind","wind":1e2}]}`},
		{"sum", `{"rows":{"$table":"H","row_ids":[2,0],"columns":["wind","event"]}}`, `{"rows":[{"wind":88.0,"event":"Wind"},{"wind":1e2,"event":"Wind"}]}`},
		{"sum", `{"nested":[1,{"deep":{"columns":["wind"],"$table":"H","row_ids":["0"]}}]}`, `{"nested":[1,{"deep":[{"wind":88.0}]}]}`},
		{"sum", `{"nested":{"$table":"H","columns":["_row_id","_row_id_data"],"row_ids":[2]}}`, `{"nested":[{"_row_id":2,"_row_id_data":"own"}]}`},
		{"sum", `{"label":"\u0061","rows":{"\u0024table":"H","columns":["event"],"row_ids":[0,1]}}`, `{"label":"\u0061","rows":[{"event":"Wind"},{"event":"Flood"}]}`},
		{"sum", `{"label":"\u0061"}`, `{"label":"\u0061"}`},
		{"draw", `{"abstract_data":{"$table":"H","columns":["event"],"row_ids":[1]}}`, `{"abstract_data":"[{\"_row_id\":1,\"event\":\"Flood\"}]"}`},
	} {
		upstream := map[string]string{"sum": "math", "draw": "chart"}[tt.tool]
		for range 2 { // a handle works as often as one likes
			h.Execute(t, upstream, tt.tool, strings.ReplaceAll(tt.args, `"H"`, `"`+handle+`"`), "")
			if got := string(lastArgs(t, h.Harness)); got != tt.want {
				t.Errorf("%s:\n got %s\nwant %s", tt.args, got, tt.want)
			}
		}
	}
}

// Arguments without a reference pass as they are, however deep they are and
// however their characters are written.
func TestDeepArgsWithoutTableReferences(t *testing.T) {
	h := newServed(t, metatool.Options{})
	h.Add("math", calltest.Echo, calltest.SumTool)
	deep := func(inner string) string {
		n := 66 // more than a reference may have
		return `{"nested":` + strings.Repeat("[", n) + inner + strings.Repeat("]", n) + `}`
	}
	for _, inner := range []string{`"caf\u00e9"`, `"caf\u00e9 for 5$"`, `{"caf\u00e9":"5$"}`} {
		h.Execute(t, "math", "sum", deep(inner), "")
		if got := string(lastArgs(t, h.Harness)); got != deep(inner) {
			t.Errorf("%s: got %s", inner, got)
		}
	}
	for _, inner := range []string{`{"$table":"H"}`, `{"\u0024table":"H"}`, `{"$\u0074able":"H"}`} {
		if e := calltest.Failure(t, h.Execute(t, "math", "sum", deep(inner), "")); e.Error != "ARGS_INVALID" || !strings.Contains(e.Message, "levels deep") {
			t.Errorf("%s: %+v", inner, e)
		}
	}
}

// A call has a bounded number of references.
func TestTooManyTableReferences(t *testing.T) {
	h := newServed(t, metatool.Options{})
	h.Add("math", calltest.Echo, calltest.SumTool)
	one := `{"$table":"` + keep(t, h.Harness, `[{"event":"Wind"}]`) + `"}`
	args := `{"nested":[` + one + strings.Repeat(","+one, 1000) + `]}`
	if e := calltest.Failure(t, h.Execute(t, "math", "sum", args, "")); e.Error != "ARGS_INVALID" || !strings.Contains(e.Message, "args.nested[1000]: it is one of 1001 $table references") {
		t.Errorf("%+v", e)
	}
}

// Where a schema asks for a string in a roundabout way, as others write optional
// ones, the rows go as text, too.
func TestTableReferencesAsText(t *testing.T) {
	const tool = `{"name":"take","description":"Take rows.","inputSchema":{"type":"object","properties":{
		"optional":{"anyOf":[{"type":"string"},{"type":"null"}]},"referred":{"$ref":"#/$defs/Text"},"listed":{"type":["string","null"]},
		"either":{"anyOf":[{"type":"string"},{"type":"array"}]},"one":{"oneOf":[{"$ref":"#/$defs/Text"},{"type":"null"}]},
		"within":{"$ref":"#/$defs/Within"},"all":{"allOf":[{"$ref":"#/$defs/Text"}]}
		},"$defs":{"Text":{"type":"string"},"Within":{"type":"object","properties":{"rows":{"$ref":"#/$defs/Text"}}},"Loop":{"$ref":"#/$defs/Loop"}}}}`
	h := newServed(t, metatool.Options{})
	h.Add("python", calltest.Echo, tool)
	handle := keep(t, h.Harness, `[{"event":"Wind"},{"event":"Flood"}]`)
	const text, rows = `"[{\"_row_id\":1,\"event\":\"Flood\"}]"`, `[{"event":"Flood"}]`
	for args, want := range map[string]string{
		`{"optional":ROWS}`: text, `{"referred":ROWS}`: text, `{"listed":ROWS}`: text, `{"either":ROWS}`: rows, `{"one":ROWS}`: text, `{"all":ROWS}`: text,
		`{"within":{"rows":ROWS}}`: text, `{"unknown":ROWS}`: rows,
	} {
		h.Execute(t, "python", "take", strings.ReplaceAll(args, "ROWS", `{"$table":"`+handle+`","row_ids":[1]}`), "")
		if got, want := string(lastArgs(t, h.Harness)), strings.ReplaceAll(args, "ROWS", want); got != want {
			t.Errorf("%s:\n got %s\nwant %s", args, got, want)
		}
	}
}

func TestTableReferenceErrors(t *testing.T) {
	h := newServed(t, metatool.Options{})
	h.Add("math", calltest.Echo, calltest.SumTool)
	handle := keep(t, h.Harness, `[{"event":"Wind","wind":88},{"event":"Flood"}]`)
	one, wrong, text := keep(t, h.Harness, `[{"event":"Wind"}]`), keep(t, h.Harness, `[{"event":1},{"event":2}]`), keep(t, h.Harness, "no rows")
	many := keep(t, h.Harness, `[`+strings.TrimSuffix(strings.Repeat(`{"event":"Wind"},`, 41), ",")+`]`)
	theirs, err := h.Options.Artifacts.At("").Put(t.Context(), "bob", "application/json", "rows", []byte(`[{"event":"Secret"}]`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ rows, want string }{
		{`{"$table":7}`, "args.rows: $table must be a handle or a resource_url"},
		{`{"$table":"H","rows":[1]}`, `"rows" is no member of a $table reference`},
		{`{"$table":"H","$table":"x"}`, `key "$table" comes twice`},
		{`{"$table":"H","row_ids":["x"]}`, "row_ids must be whole numbers"},
		{`{"$table":"H","row_ids":[2]}`, "row_ids has 2, and the table has 2 rows"},
		{`{"$table":"H","columns":["wnd"]}`, `columns has "wnd", which is no column; there are event, wind`},
		{`{"$table":"art_unknown"}`, `no artifact has the handle "art_unknown"`},
		{`{"$table":"` + theirs.Handle + `"}`, "no artifact has the handle"},
		{`{"$table":"` + text + `"}`, "not a table"},
		{`{"$table":"ddi://x"}`, "give it as resource_url"},
		{`{"$table":"` + h.url + `/s2sp/data/nothing"}`, "unknown or expired resource"},
		{`{"$table":"http://elsewhere.example/s2sp/data/x"}`, "fetches from no other servers"},
		{`{"$table":"` + one + `"}`, "args"},
		{`{"$table":"` + many + `"}`, "args"},
		{`{"$table":"` + wrong + `"}`, "args"},
	} {
		args := `{"rows":` + strings.ReplaceAll(tt.rows, `"H"`, `"`+handle+`"`) + `}`
		for _, more := range []string{`,"dry_run":true`, ""} {
			e := calltest.Failure(t, h.Execute(t, "math", "sum", args, more))
			if e.Error != "ARGS_INVALID" || !strings.Contains(e.Message, tt.want) && tt.want != "args" {
				t.Errorf("%s: %+v", args, e)
			}
		}
	}
	if n := len(h.Called()); n != 0 {
		t.Errorf("the upstream was asked %d times", n)
	}
}

// offer makes a resource_url of the gateway.
func (h *served) offer(t testing.TB, handle string) string {
	t.Helper()
	token, err := h.Options.Artifacts.Offer(t.Context(), "ann", handle, 0)
	if err != nil {
		t.Fatal(err)
	}
	return plane.URL(h.url, token.Value)
}

// A URL is spent by a call, and by nothing that comes before one.
func TestTableReferenceSpendsAURL(t *testing.T) {
	h := newServed(t, metatool.Options{})
	h.Add("math", calltest.Echo, calltest.SumTool)
	good := h.offer(t, keep(t, h.Harness, `[{"event":"Wind","wind":88},{"event":"Flood"}]`))
	args := `{"rows":{"$table":"` + good + `"}}`
	h.Execute(t, "math", "sum", args, `,"dry_run":true`)
	calltest.Failure(t, h.Execute(t, "math", "sum", strings.Replace(args, `{`, `{"label":1,`, 1), ""))
	if s := h.Execute(t, "math", "sum", args, ""); s.IsError || string(lastArgs(t, h.Harness)) != `{"rows":[{"event":"Wind","wind":88},{"event":"Flood"}]}` {
		t.Fatalf("%+v", s.Content)
	}
	if e := calltest.Failure(t, h.Execute(t, "math", "sum", args, "")); !strings.Contains(e.Message, "works once") {
		t.Errorf("%+v", e)
	}
}

func TestTableReferenceFromAnotherServer(t *testing.T) {
	fetched := 0
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fetched++
		io.WriteString(w, `{"body":[{"_row_id":0,"event":"Wind","wind":1},{"_row_id":1,"event":"Flood","wind":2},{"_row_id":2,"event":7,"wind":3}]}`)
	}))
	defer other.Close()
	u, err := url.Parse(other.URL)
	if err != nil {
		t.Fatal(err)
	}
	fetcher, err := plane.NewFetcher(plane.FetchOptions{Allow: []string{u.Host}})
	if err != nil {
		t.Fatal(err)
	}
	h := newServed(t, metatool.Options{Tables: tables.Options{Fetch: fetcher}})
	h.Add("math", calltest.Echo, calltest.SumTool)
	args := `{"rows":{"$table":"` + other.URL + `/s2sp/data/abc","row_ids":[0,1]}}`
	calltest.Failure(t, h.Execute(t, "math", "sum", strings.Replace(args, `{`, `{"label":1,`, 1), ""))
	h.Execute(t, "math", "sum", args, `,"dry_run":true`)
	if fetched != 0 {
		t.Errorf("fetched %d times before a call was made", fetched)
	}
	h.Execute(t, "math", "sum", args, "")
	if got := string(lastArgs(t, h.Harness)); got != `{"rows":[{"event":"Wind","wind":1},{"event":"Flood","wind":2}]}` || fetched != 1 {
		t.Errorf("%s, %d fetches", got, fetched)
	}
	// What was fetched is validated before the upstream sees it.
	if e := calltest.Failure(t, h.Execute(t, "math", "sum", strings.Replace(args, "[0,1]", "[0,2]", 1), "")); e.Error != "ARGS_INVALID" || len(h.Called()) != 1 {
		t.Errorf("%+v", e)
	}
	for _, bad := range []string{"http://169.254.169.254/s2sp/data/x", "http://[::1]/s2sp/data/x", "http://user@" + u.Host + "/s2sp/data/x", "file:///etc/passwd", "http://" + u.Host + "/admin"} {
		if e := calltest.Failure(t, h.Execute(t, "math", "sum", `{"rows":{"$table":"`+bad+`"}}`, "")); e.Error != "ARGS_INVALID" || !strings.Contains(e.Message, "resource_url refused") {
			t.Errorf("%s: %+v", bad, e)
		}
	}
	if fetched != 2 {
		t.Errorf("%d fetches", fetched)
	}
}

// Rows are put in once, outside retries, and the cache knows them by their hash.
func TestTableReferencesAndTheCache(t *testing.T) {
	h := newServed(t, metatool.Options{Cache: dispatch.CacheOptions{ReadOnly: true}, Retry: dispatch.RetryPolicy{MaxAttempts: 3, BaseDelay: 1}})
	tries := 0
	h.Add("math", func(ctx context.Context, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
		if tries++; tries < 3 {
			return nil, io.ErrUnexpectedEOF
		}
		return json.RawMessage(calltest.Text("42")), nil
	}, calltest.SumTool)
	data := `[{"event":"Wind","wind":1},{"event":"Flood","wind":2}]`
	handle := keep(t, h.Harness, data)
	args := func(source string) string { return `{"rows":{"$table":"` + source + `"}}` }
	if s := h.Execute(t, "math", "sum", args(h.offer(t, handle)), ""); s.IsError || tries != 3 {
		t.Fatalf("%+v after %d tries", s.Content, tries)
	}
	for _, call := range h.Called() {
		if !strings.HasSuffix(call, `"arguments":{"rows":`+data+`}}`) {
			t.Errorf("%s", call)
		}
	}
	// The same rows by another way are the same call; others are not.
	h.Execute(t, "math", "sum", args(handle), "")
	if tries != 3 {
		t.Error("equal rows were not found in the cache")
	}
	h.Execute(t, "math", "sum", args(keep(t, h.Harness, `[{"event":"Wind","wind":1},{"event":"Flood","wind":3}]`)), "")
	if tries != 4 {
		t.Error("other rows were answered from the cache")
	}
}

func BenchmarkTableReference(b *testing.B) {
	h := metatooltest.New(b, metatool.Options{})
	h.Add("math", calltest.Say(calltest.Text("42")), `{"name":"sum","inputSchema":{"type":"object","properties":{"rows":{"type":"array"}}}}`)
	var rows []string
	for i := range 10_000 {
		rows = append(rows, fmt.Sprintf(`{"event":"Wind","wind":%d,"text":"a few words about it"}`, i))
	}
	handle := keep(b, h, "["+strings.Join(rows, ",")+"]")
	params := json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"` + h.ID(b, "math", "sum") + `","args":{"rows":{"$table":"` + handle + `","columns":["wind"]}}}}`)
	inline := json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"` + h.ID(b, "math", "sum") + `","args":{"rows":[` + strings.Join(rows, ",") + `]}}}`)
	call := func(p json.RawMessage) {
		if out, err := h.Ask(b, "tools/call", string(p)); err != nil || string(rawjson.Get(out, "isError")) == "true" {
			b.Fatalf("%s %v", out, err)
		}
	}
	run := func(name string, p json.RawMessage) (perOp float64) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				call(p)
			}
			perOp = float64(b.Elapsed().Nanoseconds()) / float64(b.N)
			if name == "reference" {
				return
			}
		})
		return perOp
	}
	byRef := run("reference", params)
	b.Run("inline", func(b *testing.B) {
		for b.Loop() {
			call(inline)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/byRef, "x_reference")
	})
}

// FuzzTableReference: whatever stands in arguments, a reference is replaced or
// refused, and what the upstream gets is JSON without one.
func FuzzTableReference(f *testing.F) {
	h := metatooltest.New(f, metatool.Options{})
	handle := keep(f, h, `[{"event":"Wind","wind":88},{"event":"Flood"}]`)
	h.Add("math", calltest.Echo, `{"name":"any","inputSchema":{"type":"object"}}`)
	id := h.ID(f, "math", "any")
	for _, seed := range []string{`{"a":{"$table":"H"}}`, `{"$table":"H","row_ids":[1]}`, `{"a":[[{"$table":"H","columns":["wind"]}]],"b":"$table"}`, `{"a":{"$table":null}}`, `{"a":{"\u0024t\u0061ble":"H"}}`, `{"a":{"$table":"H","$table":"x"}}`, `{"a":{"$table":"H","row_ids":{}}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, args string) {
		args = strings.ReplaceAll(args, `"H"`, `"`+handle+`"`)
		if rawjson.Valid([]byte(args)) != nil || !rawjson.IsObject([]byte(args)) {
			return
		}
		before := len(h.Called())
		out, err := h.Gateway.Serve(context.Background(), &mcp.Request{ID: "1", Method: "tools/call", Version: mcp.V20251125, Session: h.Session, Peer: mcp.NoPeer,
			Params: json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"` + id + `","args":` + args + `}}`)})
		if err != nil || len(h.Called()) == before {
			return
		}
		got := lastArgs(t, h)
		if rawjson.Valid(got) != nil || !json.Valid(got) {
			t.Fatalf("%s became %s (%s)", args, got, out)
		}
		var value any
		if json.Unmarshal(got, &value) == nil && hasReference(value) {
			t.Fatalf("%s became %s", args, got)
		}
	})
}

func hasReference(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["$table"]; ok {
			return true
		}
		for _, e := range v {
			if hasReference(e) {
				return true
			}
		}
	case []any:
		for _, e := range v {
			if hasReference(e) {
				return true
			}
		}
	}
	return false
}
