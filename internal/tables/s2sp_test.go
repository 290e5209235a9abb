package tables_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/tables"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/s2sp/table"
)

const alertRows = `[{"event":"Wind","wind":88,"text":"Gusts.","id":12345678901234567890},{"event":"Flood","text":"Rain.","id":1e400},{"event":"Wind","wind":61,"text":"\ud83c","id":3}]`

const listTool = `{"name":"list","description":"List alerts.","inputSchema":{"type":"object","properties":{"area":{"type":"string"}}},"annotations":{"readOnlyHint":true}}`

// served is a harness with a data plane.
type served struct {
	*metatooltest.Harness
	url string
}

func newServed(t testing.TB, opts metatool.Options) *served {
	t.Helper()
	var handler atomic.Pointer[http.Handler]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*handler.Load()).ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	opts.Tables.BaseURL = func() (string, error) { return server.URL, nil }
	opts.Tables.Refusals = new(tables.Refusals)
	h := metatooltest.New(t, opts)
	t.Cleanup(func() { h.State.Close(context.Background()) })
	next := plane.Handler(h.Options.Artifacts, plane.HandlerOptions{Refused: opts.Tables.Refusals.Tell})
	handler.Store(&next)
	return &served{h, server.URL}
}

func post(t testing.TB, url, body string) (int, string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

func lastArgs(t testing.TB, h *metatooltest.Harness) json.RawMessage {
	t.Helper()
	calls := h.Called()
	_, params, _ := strings.Cut(calls[len(calls)-1], " ")
	return rawjson.Get([]byte(params), "arguments")
}

func TestAbstractOfAnyTool(t *testing.T) {
	quoted := string(rawjson.Quote(alertRows))
	rows := ""
	_ = rawjson.EachElement([]byte(alertRows), func(v []byte) bool {
		rows += `,{"type":"text","text":` + string(rawjson.Quote(string(v))) + `}`
		return true
	})
	for name, result := range map[string]string{
		"text":              `{"content":[{"type":"text","text":` + quoted + `}]}`,
		"only member":       calltest.Text(`{"result":` + alertRows + `}`),
		"structured":        `{"content":[{"type":"text","text":"three alerts"}],"structuredContent":{"alerts":` + alertRows + `}}`,
		"both":              `{"content":[{"type":"text","text":` + quoted + `}],"structuredContent":{"result":` + alertRows + `}}`,
		"one row a block":   `{"content":[` + rows[1:] + `]}`,
		"one object a line": calltest.Text(strings.NewReplacer("[{", "{", "}]", "}", "},{", "}\n{").Replace(alertRows)),
	} {
		h := newServed(t, metatool.Options{})
		h.Add("weather", calltest.Say(result), listTool)
		s := h.Execute(t, "weather", "list", "{}", `,"abstract_domains":" event , nope","mode":"async"`)
		text := s.Content[0].Text
		var keys []string
		if err := rawjson.EachMember([]byte(text), func(m rawjson.Member) bool { keys = append(keys, string(m.Key)); return true }); err != nil {
			t.Fatalf("%s: %v in %s", name, err, text)
		}
		if got := strings.Join(keys, " "); got != "total_rows columns abstract_domains body_domains resource_url abstract warnings" {
			t.Errorf("%s: keys %s", name, got)
		}
		for _, want := range []string{
			`"total_rows":3`, `"columns":["event","wind","text","id"]`, `"abstract_domains":["event","nope"]`, `"body_domains":["wind","text","id"]`,
			`"abstract":[{"_row_id":0,"event":"Wind"},{"_row_id":1,"event":"Flood"},{"_row_id":2,"event":"Wind"}]`, `names no column: \"nope\"`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %s in %s", name, want, text)
			}
		}
		if len(s.Content) != 1 || s.StructuredContent != nil {
			t.Errorf("%s: %d blocks, structured %s", name, len(s.Content), s.StructuredContent)
		}
		if got := string(lastArgs(t, h.Harness)); got != "{}" {
			t.Errorf("%s: the tool was told %s", name, got)
		}
		url := rawjson.Text(rawjson.Get([]byte(text), "resource_url"))
		if !strings.HasPrefix(url, h.url+"/s2sp/data/") {
			t.Fatalf("%s: resource_url %q", name, url)
		}
		want := `{"body":[{"_row_id":0,"event":"Wind","wind":88,"text":"Gusts.","id":12345678901234567890},{"_row_id":2,"event":"Wind","wind":61,"text":"\ud83c","id":3}],` +
			`"total_rows":2,"columns_returned":["_row_id","event","wind","text","id"]}`
		if code, body := post(t, url, `{"row_ids":[2,0]}`); code != 200 || body != want {
			t.Errorf("%s: %d %s", name, code, body)
		}
		if code, body := post(t, url, `{}`); code != 404 || body != `{"error":"Unknown or expired resource"}` {
			t.Errorf("%s: second fetch %d %s", name, code, body)
		}
	}
}

