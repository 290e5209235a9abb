package demo

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// alertsAnswer is get_alerts with abstract_domains.
type alertsAnswer struct {
	TotalRows   int              `json:"total_rows"`
	Columns     []string         `json:"columns"`
	BodyDomains []string         `json:"body_domains"`
	ResourceURL string           `json:"resource_url"`
	Abstract    []map[string]any `json:"abstract"`
	Body        []map[string]any `json:"body"`
}

// picture checks that a result has a picture that is well-formed XML, and gives
// its texts.
func picture(t *testing.T, result *mcp.CallToolResult) (texts []string) {
	t.Helper()
	if len(result.Content) != 2 {
		t.Fatalf("%d content blocks, want text and a picture: %v", len(result.Content), result.Content[0])
	}
	image, ok := result.Content[1].(*mcp.ImageContent)
	if !ok || image.MIMEType != "image/svg+xml" {
		t.Fatalf("the second block is %+v", result.Content[1])
	}
	dec := xml.NewDecoder(strings.NewReader(string(image.Data)))
	elements := map[string]int{}
	inText := false
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			elements[tok.Name.Local]++
			inText = tok.Name.Local == "text"
		case xml.CharData:
			if inText {
				texts = append(texts, string(tok))
			}
		}
	}
	if elements["svg"] != 1 || elements["rect"] < 2 {
		t.Errorf("elements %v", elements)
	}
	return texts
}

