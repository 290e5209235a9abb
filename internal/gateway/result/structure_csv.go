package result

import (
	"bytes"

	tables "github.com/weir-mcp/weir/s2sp/table"
)

// Bounds of what is told of comma-separated values.
const (
	maxCSVBytes = 4 << 20 // what is larger is told as the text it is
	minCSVRows  = 3
)

// mediaCSV is the media type of comma-separated values.
const mediaCSV = "text/csv"

// csvTable returns text as a table, nil where it is none that a description may
// be sure of: lines of a log and of prose have commas, too, but do not begin
// with a line of names. tool_view is less strict, as whoever asks it for a table
// knows that it is one.
func csvTable(data []byte) *tables.Table {
	if len(data) > maxCSVBytes || !beginsAsCSV(data) { // the rest is read twice, which costs
		return nil
	}
	t, err := tables.Detect(data, tables.DetectOptions{CSV: true})
	if err != nil || t.Len() < minCSVRows {
		return nil
	}
	return t
}

// beginsAsCSV reports whether the first lines are names and values of as many
// columns.
func beginsAsCSV(data []byte) bool {
	// IndexByte searches with vector instructions. IndexAny compares byte by byte, which in a long
	// text of one line costs more than all else that is done with it.
	line := data
	for _, end := range []byte("\n\r") {
		if n := bytes.IndexByte(line, end); n >= 0 {
			line = line[:n]
		}
	}
	return len(line) <= maxCSVBytes>>6 && bytes.IndexByte(line, ',') >= 0 && tables.BeginsAsCSV(data, minCSVRows, isColumnName)
}

// isColumnName reports whether a field of the first line reads like a name.
func isColumnName(name string) bool {
	if name == "" || len(name) > maxNameChars {
		return false
	}
	switch c := name[0]; {
	case c >= '0' && c <= '9', c == '-', c == '.', c == ' ', c == '[', c == '{':
		return false
	}
	switch name[len(name)-1] {
	case '.', '!', '?', ':', ';':
		return false // a sentence
	}
	return true
}

func (d *doc) describeCSV(t *tables.Table) {
	d.kind = docTable
	d.mediaType = mediaCSV
	v := t.View()
	names := v.Columns()
	var columns []column
	for _, name := range names {
		if len(columns) == maxColumns {
			break
		}
		columns = append(columns, column{name: name})
	}
	v.Each(func(_ int, values [][]byte) bool {
		for i := range columns {
			if len(values[i]) > 0 {
				columns[i].types |= typeOf(values[i])
			}
		}
		return true
	})
	d.describeColumns(t.Len(), columns, len(columns) < len(names))
	for i := range min(sampleRows, t.Len()) {
		d.samples = append(d.samples, d.sample(v.AppendRow(nil, i)))
	}
	d.views = append(d.views, []byte(`{"type":"lines","start":0,"end":21}`), appendTableView(nil, columns))
}
