package result

import (
	"bytes"
	"errors"

	tables "github.com/weir-mcp/weir/s2sp/table"
)

// Bounds of what is told of comma-separated values.
const (
	maxCSVBytes = 4 << 20 // what is larger is told as the text it is
	minCSVRows  = 3
	// A row repeats the names of its columns, so lines of commas make a table of many times their
	// bytes. A larger one is told as the text it is.
	maxCSVTable = 64 << 20
)

var errLargeCSV = errors.New("a table of comma-separated values that is too large")

// csvTable returns text as a table of comma-separated values. It returns nil if that is not certain:
// lines of a log and of prose have commas as well, but do not start with a line of names. opts.CSV
// says that the server is known to answer in CSV; then all that Detect accepts is certain. tool_view
// accepts it always, because its caller knows what it asks for.
func csvTable(data []byte, opts tables.DetectOptions) *tables.Table {
	configured := opts.CSV
	if len(data) > maxCSVBytes || !configured && !beginsAsCSV(data) { // the rest is read twice, which costs
		return nil
	}
	held := int64(0)
	t, err := tables.Detect(data, tables.DetectOptions{CSV: true, Options: tables.Options{Grow: func(bytes int64) error {
		if held += bytes; held > maxCSVTable {
			return errLargeCSV
		}
		if opts.Grow != nil {
			return opts.Grow(bytes)
		}
		return nil
	}}})
	if err != nil || t.Len() == 0 || !configured && t.Len() < minCSVRows {
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
	columns := d.describeTable(t, mediaCSV)
	d.views = append(d.views, appendTableView(nil, columns), []byte(`{"type":"lines","start":0,"end":21}`))
}