func TestAbstractIsAbsentWhenEmpty(t *testing.T) {
	h := newServed(t, metatool.Options{})
	h.Add("weather", calltest.Say(calltest.Text(alertRows)), listTool)
	for _, more := range []string{"", `,"abstract_domains":""`, `,"abstract_domains":" , "`, `,"abstract_domains":[]`, `,"abstract_domains":null,"mode":"sync"`} {
		if s := h.Execute(t, "weather", "list", "{}", more); s.Content[0].Text != alertRows {
			t.Errorf("%s: %+v", more, s.Content)
		}
	}
}

func TestAbstractErrors(t *testing.T) {
	h := newServed(t, metatool.Options{})
	h.Add("weather", calltest.Say(calltest.Text("fine weather")), listTool)
	for _, tt := range []struct{ more, want string }{
		{`,"abstract_domains":"event"`, "is no table"},
		{`,"abstract_domains":{"a":1}`, "abstract_domains must be"},
		{`,"abstract_domains":"event","mode":"later"`, `mode is "async" (the default) or "sync"`},
		{`,"abstract_domains":"event","mode":1`, "unknown mode 1"},
	} {
		e := calltest.Failure(t, h.Execute(t, "weather", "list", "{}", tt.more))
		if e.Error != "ARGS_INVALID" || !strings.Contains(e.Message, tt.want) {
			t.Errorf("%s: %+v", tt.more, e)
		}
	}
	// What the tool answered is not lost.
	s := h.Execute(t, "weather", "list", "{}", `,"abstract_domains":"event"`)
	handle := rawjson.Text(rawjson.GetPath([]byte(s.Content[0].Text), "details", "handle"))
	if v := h.Tool(t, metatool.ToolView, `{"handle":"`+handle+`","selector":{"type":"head"}}`); !strings.Contains(v.Content[0].Text, "fine weather") {
		t.Errorf("%+v", v.Content)
	}
	// Where there is no tool_view to read what is kept, it passes.
	mode := h.Options.Mode
	h.Change(func(o *metatool.Options) { o.Mode = metatool.ModeProxy })
	if s := h.Execute(t, "weather", "list", "{}", `,"abstract_domains":"event"`); s.IsError || s.Content[0].Text != "fine weather" {
		t.Errorf("in proxy mode: %+v", s)
	}
	h.Change(func(o *metatool.Options) { o.Mode = mode })
	// An error of the tool passes.
	h.Add("weather", calltest.Say(`{"content":[{"type":"text","text":"no such area"}],"isError":true}`), listTool)
	if s := h.Execute(t, "weather", "list", "{}", `,"abstract_domains":"event"`); !s.IsError || s.Content[0].Text != "no such area" {
		t.Errorf("%+v", s)
	}
	// Without an address nobody could fetch.
	bare := metatooltest.New(t, metatool.Options{})
	bare.Add("weather", calltest.Say(calltest.Text(alertRows)), listTool)
	if e := calltest.Failure(t, bare.Execute(t, "weather", "list", "{}", `,"abstract_domains":"event"`)); !strings.Contains(e.Message, "use mode sync") {
		t.Errorf("%+v", e)
	}
}

const chartTool = `{"name":"draw","description":"Draw.","inputSchema":{"type":"object","properties":{"abstract_data":{"type":"string"},"resource_url":{"type":"string"},"body_data":{"type":"string"},"column_mapping":{"type":"string"}}}}`

func TestSyncGoesAroundTheModel(t *testing.T) {
	native := `{"name":"alerts","description":"Alerts.","inputSchema":{"type":"object","properties":{"abstract_domains":{"type":"string"},"mode":{"type":"string"}}}}`
	answer := `{"total_rows":1,"columns":["event","text"],"abstract_domains":["event"],"body_domains":["text"],"abstract":[{"_row_id":0,"event":"Wind"}],"body":[{"_row_id":0,"text":"secret body"}]}`
	h := newServed(t, metatool.Options{})
	h.Add("weather", calltest.Say(calltest.Text(`[{"event":"Wind","text":"secret body"}]`)), listTool)
	h.Add("native", calltest.Say(`{"content":[{"type":"text","text":`+string(rawjson.Quote(answer))+`}],"structuredContent":`+answer+`}`), native)
	h.Add("chart", calltest.Echo, chartTool)
	for _, tool := range [][2]string{{"weather", "list"}, {"native", "alerts"}} {
		s := h.Execute(t, tool[0], tool[1], "{}", `,"abstract_domains":["event"],"mode":"sync"`)
		out, _ := json.Marshal(s)
		if strings.Contains(string(out), "secret body") {
			t.Fatalf("%s: the model reads the body: %s", tool, out)
		}
		handle := rawjson.Text(rawjson.Get([]byte(s.Content[0].Text), "resource_url"))
		if !strings.HasPrefix(handle, "ddi://") || rawjson.Get([]byte(s.Content[0].Text), "body") != nil {
			t.Fatalf("%s: %s", tool, s.Content[0].Text)
		}
		args := `{"abstract_data":"[{\"_row_id\":0}]","resource_url":"` + handle + `"}`
		h.Execute(t, "chart", "draw", args, `,"dry_run":true`) // spends nothing
		h.Execute(t, "chart", "draw", args, "")
		got := lastArgs(t, h.Harness)
		if body := rawjson.Text(rawjson.Get(got, "body_data")); body != `[{"_row_id":0,"text":"secret body"}]` || rawjson.Get(got, "resource_url") != nil {
			t.Errorf("%s: the chart got %s", tool, got)
		}
		if e := calltest.Failure(t, h.Execute(t, "chart", "draw", args, "")); e.Error != "ARGS_INVALID" || !strings.Contains(e.Message, "works once") {
			t.Errorf("%s: used twice: %+v", tool, e)
		}
	}
	// The tool itself was told what was asked for.
	if got := h.Called()[2]; !strings.Contains(got, `"abstract_domains":"event","mode":"sync"`) {
		t.Errorf("%s", got)
	}
	// The body ends with its session.
	s := h.Execute(t, "weather", "list", "{}", `,"abstract_domains":"event","mode":"sync"`)
	handle := rawjson.Text(rawjson.Get([]byte(s.Content[0].Text), "resource_url"))
	h.Session = mcp.NewSession("other", "ann")
	if e := calltest.Failure(t, h.Execute(t, "chart", "draw", `{"resource_url":"`+handle+`"}`, "")); e.Error != "ARGS_INVALID" {
		t.Errorf("in another session: %+v", e)
	}
}

