package s2sp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/s2sp"
	"github.com/weir-mcp/weir/s2sp/dispatch"
	"github.com/weir-mcp/weir/s2sp/gosdk"
	"github.com/weir-mcp/weir/s2sp/plane"
)

type alertArgs struct {
	Area  string `json:"area" jsonschema:"two letters"`
	Limit int64  `json:"limit,omitempty"`
}

const alerts = `[{"event":"Wind","severity":"Moderate","n":12345678901234567890,"text":"North"},{"event":"Flood","severity":"Minor","n":2,"extra":[1]},{"event":"Wind","severity":"Severe","n":3,"text":"South"}]`

// weather is a server with resource tools, charts one with consumer tools.
func weather(t testing.TB, opts s2sp.Options) (*s2sp.Server, *mcp.ClientSession) {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "weather", Version: "1"}, nil)
	s := newServer(t, opts)
	gosdk.Add(server, s2sp.ResourceTool(s, s2sp.Tool{Name: "get_alerts", Description: "Get the alerts."}, func(_ context.Context, in alertArgs) (s2sp.Rows, error) {
		switch in.Area {
		case "CA":
			return s2sp.RowsFromJSON([]byte(alerts))
		case "XX":
			return s2sp.RowsFromJSON([]byte(`{"event":"one"}`))
		case "LL":
			return s2sp.RowsOf([]map[string]int64{{"limit": in.Limit}})
		case "ID":
			return s2sp.RowsFromJSON([]byte(`[{"_row_id":"own","a":1}]`))
		case "SS":
			return s2sp.Stream(func(add func(json.RawMessage) error) error {
				for i := range 3 {
					if err := add(fmt.Appendf(nil, `{"i":%d,"text":"row %d"}`, i, i)); err != nil {
						return err
					}
				}
				return nil
			}), nil
		case "SX":
			return s2sp.Stream(func(add func(json.RawMessage) error) error { return add(json.RawMessage(`[]`)) }), nil
		case "":
			return s2sp.Rows{}, nil
		}
		return s2sp.Rows{}, errors.New("no such area: use two letters")
	}))
	return s, connect(t, server)
}

func charts(t testing.TB, opts s2sp.Options) *mcp.ClientSession {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "charts", Version: "1"}, nil)
	s := newServer(t, opts)
	gosdk.Add(server, s2sp.ConsumerTool(s, s2sp.Tool{Name: "draw_chart", Description: "Draw a chart."}, func(_ context.Context, rows s2sp.Rows) (string, error) {
		var b strings.Builder
		for _, row := range rows.All() {
			b.Write(row.JSON())
			b.WriteByte('\n')
		}
		if rows.Len() == 7 {
			return "", errors.New("seven rows bring bad luck")
		}
		return b.String(), nil
	}))
	gosdk.Add(server, s2sp.ConsumerResultTool(s, s2sp.Tool{Name: "picture"}, func(context.Context, s2sp.Rows) (*s2sp.Result, error) {
		return &s2sp.Result{More: []json.RawMessage{json.RawMessage(`{"type":"image","mimeType":"image/png","data":"eA=="}`)}}, nil
	}))
	return connect(t, server)
}

func newServer(t testing.TB, opts s2sp.Options) *s2sp.Server {
	t.Helper()
	s, err := s2sp.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 2 {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

func connect(t testing.TB, server *mcp.Server) *mcp.ClientSession {
	t.Helper()
	here, there := mcp.NewInMemoryTransports()
	ss, err := server.Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cs.Close()
		_ = ss.Wait()
	})
	return cs
}

// call gives a result's text and structured content.
func call(t testing.TB, session *mcp.ClientSession, tool string, args map[string]any) (text, structured string) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	if result.IsError || len(result.Content) != 1 {
		t.Fatalf("%s(%v): error %v, content %v", tool, args, result.IsError, result.Content[0])
	}
	if block, ok := result.Content[0].(*mcp.TextContent); ok {
		text = block.Text
	}
	data, err := json.Marshal(result.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	return text, string(data)
}

func refused(t testing.TB, session *mcp.ClientSession, tool string, args map[string]any, says string) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s(%v): protocol error %v", tool, args, err)
	}
	if text := result.Content[0].(*mcp.TextContent).Text; !result.IsError || !strings.Contains(text, says) {
		t.Errorf("%s(%v): %s, want an error with %q", tool, args, text, says)
	}
}

