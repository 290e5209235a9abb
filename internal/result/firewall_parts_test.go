package result

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// A list of links is one table, however long it is.
func TestShapeManyLinks(t *testing.T) {
	link := func(i int) string {
		return fmt.Sprintf(`{"type":"resource_link","uri":"file:///%d","name":"file %d"}`, i, i)
	}
	var links []string
	for i := range 500 {
		links = append(links, link(i))
	}
	s, k, _ := shape(t, Firewall{}, `{"content":[`+strings.Join(links, ",")+`]}`, FormatText)
	if len(k) != 1 || len(s.env.Artifacts) != 1 {
		t.Fatalf("%d artifacts", len(k))
	}
	passed := len(s.Content) - 1
	table := k[s.env.Artifacts[0].Handle]
	if !strings.HasPrefix(table, "["+link(passed)+",") || !strings.HasSuffix(table, link(499)+"]") {
		t.Errorf("after %d links that pass, %.100s", passed, table)
	}
	if want := fmt.Sprintf("%d more resource links: table: %d rows × 3 columns", 500-passed, 500-passed); !strings.HasPrefix(s.Content[passed].Text, want) {
		t.Errorf("%s\nwant %s", s.Content[passed].Text, want)
	}
	if stats := s.env.Stats; stats.Strategy != strategyTable || *stats.ArtifactRef != s.env.Artifacts[0].Handle || len(s.env.Views) == 0 || s.env.Summary == "" {
		t.Errorf("%+v", s.env)
	}
	if s, k, _ = shape(t, Firewall{}, `{"content":[`+strings.Join(links, ",")+`]}`, FormatJSON); len(k) != 1 || !strings.Contains(s.env.Summary, "500 rows") {
		t.Errorf("%d artifacts, summary %q", len(k), s.env.Summary)
	}
}

// What stands beside text that passes has views of its own, and both counts are
// of the same things.
func TestShapeHeldBesideText(t *testing.T) {
	items := `{"items":[` + strings.Repeat(`{"id":1},`, 1000) + `{"id":2}]}`
	words := func(s string) int { return len(strings.Fields(s)) }
	s, _, _ := shape(t, Firewall{CountTokens: words}, `{"content":[{"type":"text","text":"ok"}],"structuredContent":`+items+`}`, FormatText)
	stats := s.env.Stats
	if stats.ArtifactRef == nil || len(s.env.Views) == 0 || !strings.Contains(s.Content[1].Text, string(s.env.Views[0])) {
		t.Errorf("views %s, stats %+v", s.env.Views, stats)
	}
	if stats.OriginalChars != len("ok")+len(items) || stats.OriginalTokens != nil {
		t.Errorf("original: %+v", stats)
	}
	if stats.SummaryChars != 2+utf8.RuneCountInString(s.Content[1].Text) || stats.SummaryTokens == nil || *stats.SummaryTokens != 1+words(s.Content[1].Text) {
		t.Errorf("summary: %+v", stats)
	}
}

// original_chars, the description and the artifact count the same text.
func TestShapeCountsJoints(t *testing.T) {
	for _, texts := range [][]string{{strings.Repeat("line\n", 1000)}, {"", strings.Repeat("a ", 2000), "b"}, {strings.Repeat("é", 3001), "x\n"}} {
		s, k, _ := shape(t, Firewall{}, textResult(texts...), FormatText)
		n := utf8.RuneCountInString(k[s.env.Artifacts[0].Handle])
		if s.env.Stats.OriginalChars != n || !strings.Contains(s.Content[0].Text, fmt.Sprintf("text: %d characters", n)) {
			t.Errorf("%d characters, stats %+v, %s", n, s.env.Stats, s.Content[0].Text)
		}
		if s.env.Stats.SummaryChars != utf8.RuneCountInString(s.Content[0].Text) {
			t.Errorf("%d characters shown, stats %+v", utf8.RuneCountInString(s.Content[0].Text), s.env.Stats)
		}
	}
}

// TestExampleOfCSV: the first example for a held CSV selects a table by its columns, and it works.
func TestExampleOfCSV(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("sku,left\n")
	for i := range 300 {
		fmt.Fprintf(&rows, "BIK-%03d,%d\n", i, i)
	}
	s, _, _ := shape(t, Firewall{}, textResult(rows.String()), FormatText)
	if len(s.env.Views) == 0 || !strings.Contains(s.Content[0].Text, string(s.env.Views[0])) {
		t.Fatalf("views %s\n%s", s.env.Views, s.Content[0].Text)
	}
	view := string(s.env.Views[0])
	if !strings.Contains(view, `"type":"table"`) || !strings.Contains(view, "sku") {
		t.Errorf("the first example is %s", view)
	}
	if v := csvView(t, rows.String(), view); !strings.Contains(v.Text, "BIK-000") {
		t.Errorf("%s shows %q", view, v.Text)
	}
}