const nativeTool = `{"name":"alerts","description":"Alerts.","inputSchema":{"type":"object","properties":{"abstract_domains":{"type":"string","default":""},"mode":{"type":"string"}}},"annotations":{"readOnlyHint":true}}`

// An upstream's own data plane on loopback is reached through the gateway.
func TestRelay(t *testing.T) {
	fetched := 0
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fetched++
		if fetched == 1 {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		if fetched > 2 {
			http.Error(w, `{"error":"Unknown or expired resource"}`, http.StatusNotFound)
			return
		}
		io.WriteString(w, `{"body":[{"_row_id":0,"event":"Wind","n":1.0},{"_row_id":1,"event":"Flood","n":2}],"total_rows":2,"columns_returned":["_row_id","event","n"]}`)
	}))
	defer upstream.Close()
	reach := tables.ReachRelay
	own := upstream.URL + "/s2sp/data/abc"
	answer := `{"total_rows":2,"columns":["event","n"],"abstract_domains":["event"],"body_domains":["n"],"resource_url":"` + own + `","abstract":[{"_row_id":0,"event":"Wind"},{"_row_id":1,"event":"Flood"}]}`
	result := `{"content":[{"type":"text","text":` + string(rawjson.Quote(answer)) + `}],"structuredContent":{"result":` + string(rawjson.Quote(answer)) + `}}`
	h := newServed(t, metatool.Options{Tables: tables.Options{Reach: func(string) tables.Reach { return reach }}, Cache: dispatch.CacheOptions{ReadOnly: true}})
	h.Add("weather", calltest.Say(result), nativeTool)
	s := h.Execute(t, "weather", "alerts", `{"abstract_domains":"event"}`, "")
	if out, _ := json.Marshal(s); strings.Contains(string(out), upstream.URL) {
		t.Fatalf("%s", out)
	}
	url := rawjson.Text(rawjson.Get([]byte(s.Content[0].Text), "resource_url"))
	if !strings.HasPrefix(url, h.url) || !strings.Contains(string(s.StructuredContent), url) {
		t.Fatalf("%+v", s)
	}
	if code, _ := post(t, url, "{"); code != 400 || fetched != 0 {
		t.Errorf("a bad request: %d, %d fetches", code, fetched)
	}
	if code, _ := post(t, url, "{}"); code != 503 || fetched != 1 {
		t.Errorf("a server that is down: %d, %d fetches", code, fetched)
	}
	if code, body := post(t, url, `{"row_ids":[1],"columns":["n"]}`); code != 200 || body != `{"body":[{"_row_id":1,"n":2}],"total_rows":1,"columns_returned":["_row_id","n"]}` {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := post(t, url, "{}"); code != 404 || fetched != 2 {
		t.Errorf("twice: %d, %d fetches", code, fetched)
	}
	// Each answer has a URL of its own: it is not kept by the cache.
	if again := h.Execute(t, "weather", "alerts", `{"abstract_domains":"event"}`, ""); len(h.Called()) != 2 || strings.Contains(again.Content[0].Text, url) {
		t.Errorf("%d calls", len(h.Called()))
	}
	// Others reach it themselves, and elsewhere nobody is sent.
	reach = tables.ReachDirect
	if s := h.Execute(t, "weather", "alerts", `{"abstract_domains":"event"}`, ""); !strings.Contains(s.Content[0].Text, own) {
		t.Errorf("%+v", s.Content)
	}
	reach = tables.ReachRelay
	far := strings.ReplaceAll(result, upstream.URL, "http://169.254.169.254")
	h.Add("weather", calltest.Say(far), nativeTool)
	if s := h.Execute(t, "weather", "alerts", `{"abstract_domains":"event"}`, ""); !strings.Contains(s.Content[0].Text, "http://169.254.169.254/s2sp/data/abc") {
		t.Errorf("%+v", s.Content)
	}
}