type answer struct {
	TotalRows       int              `json:"total_rows"`
	Columns         []string         `json:"columns"`
	AbstractDomains []string         `json:"abstract_domains"`
	BodyDomains     []string         `json:"body_domains"`
	ResourceURL     *string          `json:"resource_url"`
	Abstract        []map[string]any `json:"abstract"`
	Body            []map[string]any `json:"body"`
	Warnings        []string         `json:"warnings"`
}

func parse(t testing.TB, text string) (a answer) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return a
}

func TestToolsAreDescribed(t *testing.T) {
	_, alertSession := weather(t, s2sp.Options{})
	tools, err := alertSession.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	tool := tools.Tools[0]
	if !strings.HasPrefix(tool.Description, "Get the alerts.") || !strings.Contains(tool.Description, "as few as you can") {
		t.Errorf("description %q", tool.Description)
	}
	schema := tool.InputSchema.(map[string]any)
	properties := schema["properties"].(map[string]any)
	for name, otherwise := range map[string]any{"abstract_domains": "", "mode": "async"} {
		p := properties[name].(map[string]any)
		if p["type"] != "string" || p["default"] != otherwise || p["description"] == "" {
			t.Errorf("%s: %v", name, p)
		}
	}
	if fmt.Sprint(schema["required"]) != "[area]" || properties["area"] == nil || properties["limit"] == nil {
		t.Errorf("schema %v", schema)
	}
	tools, err = charts(t, s2sp.Options{}).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	schema = tools.Tools[0].InputSchema.(map[string]any)
	properties = schema["properties"].(map[string]any)
	for _, name := range []string{"abstract_data", "resource_url", "body_data", "column_mapping"} {
		if p, ok := properties[name].(map[string]any); !ok || p["type"] != "string" || p["description"] == "" {
			t.Errorf("%s: %v", name, properties[name])
		}
	}
	if fmt.Sprint(schema["required"]) != "[abstract_data]" || len(properties) != 4 {
		t.Errorf("schema %v", schema)
	}
}

func TestWithoutDomains(t *testing.T) {
	// A table that is kept finds no room and fails the call.
	_, session := weather(t, s2sp.Options{MaxBytes: 1})
	for name, args := range map[string]map[string]any{
		"absent": {"area": "CA"}, "empty": {"area": "CA", "abstract_domains": ""}, "blank": {"area": "CA", "abstract_domains": " ", "mode": "sync"},
	} {
		text, structured := call(t, session, "get_alerts", args)
		if text != alerts {
			t.Errorf("%s: %s", name, text)
		}
		if strings.Contains(text+structured, "_row_id") || strings.Contains(text+structured, "resource_url") || !strings.HasPrefix(structured, `{"result":[{`) {
			t.Errorf("%s: structured %s", name, structured)
		}
	}
	for area, want := range map[string]string{"XX": `{"event":"one"}`, "ID": `[{"_row_id":"own","a":1}]`, "": `[]`, "SS": `[{"i":0,"text":"row 0"},{"i":1,"text":"row 1"},{"i":2,"text":"row 2"}]`} {
		if text, _ := call(t, session, "get_alerts", map[string]any{"area": area}); text != want {
			t.Errorf("%s: %s, want %s", area, text, want)
		}
	}
	refused(t, session, "get_alerts", map[string]any{"area": "CA", "abstract_domains": "event"}, "no room")
}

func TestArguments(t *testing.T) {
	_, session := weather(t, s2sp.Options{})
	if text, _ := call(t, session, "get_alerts", map[string]any{"area": "LL", "limit": int64(9007199254740993)}); text != `[{"limit":9007199254740993}]` {
		t.Errorf("a large integer became %s", text)
	}
	refused(t, session, "get_alerts", map[string]any{"area": "nowhere"}, "no such area")
	refused(t, session, "get_alerts", map[string]any{}, "area")
	refused(t, session, "get_alerts", nil, "area")
	refused(t, session, "get_alerts", map[string]any{"area": 7}, "area")
	refused(t, session, "get_alerts", map[string]any{"area": "CA", "mode": "later", "abstract_domains": "event"}, `unknown mode "later"`)
	refused(t, session, "get_alerts", map[string]any{"area": "CA", "mode": 5, "abstract_domains": "event"}, "unknown mode 5")
	refused(t, session, "get_alerts", map[string]any{"area": "CA", "abstract_domains": 7}, "abstract_domains")
	refused(t, session, "get_alerts", map[string]any{"area": "CA", "other": 1}, "other")
	refused(t, session, "get_alerts", map[string]any{"area": "SX", "abstract_domains": "i"}, "row 0")
	refused(t, session, "get_alerts", map[string]any{"area": "SX"}, "row 0")
}