// TestWindAlertsInAChart is the walk of the protocol's text: read two columns, choose
// rows, hand them on, and let the chart server get the rest itself.
func TestWindAlertsInAChart(t *testing.T) {
	weather := overStdio(t, "weather")
	var answer alertsAnswer
	call(t, weather, "get_alerts", map[string]any{"rows": 5000, "abstract_domains": "event,severity"}, &answer)
	if answer.TotalRows != 5000 || len(answer.Columns) != 31 || len(answer.BodyDomains) != 29 || len(answer.Abstract) != 5000 || answer.Body != nil {
		t.Fatalf("%d rows, %d columns, %d in the body", answer.TotalRows, len(answer.Columns), len(answer.BodyDomains))
	}
	wind := slices.DeleteFunc(answer.Abstract, func(row map[string]any) bool { return !strings.Contains(row["event"].(string), "Wind") })
	chosen, err := json.Marshal(wind)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(answer.ResourceURL)
	if err != nil {
		t.Fatal(err)
	}
	chart := overStdio(t, "chart", at.Host)
	args := map[string]any{"abstract_data": string(chosen), "resource_url": answer.ResourceURL, "column_mapping": `{"event":"label","wind_kmh":"value"}`}
	result, err := chart.CallTool(t.Context(), &mcp.CallToolParams{Name: "draw_chart", Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	texts := picture(t, result)
	if !slices.Contains(texts, "High Wind Warning") || !slices.Contains(texts, "Wind Advisory") || !slices.Contains(texts, "mean value by label") {
		t.Errorf("texts %q", texts)
	}
	var drawn barChart
	data, err := json.Marshal(result.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &drawn); err != nil {
		t.Fatal(err)
	}
	means := map[string]float64{}
	counts := map[string]float64{}
	for _, a := range alerts(alertFilter{}, 5000) {
		if strings.Contains(a.Event, "Wind") {
			means[a.Event] += float64(a.WindKmh)
			counts[a.Event]++
		}
	}
	if drawn.Rows != len(wind) || len(drawn.Bars) != len(means) {
		t.Errorf("drawn %+v", drawn)
	}
	for _, b := range drawn.Bars {
		if want := means[b.Label] / counts[b.Label]; b.Value-want > 1e-9 || want-b.Value > 1e-9 || b.Rows != int(counts[b.Label]) {
			t.Errorf("bar %+v, want %v", b, want)
		}
	}
	result, err = chart.CallTool(t.Context(), &mcp.CallToolParams{Name: "draw_chart", Arguments: args})
	if err != nil || !result.IsError || !strings.Contains(result.Content[0].(*mcp.TextContent).Text, "once") {
		t.Errorf("drawn twice from one resource_url: %+v, %v", result, err)
	}
}

func TestAlertsInSyncMode(t *testing.T) {
	weather := overStdio(t, "weather")
	var answer alertsAnswer
	call(t, weather, "get_alerts", map[string]any{"area": "CA", "rows": 3, "abstract_domains": `["event"]`, "mode": "sync"}, &answer)
	if len(answer.Body) != 3 || len(answer.Body[0]) != 31 || len(answer.Abstract[0]) != 2 || answer.ResourceURL != "" {
		t.Errorf("answer %+v", answer)
	}
	body, err := json.Marshal(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := json.Marshal(answer.Abstract)
	if err != nil {
		t.Fatal(err)
	}
	result, err := overStdio(t, "chart").CallTool(t.Context(), &mcp.CallToolParams{Name: "draw_chart", Arguments: map[string]any{"abstract_data": string(chosen), "body_data": string(body)}})
	if err != nil {
		t.Fatal(err)
	}
	picture(t, result)
}

func TestCharts(t *testing.T) {
	chart := overStdio(t, "chart")
	draw := func(rows string) *mcp.CallToolResult {
		t.Helper()
		result, err := chart.CallTool(t.Context(), &mcp.CallToolParams{Name: "draw_chart", Arguments: map[string]any{"abstract_data": rows}})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	result := draw(`[{"_row_id":0,"n":1,"kind":"a & <b>\u0000"},{"_row_id":1,"kind":"c"},{"_row_id":2,"kind":"c"}]`)
	if texts := strings.Join(picture(t, result), "|"); !strings.Contains(texts, "rows by kind|c|2|a & <b>") {
		t.Errorf("texts %q", texts)
	}
	if text := result.Content[0].(*mcp.TextContent).Text; !strings.HasPrefix(text, "Drew rows by kind for 3 rows: c 2;") {
		t.Errorf("text %q", text)
	}
	picture(t, draw(`[{"_row_id":0,"label":"up","value":5},{"_row_id":1,"label":"down","value":-5},{"_row_id":2,"label":"none","value":null}]`))
	picture(t, draw(`[{"_row_id":0,"label":"flat","value":0}]`))
	picture(t, draw(`[{"_row_id":0,"label":"huge","value":1e308},{"_row_id":1,"label":"low","value":-1e308}]`))
	var many []string
	for i := range 30 {
		many = append(many, `{"_row_id":`+strings.Repeat("1", i+1)+`,"label":"`+strings.Repeat("x", i+1)+`"}`)
	}
	result = draw("[" + strings.Join(many, ",") + "]")
	picture(t, result)
	if text := result.Content[0].(*mcp.TextContent).Text; !strings.HasSuffix(text, "and 10 more.") {
		t.Errorf("text %q", text)
	}
	refused(t, chart, "draw_chart", map[string]any{"abstract_data": `[]`}, "no rows")
	refused(t, chart, "draw_chart", map[string]any{"abstract_data": `[{"_row_id":0,"n":1}]`}, "column_mapping")
	refused(t, chart, "draw_chart", map[string]any{"abstract_data": `[{"_row_id":0,"label":"a","value":"x"}]`}, "no numbers")
	refused(t, chart, "draw_chart", map[string]any{"abstract_data": `[{"_row_id":0,"label":"a"}]`, "resource_url": "http://169.254.169.254/s2sp/data/x"}, "169.254.169.254")
}

// Labels come from other servers. Whatever they hold, the picture is XML.
func TestLabelsAreEscaped(t *testing.T) {
	for text, want := range map[string]string{
		`<b a="1">&'`:      `&lt;b a=&#34;1&#34;&gt;&amp;&#39;`,
		"a\x00b\x1fc\td":   "a\uFFFDb\uFFFDc\td",
		"\uFFFE\uFFFF\xff": "\uFFFD\uFFFD\uFFFD",
		"naïve ☂ 😀":        "naïve ☂ 😀",
	} {
		got := escape(text)
		if got != want {
			t.Errorf("escape(%q) = %q, want %q", text, got, want)
		}
		var element struct {
			Text string `xml:",chardata"`
		}
		if err := xml.Unmarshal([]byte("<t>"+got+"</t>"), &element); err != nil {
			t.Errorf("%q: %v", got, err)
		}
	}
}