// A tool that has run has not failed for its arguments, and who reads the error
// knows that it has run.
func TestRowsThatCannotBeKept(t *testing.T) {
	h := newServed(t, metatool.Options{})
	h.Add("weather", calltest.Say(calltest.Text(alertRows)), listTool)
	full := artifact.NewMemory(artifact.Options{MemoryBytes: 10})
	defer full.Close()
	h.Change(func(o *metatool.Options) { o.Artifacts = full })
	call := func() (calltest.Failed, string) {
		s := h.Execute(t, "weather", "list", "{}", `,"abstract_domains":"event"`)
		return calltest.Failure(t, s), s.Content[0].Text
	}
	e, text := call()
	if e.Error != "UPSTREAM_ERROR" || *e.Retryable || !strings.Contains(e.Message, "HAS run") || !strings.Contains(e.Message, "sync") || !strings.Contains(e.Message, "artifacts.memory_bytes") ||
		!strings.Contains(text, `"executed":true`) || len(h.Called()) != 1 {
		t.Errorf("no room: %s, %d calls", text, len(h.Called()))
	}
	if s := h.Execute(t, "weather", "list", "{}", `,"abstract_domains":"event","mode":"sync"`); s.IsError {
		t.Errorf("sync: %+v", s)
	}
	// Where it is known before, nothing runs.
	h.Change(func(o *metatool.Options) { o.Tables.BaseURL = nil })
	if e, text := call(); e.Error != "ARGS_INVALID" || !strings.Contains(e.Message, "mode sync") || len(h.Called()) != 2 {
		t.Errorf("no data plane: %s, %d calls", text, len(h.Called()))
	}
}

// A resource_url that is given out is kept: others are refused where there is no
// room for them, and nothing runs twice for that.
func TestUnspentURLsStay(t *testing.T) {
	h := newServed(t, metatool.Options{})
	store := artifact.NewMemory(artifact.Options{MaxBytes: 1000})
	defer store.Close()
	h.Change(func(o *metatool.Options) { o.Artifacts = store })
	handler := plane.Handler(store, plane.HandlerOptions{})
	server := httptest.NewServer(handler)
	defer server.Close()
	h.Change(func(o *metatool.Options) { o.Tables.BaseURL = func() (string, error) { return server.URL, nil } })
	h.Add("weather", calltest.Say(calltest.Text(`[{"event":"Wind","text":"`+strings.Repeat("x", 550)+`"}]`)), listTool)
	var url string
	for i := range 3 {
		s := h.Execute(t, "weather", "list", "{}", `,"abstract_domains":"event"`)
		if i == 0 {
			url = rawjson.Text(rawjson.Get([]byte(s.Content[0].Text), "resource_url"))
			continue
		}
		if e := calltest.Failure(t, s); e.Error != "UPSTREAM_ERROR" || *e.Retryable || !strings.Contains(e.Message, "no room") || !strings.Contains(e.Message, "artifacts.max_bytes") || !strings.Contains(s.Content[0].Text, `"executed":true`) {
			t.Errorf("%s", s.Content[0].Text)
		}
	}
	if code, body := post(t, url, "{}"); code != 200 || !strings.Contains(body, "xxx") {
		t.Errorf("the first: %d %s", code, body)
	}
	if s := h.Execute(t, "weather", "list", "{}", `,"abstract_domains":"event"`); s.IsError {
		t.Errorf("once it is spent: %s", s.Content[0].Text)
	}
	// Neither are URLs of servers that are passed on.
	small := artifact.NewMemory(artifact.Options{MaxTokens: 1})
	defer small.Close()
	h.Change(func(o *metatool.Options) { o.Artifacts = small })
	h.Change(func(o *metatool.Options) { o.Tables.Reach = func(string) tables.Reach { return tables.ReachRelay } })
	h.Add("native", calltest.Say(calltest.Text(`{"total_rows":1,"columns":["a"],"abstract_domains":["a"],"resource_url":"http://127.0.0.1:9/s2sp/data/abc","abstract":[{"_row_id":0,"a":1}]}`)), nativeTool)
	if s := h.Execute(t, "native", "alerts", "{}", `,"abstract_domains":"a"`); s.IsError {
		t.Errorf("%s", s.Content[0].Text)
	}
	if e := calltest.Failure(t, h.Execute(t, "native", "alerts", "{}", `,"abstract_domains":"a"`)); e.Error != "UPSTREAM_ERROR" || !strings.Contains(e.Message, "no room") {
		t.Errorf("%+v", e)
	}
}

