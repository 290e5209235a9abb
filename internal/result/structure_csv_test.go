package result

import (
	"fmt"
	"strings"
	"testing"

	tables "github.com/weir-mcp/weir/s2sp/table"
)

func TestShapeHoldsCSV(t *testing.T) {
	text := "city,people,\"mean, \u00b0C\"\n"
	for i := range 200 {
		text += fmt.Sprintf("\"Town, %d\",%d,%d.5\n", i, 1000+i, i%30)
	}
	s, k, _ := shape(t, Firewall{}, textResult(text), FormatText)
	if s.env.Stats.Strategy != strategyTable || s.env.Artifacts[0].MediaType != "text/csv" || k[s.env.Artifacts[0].Handle] != text {
		t.Fatalf("%+v", s.env)
	}
	want := "table: 200 rows × 3 columns\ncolumns: city string, people integer, \"mean, °C\" number\nfirst rows:\n" + `{"city":"Town, 0","people":1000,"mean, °C":0.5}`
	if got := s.Content[0].Text; !strings.HasPrefix(got, want) || !strings.Contains(got, "$table") {
		t.Errorf("%s\nwant %s", got, want)
	}
	// Whatever is suggested works.
	for _, view := range s.env.Views {
		v, err := selectBytes(t.Context(), s.env.Artifacts[0], []byte(text), view, ViewOptions{})
		if err != nil || !strings.Contains(v.Text, "Town, 19") {
			t.Errorf("%s: %.100s, %v", view, v.Text, err)
		}
	}
}

// What only looks like a table is told as the text it is.
func TestShapeTakesNoProseForCSV(t *testing.T) {
	for name, line := range map[string]string{
		"a log":       "2026-11-21 02:32:26,123 INFO started worker\n",
		"prose":       "Well, that is it.\n",
		"ragged":      "a, b, c and, sometimes,\nd\n",
		"one column":  "only this\n",
		"no names":    "1,2,3\n4,5,6\n",
		"empty names": ",,\n1,2,3\n",
	} {
		s, _, _ := shape(t, Firewall{}, textResult(strings.Repeat(line, 400)), FormatText)
		if s.env.Stats.Strategy != strategySummary || s.env.Artifacts[0].MediaType != "text/plain" {
			t.Errorf("%s: %s, %s", name, s.env.Stats.Strategy, s.Content[0].Text)
		}
	}
}

func TestSuggestedViewOfATable(t *testing.T) {
	for _, tt := range []struct {
		columns []column
		want    string
	}{
		{nil, `{"type":"table","limit":20}`},
		{[]column{{name: tables.RowID}}, `{"type":"table","limit":20}`},
		{[]column{{name: tables.RowID}, {name: "a"}, {name: "b"}}, `{"type":"table","columns":["a","b"],"limit":20}`},
	} {
		if got := string(appendTableView(nil, tt.columns)); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.columns, got, tt.want)
		}
	}
}
