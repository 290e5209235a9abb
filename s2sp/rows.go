package s2sp

import (
	"bytes"
	"encoding/json"

	"fmt"
	"iter"
	"strconv"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/s2sp/table"
)

// Rows is a table: the result of a resource tool and the input of a consumer tool. Make one with
// [RowsOf], [RowsFromJSON], [RowsFromTable] or [Stream]. The zero Rows has no rows. Rows are
// immutable and safe for concurrent use.
type Rows struct {
	t      *table.Table
	single bool // made from a single object; outside S2SP it is returned as that object
	stream func(add func(row json.RawMessage) error) error
}

// RowsOf makes a table from values that encode to JSON objects: structs or maps.
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

// RowsFromJSON reads a table from JSON: an array of objects, an object whose only member is such an
// array, one object per line, or a single object, which becomes one row. Values keep their
// spelling. The caller must not change data afterwards.
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

// RowsFromTable wraps a table.
func RowsFromTable(t *table.Table) Rows { return Rows{t: t} }

// Stream makes a table from rows that arrive one by one and need not fit in memory together.
// produce is called at most once, when the call is answered. It calls add with each row, a JSON
// object. If add returns an error, produce must stop and return it.
//
// Only a consumer can read the rows. The other methods of such Rows see no rows.
func Stream(produce func(add func(row json.RawMessage) error) error) Rows {
	return Rows{stream: produce}
}

// Len returns the number of rows.
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

// Table returns the rows as a table, nil if there are none.
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

// Row returns row i. It panics if i is out of range.
func (r Rows) Row(i int) Row { return Row{r.t, i} }

// Row is one row of a table.
type Row struct {
	t *table.Table
	n int
}

// JSON returns the row as it was written.
func (r Row) JSON() json.RawMessage { return r.t.Row(r.n) }

// Get returns the value of a column as it was written, nil if the row does not have the column.
func (r Row) Get(column string) json.RawMessage { return r.t.Cell(r.n, column) }

// Text returns the value of a column as text: a string without quotes, "" for null or a missing
// value, and any other value as it was written.
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

// Number returns the value of a column as a number. It also accepts a string that contains a
// number.
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
