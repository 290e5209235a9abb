package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weir-mcp/weir/s2sp"
	"github.com/weir-mcp/weir/s2sp/table"
)

const chartInstructions = "Draws bar charts of tables that other servers return. draw_chart takes the rows you chose from a tool's abstract and its resource_url; " +
	"name the columns to draw with column_mapping."

// The columns that the chart server looks for in its rows.
const (
	labelColumn = "label"
	valueColumn = "value"
	maxBars     = 20
)

var errNothingToDraw = errors.New("nothing to draw")

// newChart builds the chart server without its tool. It has no state.
func newChart(func() time.Time) *server {
	return newServer("chart", "Charts", chartInstructions)
}

// addChartTools adds draw_chart, which is given merged rows whichever way they came.
func addChartTools(server *server, s *s2sp.Server) {
	server.addTool(s2sp.ConsumerResultTool(s, s2sp.Tool{
		Name:  "draw_chart",
		Title: "Draw a bar chart",
		Description: "Draw a bar chart of rows of a table, as an SVG picture: one bar for each value of the column \"label\", as long as the mean of the column \"value\", " +
			"or as the number of rows where there is no such column. Without a column \"label\" the first column of text is taken. " +
			"Name them with column_mapping, such as {\"event\": \"label\", \"wind_kmh\": \"value\"}.",
		Annotations: reads(),
	}, func(ctx context.Context, rows s2sp.Rows) (*s2sp.Result, error) {
		c, err := newBarChart(ctx, rows)
		if err != nil {
			return nil, err
		}
		structured, err := json.Marshal(c)
		if err != nil {
			return nil, fmt.Errorf("describing the chart: %w", err)
		}
		picture, err := json.Marshal(struct {
			Type     string `json:"type"`
			MIMEType string `json:"mimeType"`
			Data     []byte `json:"data"`
		}{"image", "image/svg+xml", c.svg()})
		if err != nil {
			return nil, fmt.Errorf("writing the picture: %w", err)
		}
		return &s2sp.Result{Text: c.String(), More: []json.RawMessage{picture}, Structured: structured}, nil
	}))
}

// barChart is the chart to draw.
type barChart struct {
	Title string `json:"title"`
	Rows  int    `json:"rows"`
	Label string `json:"label"` // the column that names the bars
	Left  int    `json:"bars_left_out"`
	Bars  []bar  `json:"bars"`
}

type bar struct {
	Label string  `json:"label"`
	Value float64 `json:"value"`
	Rows  int     `json:"rows"`
}

// newBarChart groups rows into bars, the longest first.
func newBarChart(ctx context.Context, rows s2sp.Rows) (*barChart, error) {
	if rows.Len() == 0 {
		return nil, fmt.Errorf("%w: there are no rows; give some of the resource tool's abstract as abstract_data, each with its _row_id", errNothingToDraw)
	}
	c := &barChart{Rows: rows.Len(), Label: labelOf(rows)}
	if c.Label == "" {
		return nil, fmt.Errorf("%w: no column holds text to name the bars by; name one with column_mapping, {\"old\": \"label\"}; the columns are %s", errNothingToDraw, strings.Join(rows.Columns(), ", "))
	}
	query := table.Query{GroupBy: []string{c.Label}, Aggregate: []table.Aggregate{{Op: "count", As: "_rows"}}, OrderBy: []table.Order{{Column: "_rows", Descending: true}}}
	c.Title = "rows by " + c.Label
	measured := rows.Table().Has(valueColumn)
	if measured {
		query.Aggregate = append(query.Aggregate, table.Aggregate{Op: "avg", Column: valueColumn, As: "_mean"})
		query.OrderBy = []table.Order{{Column: "_mean", Descending: true}}
		c.Title = "mean value by " + c.Label
	}
	answer, err := rows.Table().View().Query(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("grouping the rows: %w", err)
	}
	groups := s2sp.RowsFromTable(answer.View.Table())
	for i := range answer.View.Len() {
		if len(c.Bars) == maxBars {
			c.Left = answer.View.Len() - maxBars
			break
		}
		row := groups.Row(answer.View.ID(i))
		count, _ := row.Number("_rows")
		b := bar{Label: row.Text(c.Label), Value: count, Rows: int(count)}
		if measured {
			var ok bool
			if b.Value, ok = row.Number("_mean"); !ok {
				continue // no row of this bar has a number
			}
		}
		c.Bars = append(c.Bars, b)
	}
	if len(c.Bars) == 0 {
		return nil, fmt.Errorf("%w: the column %q holds no numbers", errNothingToDraw, valueColumn)
	}
	return c, nil
}

// labelOf is the column that names the bars: label, or the first that is text.
func labelOf(rows s2sp.Rows) string {
	if rows.Table().Has(labelColumn) {
		return labelColumn
	}
	for _, row := range rows.All() {
		for _, column := range rows.Columns() {
			if v := row.Get(column); len(v) > 0 && v[0] == '"' && column != table.RowID && column != valueColumn {
				return column
			}
		}
	}
	return ""
}

// String describes the chart in words.
func (c *barChart) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Drew %s for %d rows:", c.Title, c.Rows)
	for _, bar := range c.Bars {
		fmt.Fprintf(&b, " %s %s;", bar.Label, number(bar.Value))
	}
	if c.Left > 0 {
		fmt.Fprintf(&b, " and %d more.", c.Left)
		return b.String()
	}
	return strings.TrimSuffix(b.String(), ";") + "."
}