// A server that nobody reaches is asked for its rows at once.
func TestServersOutOfReachAreAskedForSync(t *testing.T) {
	h := newServed(t, metatool.Options{Tables: tables.Options{Reach: func(string) tables.Reach { return tables.ReachNever }}})
	h.Add("far", func(_ context.Context, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
		if rawjson.Text(rawjson.GetPath(params, "arguments", "mode")) != "sync" {
			return nil, errors.New("asked for async")
		}
		return json.RawMessage(calltest.Text(`{"total_rows":2,"columns":["a","b"],"abstract_domains":["a"],"body_domains":["b"],"abstract":[{"_row_id":0,"a":1},{"_row_id":1,"a":2}],"body":[{"_row_id":0,"b":3},{"_row_id":1,"b":4.0}]}`)), nil
	}, nativeTool)
	s := h.Execute(t, "far", "alerts", `{}`, `,"abstract_domains":"a"`)
	text := []byte(s.Content[0].Text)
	if rawjson.Get(text, "body") != nil {
		t.Errorf("%s", text)
	}
	if code, body := post(t, rawjson.Text(rawjson.Get(text, "resource_url")), `{}`); code != 200 || !strings.Contains(body, `[{"_row_id":0,"a":1,"b":3},{"_row_id":1,"a":2,"b":4.0}]`) {
		t.Errorf("%d %s", code, body)
	}
}

// The columns that an agent asked for are shown up to 8,000 tokens.
func TestAskedColumnsAreShown(t *testing.T) {
	for rows, held := range map[int]bool{300: false, 3000: true} {
		h := newServed(t, metatool.Options{})
		h.Add("weather", calltest.Say(calltest.Text("["+strings.Repeat(`{"event":"Wind","severity":"Moderate"},`, rows)+`{"event":"Ice","severity":"Low"}]`)), listTool)
		s := h.Execute(t, "weather", "list", "{}", `,"abstract_domains":"event,severity"`)
		if shown := s.Content[0].Text; strings.Contains(shown, `"event":"Ice"`) == held || s.Env.Stats.Triggered != held {
			t.Errorf("%d rows: %.300s", rows, shown)
		}
	}
}

// A resource_url is never held back, in whatever form an answer comes.
func TestResourceURLIsNeverHidden(t *testing.T) {
	var rows []string
	for i := range 3000 {
		rows = append(rows, fmt.Sprintf(`{"event":"Wind %d","severity":"Moderate"}`, i))
	}
	h := newServed(t, metatool.Options{})
	h.Add("weather", calltest.Say(calltest.Text("["+strings.Join(rows, ",")+"]")), listTool)
	s := h.Execute(t, "weather", "list", "{}", `,"abstract_domains":"event,severity"`)
	text := s.Content[0].Text
	if !strings.Contains(text, "resource_url: "+h.url+"/s2sp/data/") || !strings.Contains(text, "table: 3000 rows × 3 columns at $.abstract") || len(text) > 2500 {
		t.Fatalf("%s", text)
	}
	handle := s.Env.Artifacts[0].Handle
	v := h.Tool(t, metatool.ToolView, `{"handle":"`+handle+`","selector":{"type":"table","columns":["event"],"where":[{"column":"event","op":"suffix","value":"7"}],"limit":2}}`)
	if want := "_row_id,event\n7,Wind 7\n17,Wind 17"; v.Content[0].Text != want {
		t.Errorf("%+v", v.Content)
	}
	j := h.Raw(t, `{"name":"tool_execute","_meta":{"weir/format":"json"},"arguments":{"tool_id":"`+h.ID(t, "weather", "list")+`","args":{},"abstract_domains":"event,severity"}}`)
	if summary := rawjson.Text(rawjson.Get([]byte(j.Content[0].Text), "summary")); !strings.Contains(summary, "resource_url: "+h.url) {
		t.Errorf("%s", summary)
	}
	for _, result := range []string{
		calltest.Text(`{"resource_url":"http://a.example/s2sp/data/x","pad":"` + strings.Repeat("pad ", 900) + `"}`),
		calltest.Text(`{"result":{"pad":"` + strings.Repeat("pad ", 900) + `","resource_url":"http://a.example/s2sp/data/x"}}`),
		`{"content":[],"structuredContent":{"result":` + string(rawjson.Quote(`{"resource_url":"http://a.example/s2sp/data/x","pad":"`+strings.Repeat("pad ", 900)+`"}`)) + `}}`,
	} {
		h.Add("weather", calltest.Say(result), listTool)
		if s := h.Execute(t, "weather", "list", "{}", ""); !strings.Contains(s.Content[0].Text, "resource_url: http://a.example/s2sp/data/x") {
			t.Errorf("%+v", s.Content)
		}
	}
}

