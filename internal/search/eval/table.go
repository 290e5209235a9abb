package eval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteTable prints the report for people: a row per set, the macro rows, then the warnings.
func (r Report) WriteTable(w io.Writer) error {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(cells ...string) { _, _ = fmt.Fprintln(t, strings.Join(cells, "\t")+"\t") }
	line("set", "tools", "queries", "R@1", "R@5", "R@10", "nDCG@10", "MRR", "build ms", "queries/s", "p50 µs", "p99 µs")
	for _, row := range r.Rows {
		cells := []string{row.Set, strconv.Itoa(row.Tools), strconv.Itoa(row.Queries)}
		cells = append(cells, row.cells()...)
		line(append(cells, in(row.Build, time.Millisecond), strconv.FormatFloat(row.QueriesPerSecond, 'f', 0, 64),
			in(row.P50, time.Microsecond), in(row.P99, time.Microsecond))...)
	}
	for _, m := range r.Macros {
		cells := []string{fmt.Sprintf("macro %s (%d)", m.Name, m.Sets), "", ""}
		cells = append(cells, m.cells()...)
		line(append(cells, "", "", "", "")...)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, row := range r.Rows {
		for _, warning := range row.Warnings {
			fmt.Fprintf(&b, "warning: %s: %s\n", row.Set, warning)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// WriteJSON prints the report for programs, one object.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func (m Metrics) cells() []string {
	out := make([]string, 0, 5)
	for _, x := range []float64{m.R1, m.R5, m.R10, m.NDCG, m.MRR} {
		out = append(out, strconv.FormatFloat(x, 'f', 3, 64))
	}
	return out
}

func in(d, unit time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(unit), 'f', 1, 64)
}
