package s2sp

import (
	"bytes"
	"encoding/json"

	"fmt"
	"iter"
	"strconv"

	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/s2sp/table"
)

// Rows is a table: what a resource tool returns and a consumer tool is given.
// Make one with [RowsOf], [RowsFromJSON], [RowsFromTable] or [Stream]. The zero
// Rows has no rows. It does not change and may be used concurrently.
type Rows struct {
	t      *table.Table
	single bool // made of one object, which is what it is outside S2SP
	stream func(add func(row json.RawMessage) error) error
}

// RowsOf makes a table of values that encode to JSON objects: structs or maps.
func RowsOf[T any](values []T) (Rows, error) {
	b := table.NewBuilder(table.Options{}, nil)
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	for i, v := range values {
		buf.Reset()
		if err := enc.Encode(v); err != nil {
			return Rows{}, fmt.Errorf("row %d: %w", i, err)
		}
		if err := b.Append(buf.Bytes()); err != nil {
			return Rows{}, err
		}
	}
	t, err := b.Table()
	return Rows{t: t}, err
}

// RowsFromJSON reads a table from JSON: an array of objects, an object whose only
// member is one, one object a line, or one object, which is one row. Values stay
// as they are written. data must not be changed any more.
func RowsFromJSON(data []byte) (Rows, error) {
	t, err := table.Detect(data, table.DetectOptions{})
	if err == nil {
		return Rows{t: t}, nil
	}
	if one, oneErr := table.Detect(data, table.DetectOptions{One: true}); oneErr == nil {
		return Rows{t: one, single: true}, nil
	}
	return Rows{}, err
}

// RowsFromTable takes a table as it is.
func RowsFromTable(t *table.Table) Rows { return Rows{t: t} }

// Stream makes a table of rows that come one after the other and need not fit in
// memory together. produce is called at most once, when the call is answered,
// and calls add for each row, a JSON object; an error of add must end it.
//
// The rows themselves can be read only through a consumer: the other methods of
// such Rows see none.
func Stream(produce func(add func(row json.RawMessage) error) error) Rows {
	return Rows{stream: produce}
}

// Len is the number of rows.
func (r Rows) Len() int {
	if r.t == nil {
		return 0
	}
	return r.t.Len()
}

// Columns lists the columns in order of first appearance.
func (r Rows) Columns() []string {
	if r.t == nil {
		return nil
	}
	return r.t.Columns()
}

// Table is the rows as a table, nil where there are none.
func (r Rows) Table() *table.Table { return r.t }

// All iterates over the rows.
func (r Rows) All() iter.Seq2[int, Row] {
	return func(yield func(int, Row) bool) {
		for i := range r.Len() {
			if !yield(i, Row{r.t, i}) {
				return
			}
		}
	}
}

// Row returns row i. It panics where there is no such row.
func (r Rows) Row(i int) Row { return Row{r.t, i} }

// Row is one row of Rows.
type Row struct {
	t *table.Table
	n int
}

// JSON is the row as it is written.
func (r Row) JSON() json.RawMessage { return r.t.Row(r.n) }

// Get is the value of a column as it is written, nil where the row has none.
func (r Row) Get(column string) json.RawMessage { return r.t.Cell(r.n, column) }

// Text is the value of a column as text: a string without its quotes, everything
// else as it is written, and "" where there is nothing or null.
func (r Row) Text(column string) string {
	v := r.Get(column)
	switch {
	case len(v) == 0 || v[0] == 'n':
		return ""
	case v[0] == '"':
		return rawjson.Text(v)
	}
	return string(v)
}

// Number is the value of a column as a number. A string that is one counts.
func (r Row) Number(column string) (float64, bool) {
	f, err := strconv.ParseFloat(r.Text(column), 64)
	return f, err == nil
}

// Decode decodes all rows into values, as encoding/json does.
func Decode[T any](r Rows) ([]T, error) {
	values := make([]T, r.Len())
	for i, row := range r.All() {
		if err := json.Unmarshal(row.JSON(), &values[i]); err != nil {
			return nil, fmt.Errorf("row %d: %w", i, err)
		}
	}
	return values, nil
}