// The rows of a list that a framework writes in two forms are told once.
func TestRowsAreToldOnce(t *testing.T) {
	var blocks, rows []string
	for i := range 60 {
		rows = append(rows, fmt.Sprintf(`{"n":%d,"name":"\u00e4 somewhat long name of the row"}`, i))
		blocks = append(blocks, `{"type":"text","text":`+string(rawjson.Quote(fmt.Sprintf("{\n  \"name\": \"ä somewhat long name of the row\",\n  \"n\": %d\n}", i)))+`}`)
	}
	h := metatooltest.New(t, metatool.Options{})
	h.Add("weather", calltest.Say(`{"content":[`+strings.Join(blocks, ",")+`],"structuredContent":{"result":[`+strings.Join(rows, ",")+`]}}`), listTool)
	s := h.Execute(t, "weather", "list", "{}", "")
	if len(s.Content) != 1 || s.StructuredContent != nil || len(s.Env.Artifacts) != 1 || !strings.HasPrefix(s.Content[0].Text, "table: 60 rows × 2 columns") {
		t.Fatalf("%d blocks, structured %.40s, %d artifacts, %s", len(s.Content), s.StructuredContent, len(s.Env.Artifacts), s.Content[0].Text)
	}
	for _, want := range []string{`{"type":"table","columns":["name","n"],"limit":20}`, s.Env.Artifacts[0].Handle, `{"$table":"<handle>"}`} {
		if !strings.Contains(s.Content[0].Text, want) {
			t.Errorf("no %s in %s", want, s.Content[0].Text)
		}
	}
}

func TestDetectIsTheUpstreams(t *testing.T) {
	h := newServed(t, metatool.Options{Tables: tables.Options{Detect: func(upstream string) table.DetectOptions {
		if upstream == "csv" {
			return table.DetectOptions{CSV: true}
		}
		return table.DetectOptions{Paths: []string{"features[].properties"}}
	}}})
	h.Add("csv", calltest.Say(calltest.Text("event,wind\nWind,88\nFlood,\n")), listTool)
	h.Add("geo", calltest.Say(calltest.Text(`{"type":"FeatureCollection","features":[{"type":"Feature","properties":{"event":"Wind"}},{"type":"Feature","properties":{"event":"Flood"}}]}`)), listTool)
	for _, upstream := range []string{"csv", "geo"} {
		s := h.Execute(t, upstream, "list", "{}", `,"abstract_domains":"event"`)
		if !strings.Contains(s.Content[0].Text, `"abstract":[{"_row_id":0,"event":"Wind"},{"_row_id":1,"event":"Flood"}]`) {
			t.Errorf("%s: %s", upstream, s.Content[0].Text)
		}
	}
}

// A result that is too long to read is described by the configured places of its server, and views
// and references to its handle find the same rows.
func TestConfiguredTableIsDescribedAsOne(t *testing.T) {
	h := newServed(t, metatool.Options{Tables: tables.Options{Detect: func(upstream string) table.DetectOptions {
		if upstream != "geo" {
			return table.DetectOptions{}
		}
		return table.DetectOptions{Paths: []string{"features[].properties"}}
	}}})
	var features []string
	for i := range 200 {
		features = append(features, fmt.Sprintf(`{"type":"Feature","properties":{"event":"Wind %d","wind":%d}}`, i, i))
	}
	answer := calltest.Say(calltest.Text(`{"type":"FeatureCollection","features":[` + strings.Join(features, ",") + `]}`))
	h.Add("geo", answer, listTool)
	h.Add("other", answer, listTool)
	h.Add("math", calltest.Echo, calltest.SumTool)
	if s := h.Execute(t, "other", "list", "{}", ""); !strings.HasPrefix(s.Content[0].Text, "table: 200 rows × 2 columns at $.features, in a JSON object with 2 keys") {
		t.Errorf("of another server: %.200s", s.Content[0].Text)
	}
	s := h.Execute(t, "geo", "list", "{}", "")
	if !strings.HasPrefix(s.Content[0].Text, "table: 200 rows × 2 columns at $.features[*].properties\n") {
		t.Fatalf("%.200s", s.Content[0].Text)
	}
	handle := s.Env.Artifacts[0].Handle
	if v := h.Tool(t, metatool.ToolView, `{"handle":"`+handle+`","selector":{"type":"table","columns":["event"],"where":[{"column":"wind","op":"eq","value":7}]}}`); !strings.Contains(v.Content[0].Text, "Wind 7") {
		t.Errorf("%+v", v)
	}
	if s := h.Execute(t, "math", "sum", `{"rows":{"$table":"`+handle+`","row_ids":[3,4]}}`, ""); s.IsError || !strings.Contains(s.Content[0].Text, `[{"event":"Wind 3","wind":3},{"event":"Wind 4","wind":4}]`) {
		t.Errorf("%+v", s)
	}
}

