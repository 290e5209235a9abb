package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/s2sp/table"
)

// A description finds the tables that $table and abstract_domains find, and each view that it
// suggests shows rows.
func TestDescribesTheTableThatDetectFinds(t *testing.T) {
	var features, spread []string
	for i := range 100 {
		features = append(features, fmt.Sprintf(`{"type":"Feature","properties":{"event":"Wind %d","level":%d}}`, i, i))
		spread = append(spread, fmt.Sprintf("{\n  \"event\": \"Wind %d\",\n  \"level\": %d\n}", i, i))
	}
	geo := `{"type":"FeatureCollection","title":"Alerts","features":[` + strings.Join(features, ",") + `]}`
	paths := func(list ...string) table.DetectOptions { return table.DetectOptions{Paths: list} }
	for _, c := range []struct {
		name, data  string
		opts        table.DetectOptions
		shown, kept string // the headline, the media type
	}{
		{"members of the elements", geo, paths("items", "features[].properties"), "table: 100 rows × 2 columns at $.features[*].properties", `application/json; rows="features[].properties"`},
		{"an array among others", geo, paths("features"), "table: 100 rows × 2 columns at $.features", "application/json; rows=features"},
		{"nested", `{"n":1,"data":` + geo + `}`, paths("data.features[].properties"), "table: 100 rows × 2 columns at $.data.features[*].properties", `application/json; rows="data.features[].properties"`},
		{"not configured", geo, table.DetectOptions{}, "table: 100 rows × 2 columns at $.features, in a JSON object with 3 keys, 6338 characters", "application/json"},
		{"a path to nothing", geo, paths("rows"), "table: 100 rows × 2 columns at $.features, in a JSON object with 3 keys, 6338 characters", "application/json"},
		{"objects of several lines", strings.Join(spread, "\n"), table.DetectOptions{}, "table: 100 rows × 2 columns", "application/x-ndjson"},
		{"a byte order mark", "\ufeff[" + strings.Join(spread, ",") + "]", table.DetectOptions{}, "table: 100 rows × 2 columns", "application/json"},
		{"an abstract of its own", `{"abstract":[{"text":"` + strings.Repeat("long ", 900) + `"}],"abstract_domains":["x"],"title":"a paper"}`, table.DetectOptions{}, "JSON object with 3 keys", "application/json"},
		{"CSV, configured", "a,2026\n" + strings.Repeat("x,1\n", 1000), table.DetectOptions{CSV: true}, "table: 1000 rows × 2 columns", "text/csv"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, k, _ := shape(t, Firewall{Tables: c.opts}, textResult(c.data), FormatText)
			a := s.env.Artifacts[0]
			if got, _, _ := strings.Cut(s.Content[0].Text, "\n"); !strings.HasPrefix(got, c.shown) || strings.HasPrefix(c.shown, "table") && got != c.shown || a.MediaType != c.kept {
				t.Fatalf("%q of type %s, want %q of type %s", got, a.MediaType, c.shown, c.kept)
			}
			views := s.env.Views
			if strings.HasPrefix(c.shown, "table") {
				views = append(views, json.RawMessage(`{"type":"rows","start":1,"end":2}`), json.RawMessage(`{"type":"search","pattern":"."}`))
			}
			for _, view := range views {
				v, err := selectBytes(t.Context(), a, []byte(k[a.Handle]), view, ViewOptions{})
				if err != nil || v.Text == "" || strings.HasPrefix(c.shown, "table") && strings.Contains(v.Text, "Feature\"") && !strings.HasSuffix(c.kept, "=features") && c.kept != "application/json" {
					t.Errorf("%s: %.200s, %v", view, v.Text, err)
				}
			}
			if c.shown == "table: 100 rows × 2 columns at $.features[*].properties" {
				v, err := selectBytes(t.Context(), a, []byte(k[a.Handle]), json.RawMessage(`{"type":"json_path","path":"$.features[0].properties"}`), ViewOptions{})
				if err != nil || !strings.Contains(v.Text, "Wind 0") || !strings.Contains(string(s.env.Views[2]), "$.features[0].properties") {
					t.Errorf("%s: %s, %v", s.env.Views[2], v.Text, err)
				}
			}
		})
	}
}

// The index of a table in a result is counted while the result is described. Without room for it, the result is no
// table.
func TestIndexIsCounted(t *testing.T) {
	for name, data := range map[string]string{
		"rows":              `[{"a":1},{"a":2}]`,
		"rows in an object": `{"x":1,"rows":[{"a":1},{"a":2}]}`,
		"lines of commas":   "a,b,c\n1,2,3\n4,5,6\n7,8,9\n",
	} {
		for _, full := range []bool{false, true} {
			grown := int64(0)
			opts := table.DetectOptions{Options: table.Options{Grow: func(n int64) error {
				if grown += n; full {
					return errors.New("full")
				}
				return nil
			}}}
			d := describe([]byte(data), opts, func(s string) string { return s }, makeOnHeap)
			if grown == 0 || (d.kind == docTable) == full {
				t.Errorf("%s, full: %t: %d bytes are counted, a table: %t", name, full, grown, d.kind == docTable)
			}
		}
	}
}