func TestAsync(t *testing.T) {
	s, session := weather(t, s2sp.Options{})
	text, structured := call(t, session, "get_alerts", map[string]any{"area": "CA", "abstract_domains": "event, severity,nope"})
	a := parse(t, text)
	if a.TotalRows != 3 || !slices.Equal(a.Columns, []string{"event", "severity", "n", "text", "extra"}) || !slices.Equal(a.BodyDomains, []string{"n", "text", "extra"}) || a.Body != nil || len(a.Warnings) != 1 {
		t.Errorf("answer %s", text)
	}
	if !strings.HasPrefix(s.URL(), "http://127.0.0.1:") || !strings.HasPrefix(*a.ResourceURL, s.URL()+"/s2sp/data/") {
		t.Errorf("resource_url %s of %s", *a.ResourceURL, s.URL())
	}
	if len(a.Abstract) != 3 || len(a.Abstract[0]) != 3 || a.Abstract[2]["_row_id"] != 2.0 || a.Abstract[2]["severity"] != "Severe" {
		t.Errorf("abstract %v", a.Abstract)
	}
	if parse(t, structured).TotalRows != 3 {
		t.Errorf("structured %s", structured)
	}
	// As clients write it that fill in every field, or take a list for a list.
	for _, args := range []map[string]any{{"abstract_domains": []string{"event"}, "mode": ""}, {"abstract_domains": `["event"]`, "mode": nil}} {
		args["area"] = "CA"
		text, _ := call(t, session, "get_alerts", args)
		if b := parse(t, text); b.ResourceURL == nil || b.Body != nil || len(b.Abstract[0]) != 2 {
			t.Errorf("%v: %s", args, text)
		}
	}
	got, err := http.Post(*a.ResourceURL, "application/json", strings.NewReader(`{"row_ids":[0],"columns":["n"]}`))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(got.Body)
	got.Body.Close()
	if err != nil || string(data) != `{"body":[{"_row_id":0,"n":12345678901234567890}],"total_rows":1,"columns_returned":["_row_id","n"]}` {
		t.Errorf("body %s, %v", data, err)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestFromServerToServer(t *testing.T) {
	s, session := weather(t, s2sp.Options{})
	consumer := charts(t, s2sp.Options{Fetch: plane.FetchOptions{Allow: []string{strings.TrimPrefix(s.URL(), "http://")}}})
	for _, area := range []string{"CA", "SS"} {
		domains := map[string]string{"CA": "event", "SS": "i"}[area]
		text, _ := call(t, session, "get_alerts", map[string]any{"area": area, "abstract_domains": `["` + domains + `"]`})
		a := parse(t, text)
		chosen, err := json.Marshal([]map[string]any{a.Abstract[2], a.Abstract[0]})
		if err != nil {
			t.Fatal(err)
		}
		args := map[string]any{"abstract_data": string(chosen), "resource_url": *a.ResourceURL, "column_mapping": `{"text":"story"}`}
		text, structured := call(t, consumer, "draw_chart", args)
		want := map[string]string{
			"CA": `{"_row_id":2,"event":"Wind","severity":"Severe","n":3,"story":"South"}` + "\n" + `{"_row_id":0,"event":"Wind","severity":"Moderate","n":12345678901234567890,"story":"North"}` + "\n",
			"SS": `{"_row_id":2,"i":2,"story":"row 2"}` + "\n" + `{"_row_id":0,"i":0,"story":"row 0"}` + "\n",
		}[area]
		if text != want {
			t.Errorf("%s:\n got %s\nwant %s", area, text, want)
		}
		if !strings.HasPrefix(structured, `{"result":"{\"_row_id\"`) {
			t.Errorf("structured %s", structured)
		}
		refused(t, consumer, "draw_chart", args, "once")
	}
	text, _ := call(t, session, "get_alerts", map[string]any{"area": "CA", "abstract_domains": "event"})
	stranger := charts(t, s2sp.Options{})
	refused(t, stranger, "draw_chart", map[string]any{"abstract_data": `[{"_row_id":0}]`, "resource_url": *parse(t, text).ResourceURL}, "allowed servers")
	refused(t, consumer, "draw_chart", map[string]any{"abstract_data": `x`}, "abstract_data")
	refused(t, consumer, "draw_chart", map[string]any{}, "abstract_data")
	refused(t, consumer, "draw_chart", map[string]any{"abstract_data": `[` + strings.Repeat(`{"_row_id":1},`, 6) + `{"_row_id":1}]`}, "bad luck")
	if text, _ := call(t, consumer, "draw_chart", map[string]any{"abstract_data": ``}); text != "" {
		t.Errorf("no rows: %q", text)
	}
	if _, structured := call(t, consumer, "picture", map[string]any{"abstract_data": `[{"_row_id":1}]`}); structured != `{"rows":1}` {
		t.Errorf("picture: structured %s", structured)
	}
}

// Sync mode with a dispatcher between the tools and the model.
func TestSyncThroughDispatcher(t *testing.T) {
	_, session := weather(t, s2sp.Options{})
	consumer := charts(t, s2sp.Options{})
	text, _ := call(t, session, "get_alerts", map[string]any{"area": "CA", "abstract_domains": "event", "mode": "sync"})
	a := parse(t, text)
	if a.ResourceURL != nil || len(a.Body) != 3 || len(a.Abstract) != 3 || strings.Contains(fmt.Sprint(a.Body[0]), "event") {
		t.Errorf("answer %s", text)
	}
	d := dispatch.New(dispatch.Options{})
	defer d.Close()
	var seen struct {
		StructuredContent answer
	}
	shown, err := d.OnToolResult([]byte(`{"content":[],"structuredContent":` + text + `}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(shown, &seen); err != nil {
		t.Fatal(err)
	}
	if seen.StructuredContent.Body != nil || !strings.HasPrefix(*seen.StructuredContent.ResourceURL, "ddi://") {
		t.Fatalf("the model sees %+v", seen)
	}
	args, err := d.OnToolCall(fmt.Appendf(nil, `{"abstract_data":"[{\"_row_id\":1,\"event\":\"Flood\"}]","resource_url":"%s"}`, *seen.StructuredContent.ResourceURL))
	if err != nil {
		t.Fatal(err)
	}
	var decoded map[string]any
	if err := json.Unmarshal(args, &decoded); err != nil {
		t.Fatal(err)
	}
	if text, _ := call(t, consumer, "draw_chart", decoded); text != `{"_row_id":1,"event":"Flood","severity":"Minor","n":2,"extra":[1]}`+"\n" {
		t.Errorf("rows %s", text)
	}
	refused(t, consumer, "draw_chart", map[string]any{"abstract_data": `[{"_row_id":1}]`, "resource_url": *seen.StructuredContent.ResourceURL}, "ddi://")
}

func TestOneObjectIsOneRow(t *testing.T) {
	_, session := weather(t, s2sp.Options{})
	text, _ := call(t, session, "get_alerts", map[string]any{"area": "XX", "abstract_domains": "event"})
	if a := parse(t, text); a.TotalRows != 1 || a.Abstract[0]["event"] != "one" {
		t.Errorf("answer %s", text)
	}
}

// A server whose data plane is mounted where it listens anyway.
func TestBaseURL(t *testing.T) {
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	s, session := weather(t, s2sp.Options{BaseURL: server.URL + "/"})
	mux.Handle("/s2sp/", s.Handler())
	if s.URL() != server.URL {
		t.Errorf("URL %s, want %s", s.URL(), server.URL)
	}
	text, _ := call(t, session, "get_alerts", map[string]any{"area": "CA", "abstract_domains": "event"})
	resp, err := server.Client().Post(*parse(t, text).ResourceURL, "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("status %s", resp.Status)
	}
}

func TestNewRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, opts := range []s2sp.Options{
		{BaseURL: "weather:8080"}, {BaseURL: "http://h/path"}, {BaseURL: "ftp://h"}, {BaseURL: "http://u@h"},
		{Listen: taken.Addr().String()}, {Listen: ":0"}, {Listen: "0.0.0.0:0"}, {Fetch: plane.FetchOptions{Allow: []string{"no port"}}}, {Dir: "/dev/null/x"},
	} {
		if s, err := s2sp.New(opts); err == nil {
			s.Close()
			t.Errorf("%+v was taken", opts)
		}
	}
}

func TestMistakesPanic(t *testing.T) {
	s := newServer(t, s2sp.Options{})
	for name, f := range map[string]func(){
		"an argument called mode": func() {
			s2sp.ResourceTool(s, s2sp.Tool{Name: "a"}, func(context.Context, struct {
				Mode string `json:"mode"`
			}) (s2sp.Rows, error) {
				return s2sp.Rows{}, nil
			})
		},
		"arguments that are no object": func() {
			s2sp.ResourceTool(s, s2sp.Tool{Name: "b"}, func(context.Context, int) (s2sp.Rows, error) { return s2sp.Rows{}, nil })
		},
		"arguments without a schema": func() {
			s2sp.ResourceTool(s, s2sp.Tool{Name: "c"}, func(context.Context, func()) (s2sp.Rows, error) { return s2sp.Rows{}, nil })
		},
		"annotations that do not encode": func() {
			s2sp.ConsumerTool(s, s2sp.Tool{Name: "e", Annotations: func() {}}, func(context.Context, s2sp.Rows) (string, error) { return "", nil })
		},
		"a consumer with arguments": func() {
			s2sp.ConsumerTool(s, s2sp.Tool{Name: "d", InputSchema: &jsonschema.Schema{Type: "object"}}, func(context.Context, s2sp.Rows) (string, error) { return "", nil })
		},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "s2sp: ") {
					t.Errorf("%s: panic %s", name, got)
				}
			}()
			f()
		}()
	}
}

// Close ends the data plane, also without a session.
func TestCloseEndsTheDataPlane(t *testing.T) {
	s, err := s2sp.New(s2sp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	health := s.URL() + "/s2sp/health"
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(health)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if resp, err := client.Get(health); err == nil {
		resp.Body.Close()
		t.Error("the data plane outlived Close")
	}
}

// The raw form of a tool, for servers that do not use the SDK.
func TestRawTools(t *testing.T) {
	s := newServer(t, s2sp.Options{})
	tool := s2sp.ResourceTool(s, s2sp.Tool{Name: "one", Annotations: map[string]bool{"readOnlyHint": true}}, func(context.Context, struct{}) (s2sp.Rows, error) {
		return s2sp.RowsFromJSON([]byte(`[{"a":"<1>"}]`))
	})
	var listed struct {
		Name        string
		InputSchema struct{ Properties map[string]any }
		Annotations map[string]bool
	}
	if err := json.Unmarshal(tool.Definition(), &listed); err != nil {
		t.Fatal(err)
	}
	if listed.Name != "one" || len(listed.InputSchema.Properties) != 2 || !listed.Annotations["readOnlyHint"] {
		t.Errorf("definition %s", tool.Definition())
	}
	for _, c := range []struct {
		arguments string
		want      string
	}{
		{``, `{"content":[{"type":"text","text":"[{\"a\":\"<1>\"}]"}],"structuredContent":{"result":[{"a":"<1>"}]}}`},
		{`{"mode":"x","abstract_domains":"a"}`, ""},
	} {
		result, err := tool.Call(t.Context(), json.RawMessage(c.arguments))
		if err != nil {
			t.Fatal(err)
		}
		got, err := result.MarshalJSON()
		if err != nil || !json.Valid(got) {
			t.Fatalf("%s, %v", got, err)
		}
		if c.arguments == "" && string(got) != c.want || c.arguments != "" && !strings.HasSuffix(string(got), `"isError":true}`) {
			t.Errorf("%s: %s", c.arguments, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	failing := s2sp.ConsumerTool(s, s2sp.Tool{Name: "two"}, func(ctx context.Context, _ s2sp.Rows) (string, error) { return "", ctx.Err() })
	if _, err := failing.Call(ctx, json.RawMessage(`{"abstract_data":"[]"}`)); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context a call ends with %v", err)
	}
}

func TestRows(t *testing.T) {
	type point struct {
		Name string  `json:"name"`
		X    float64 `json:"x"`
	}
	rows, err := s2sp.RowsOf([]point{{"a<b", 1.5}, {"c", 2}})
	if err != nil {
		t.Fatal(err)
	}
	if rows.Len() != 2 || !slices.Equal(rows.Columns(), []string{"name", "x"}) {
		t.Errorf("%d rows with %q", rows.Len(), rows.Columns())
	}
	for i, row := range rows.All() {
		x, ok := row.Number("x")
		if want := []float64{1.5, 2}[i]; !ok || x != want {
			t.Errorf("row %d: %v", i, x)
		}
		if _, ok := row.Number("name"); ok {
			t.Error("a name is a number")
		}
		if row.Text("nothing") != "" || row.Text("x") == "" {
			t.Errorf("row %d: %q %q", i, row.Text("nothing"), row.Text("x"))
		}
	}
	if got, err := s2sp.Decode[point](rows); err != nil || got[0] != (point{"a<b", 1.5}) {
		t.Errorf("decoded %v, %v", got, err)
	}
	if _, err := s2sp.Decode[[]int](rows); err == nil || !strings.Contains(err.Error(), "row 0") {
		t.Errorf("decoded into lists: %v", err)
	}
	if _, err := s2sp.RowsOf([]int{1}); err == nil {
		t.Error("numbers are rows")
	}
	if _, err := s2sp.RowsOf([]any{func() {}}); err == nil {
		t.Error("functions are rows")
	}
	if _, err := s2sp.RowsFromJSON([]byte(`7`)); err == nil {
		t.Error("7 is a table")
	}
	var none s2sp.Rows
	if none.Len() != 0 || none.Columns() != nil || none.Table() != nil {
		t.Error("zero Rows have something")
	}
	for range none.All() {
		t.Error("zero Rows have a row")
	}
}

// A folder alone lifts the bound on tables, and an error names what a Go server
// sets.
func TestRoomForTables(t *testing.T) {
	ask := func(area string) map[string]any { return map[string]any{"area": area, "abstract_domains": "event"} }
	for _, area := range []string{"CA", "SS"} { // whole, and row by row
		_, session := weather(t, s2sp.Options{MaxBytes: 60})
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "get_alerts", Arguments: ask(area)})
		if err != nil {
			t.Fatal(err)
		}
		if text := result.Content[0].(*mcp.TextContent).Text; !result.IsError || !strings.Contains(text, "no room") || !strings.Contains(text, "s2sp.Options.MaxBytes") || strings.Contains(text, "artifacts.") {
			t.Errorf("%s: %s", area, text)
		}
		dir := t.TempDir()
		server, session := weather(t, s2sp.Options{MaxBytes: 60, Dir: dir})
		var urls []string
		for range 3 { // none is dropped for another
			text, _ := call(t, session, "get_alerts", ask(area))
			urls = append(urls, *parse(t, text).ResourceURL)
		}
		for i, url := range urls {
			resp, err := http.Post(url, "application/json", nil)
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != 200 || !strings.Contains(string(data), `"total_rows":3`) {
				t.Errorf("%s, URL %d at %s: %s %s", area, i, server.URL(), resp.Status, data)
			}
		}
	}
}

// Two million rows go through a resource tool's store in half a gigabyte.
func TestTwoMillionRows(t *testing.T) {
	const rows = 2_000_000
	previous := debug.SetMemoryLimit(512 << 20)
	defer debug.SetMemoryLimit(previous)
	store, err := artifact.Open(artifact.Options{Dir: t.TempDir(), MemoryBytes: 64 << 20, MaxBytes: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	w := store.NewTable("ann", "", tableOptions)
	var row []byte
	var size int64
	for i := range rows {
		row = fmt.Appendf(row[:0], `{"id":%d,"event":"Wind Advisory","text":"gusts of up to %d km/h are expected","n":%d}`, i, i%100, i)
		size += int64(len(row))
		if err := w.Append(row); err != nil {
			t.Fatal(err)
		}
	}
	token, err := w.Deposit(0)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(plane.Handler(store, plane.HandlerOptions{}))
	defer server.Close()
	peak := uint64(0)
	resp, err := server.Client().Post(plane.URL(server.URL, token.Value), "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	buf := make([]byte, 4<<20)
	read := int64(0)
	for {
		n, err := io.ReadFull(resp.Body, buf)
		read += int64(n)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.Sys-m.HeapReleased)
		if err != nil {
			break
		}
	}
	if read != resp.ContentLength || read < size {
		t.Errorf("%d bytes of %d came, of %d written", read, resp.ContentLength, size)
	}
	if peak > 512<<20 {
		t.Errorf("%d MB of memory were used", peak>>20)
	}
	if got := store.Totals(); got.MemoryBytes > 64<<20 || got.DiskBytes < 0 {
		t.Errorf("totals %+v", got)
	}
}