// Values that JSON lacks, as Python writes them, make no difference to what a
// result is: the same rows, null in their place, and one warning.
func TestRowsWithNaN(t *testing.T) {
	const rows = `[{"k":0,"v":NaN,"note":"secret body"},{"k":1,"v":Infinity,"note":"NaN"}]`
	first, second, _ := strings.Cut(strings.Trim(rows, "[]"), "},")
	blocks := `{"content":[{"type":"text","text":` + string(rawjson.Quote(first+"}")) + `},{"type":"text","text":` + string(rawjson.Quote(second)) + `}]}`
	for name, result := range map[string]string{"text": calltest.Text(rows), "one row a block": blocks} {
		h := newServed(t, metatool.Options{})
		h.Add("weather", calltest.Say(result), listTool)
		for mode, urlPrefix := range map[string]string{"async": h.url, "sync": "ddi://"} {
			s := h.Execute(t, "weather", "list", "{}", `,"abstract_domains":"k","mode":"`+mode+`"`)
			text := []byte(s.Content[0].Text)
			url := rawjson.Text(rawjson.Get(text, "resource_url"))
			if s.IsError || !strings.HasPrefix(url, urlPrefix) || strings.Contains(string(text), "secret") || strings.Count(string(text), "2 values were NaN") != 1 {
				t.Fatalf("%s, %s: %s", name, mode, text)
			}
			if mode == "async" {
				if code, body := post(t, url, `{}`); code != 200 || !strings.Contains(body, `"v":null,"note":"secret body"`) || !strings.Contains(body, `"note":"NaN"`) {
					t.Errorf("%s: %d %s", name, code, body)
				}
			}
		}
	}
	// A tool that splits its results itself: the dispatcher, and the URL.
	answer := `{"total_rows":1,"columns":["k","v"],"abstract_domains":["k"],"body_domains":["v"],"abstract":[{"_row_id":0,"k":NaN}],"body":[{"_row_id":0,"v":NaN,"note":"secret body"}]}`
	h := newServed(t, metatool.Options{Tables: tables.Options{Reach: func(string) tables.Reach { return tables.ReachRelay }}})
	h.Add("native", calltest.Say(calltest.Text(answer)), nativeTool)
	s := h.Execute(t, "native", "alerts", "{}", `,"abstract_domains":"k","mode":"sync"`)
	if text := s.Content[0].Text; strings.Contains(text, "secret") || !strings.Contains(text, "ddi://") || !strings.Contains(text, `"k":null`) || strings.Count(text, "were NaN") != 1 {
		t.Errorf("%s", text)
	}
	h.Add("native", calltest.Say(calltest.Text(strings.Replace(answer, `"body":[`, `"resource_url":"http://127.0.0.1:9/s2sp/data/abc","rest":[`, 1))), nativeTool)
	s = h.Execute(t, "native", "alerts", "{}", `,"abstract_domains":"k"`)
	if text := s.Content[0].Text; strings.Contains(text, "127.0.0.1:9/") || !strings.Contains(text, h.url) {
		t.Errorf("%s", text)
	}
}

// What is held back is a table, too, told as one and read as one.
func TestHeldRowsWithNaN(t *testing.T) {
	rows := "[" + strings.Repeat(`{"event":"Wind","v":NaN},`, 199) + `{"event":"Flood","v":-Infinity}]`
	for name, text := range map[string]string{"array": rows, "lines": strings.ReplaceAll(strings.Trim(rows, "[]"), "},", "}\n")} {
		h := metatooltest.New(t, metatool.Options{})
		h.Add("weather", calltest.Say(calltest.Text(text)), listTool)
		s := h.Execute(t, "weather", "list", "{}", "")
		if got := s.Content[0].Text; !strings.HasPrefix(got, "table: 200 rows × 2 columns") || strings.Count(got, "200 values were NaN") != 1 {
			t.Errorf("%s: %s", name, got)
		}
		v := h.Tool(t, metatool.ToolView, `{"handle":"`+s.Env.Artifacts[0].Handle+`","selector":{"type":"table","where":[{"column":"v","op":"null"}],"order_by":"-event","limit":1}}`)
		if got := v.Content[0].Text; got != "_row_id,event,v\n0,Wind," {
			t.Errorf("%s: %s", name, got)
		}
	}
	// Other text passes as it is.
	h := metatooltest.New(t, metatool.Options{})
	for _, text := range []string{`{"v":NaN}`, "{ NaN " + strings.Repeat("prose ", 500)} {
		h.Add("weather", calltest.Say(calltest.Text(text)), listTool)
		s := h.Execute(t, "weather", "list", "{}", "")
		if len(text) < 100 && s.Content[0].Text != text || strings.Contains(s.Content[0].Text, "null") {
			t.Errorf("%s", s.Content[0].Text)
		}
	}
}

// A body that cannot be read is withheld, and the error says that the tool ran.
func TestUnreadableBodyIsWithheld(t *testing.T) {
	answer := `{"total_rows":1,"columns":["k","v"],"abstract_domains":["k"],"body_domains":["v"],"abstract":[{"_row_id":0,"k":1}],"body":[{"_row_id":0,"note":"secret body","v":0x1F}]}`
	for _, reach := range []tables.Reach{tables.ReachDirect, tables.ReachNever} {
		h := newServed(t, metatool.Options{Tables: tables.Options{Reach: func(string) tables.Reach { return reach }}})
		h.Add("native", calltest.Say(calltest.Text(answer)), nativeTool)
		s := h.Execute(t, "native", "alerts", "{}", `,"abstract_domains":"k","mode":"sync"`)
		out, _ := json.Marshal(s)
		e := calltest.Failure(t, s)
		if strings.Contains(string(out), "secret") || e.Error != "UPSTREAM_ERROR" || *e.Retryable || !strings.Contains(e.Message, "HAS run") || !strings.Contains(s.Content[0].Text, `"executed":true`) {
			t.Errorf("%s", out)
		}
	}
}

// Of a server that is asked for mode sync, whatever rows it writes are kept.
func TestKeptBodiesOfEveryShape(t *testing.T) {
	for name, c := range map[string]struct{ answer, want string }{
		"one row":              {`{"total_rows":1,"abstract":{"_row_id":0,"k":1},"body":{"_row_id":0,"v":2}}`, `"body":[{"_row_id":0,"k":1,"v":2}]`},
		"rows in texts":        {`{"total_rows":1,"abstract":"[{\"_row_id\":0,\"k\":1}]","body":"[{\"_row_id\":0,\"v\":2}]"}`, `"body":[{"_row_id":0,"k":1,"v":2}]`},
		"NaN":                  {`{"total_rows":1,"abstract":[{"_row_id":0,"k":1}],"body":[{"_row_id":0,"v":NaN}]}`, `"body":[{"_row_id":0,"k":1,"v":null}]`},
		"a body without rows":  {`{"total_rows":1,"abstract":[{"_row_id":0,"k":1}],"body":[{"v":2}]}`, `"body":[{"_row_id":0,"k":1}]`},
		"a body of other rows": {`{"total_rows":1,"abstract":[{"_row_id":0,"k":1}],"body":[{"_row_id":7,"v":2}]}`, `"body":[{"_row_id":0,"k":1}]`},
	} {
		h := newServed(t, metatool.Options{Tables: tables.Options{Reach: func(string) tables.Reach { return tables.ReachNever }}})
		h.Add("far", calltest.Say(calltest.Text(c.answer)), nativeTool)
		s := h.Execute(t, "far", "alerts", `{}`, `,"abstract_domains":"k"`)
		text := []byte(s.Content[0].Text)
		if code, body := post(t, rawjson.Text(rawjson.Get(text, "resource_url")), `{}`); code != 200 || !strings.Contains(body, c.want) || rawjson.Get(text, "body") != nil {
			t.Errorf("%s: %d %s, %s", name, code, body, text)
		}
	}
	h := newServed(t, metatool.Options{Tables: tables.Options{Reach: func(string) tables.Reach { return tables.ReachNever }}})
	h.Add("far", calltest.Say(calltest.Text(`{"total_rows":1,"abstract":[{"k":1}],"body":[{"secret body":2}]}`)), nativeTool)
	s := h.Execute(t, "far", "alerts", `{}`, `,"abstract_domains":"k"`)
	if e := calltest.Failure(t, s); e.Error != "UPSTREAM_ERROR" || !strings.Contains(e.Message, "_row_id") || strings.Contains(s.Content[0].Text, "secret") {
		t.Errorf("rows without numbers: %+v", s)
	}
}

// Rows that go by a resource_url have the label of their tool, and the consumer's sink rule sees it. The rows that a model
// was not shown do not taint its session.
func TestLabelsOfRowsByURL(t *testing.T) {
	f := flow.New(config.Flow{Mode: config.FlowEnforce, Sinks: []config.FlowSink{{Tool: "draw", Kind: config.SinkEgress}}}, nil)
	h := newServed(t, metatool.Options{Flow: f})
	h.Session = mcp.NewSession("s1", "ann")
	h.Add("weather", calltest.Say(calltest.Text(alertRows)), listTool)
	h.Add("math", calltest.Say(calltest.Text("drawn")), `{"name":"draw","description":"Draw.","inputSchema":{"type":"object","properties":{"abstract_data":{"type":"string"},"resource_url":{"type":"string"}}}}`)
	h.Execute(t, "math", "draw", `{"abstract_data":"[]"}`, "") // trusted so far; its answer is not
	clear := func() {
		t.Helper()
		for _, one := range h.State.Readings(t.Context()) {
			if _, ok, err := h.State.ClearReading(t.Context(), one.Session); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		if left := h.State.Readings(t.Context()); len(left) != 0 {
			t.Fatalf("%+v", left)
		}
	}
	clear()
	if s := h.Execute(t, "math", "draw", `{"abstract_data":"[]"}`, ""); s.IsError {
		t.Fatalf("a sink without rows: %+v", s.Content)
	}
	s := h.Execute(t, "weather", "list", "{}", `,"abstract_domains":"event","mode":"async"`)
	url := rawjson.Text(rawjson.Get([]byte(s.Content[0].Text), "resource_url"))
	clear() // of the abstract, which the model was shown
	for name, args := range map[string]string{
		"a URL of the session": url, "a URL that nobody knows": "http://127.0.0.1:9/s2sp/data/x",
	} {
		s = h.Execute(t, "math", "draw", fmt.Sprintf(`{"abstract_data":"[{\"_row_id\":0}]","resource_url":%q}`, args), "")
		if e := calltest.Failure(t, s); e.Error != "PERMISSION_DENIED" || !strings.Contains(e.Message, "flow") {
			t.Errorf("%s: %+v", name, e)
		}
		if left := h.State.Readings(t.Context()); len(left) != 0 {
			t.Errorf("%s: the session has read %+v", name, left)
		}
	}
}
