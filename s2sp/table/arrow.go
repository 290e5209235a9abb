package table

import (
	"errors"
	"io"

	"github.com/weir-mcp/weir/internal/columnar"
)

// ArrowEncoding is the metadata key of a string field whose values are JSON texts. Its value is
// then "json".
const ArrowEncoding = columnar.Encoding

// WriteArrow writes the view as an Arrow IPC stream and returns the number of bytes written. A
// column has the narrowest type that holds all its values: bool, int64, float64, decimal128, utf8,
// date32, timestamp, or a list of one of these. Null and absent values are null. A column with
// objects, nested arrays, mixed kinds, or numbers that these types would round is utf8; each value is
// then JSON text, and the field metadata has [ArrowEncoding]. In a program that does not import package
// s2sp/columnar, it writes nothing, and the error wraps [errors.ErrUnsupported].
func (v View) WriteArrow(w io.Writer) (int64, error) {
	n, err := columnar.Registered().WriteArrow(w, v.columnar())
	return n, wrapWrite(err)
}

// WriteParquet writes the view as a Parquet file, with the types of [View.WriteArrow]. JSON text has
// the logical type JSON. A row group is held at a time: before anything is written, grow is asked for
// its memory, and may refuse it. Nil allows all.
func (v View) WriteParquet(w io.Writer, grow func(bytes int64) error) (int64, error) {
	n, err := columnar.Registered().WriteParquet(w, v.columnar(), grow)
	return n, wrapWrite(err)
}

// columnar returns the rows as package columnar takes them.
func (v View) columnar() columnar.Rows {
	rows := columnar.Rows{Each: func(func([][]byte) bool) {}}
	if v.t == nil {
		return rows
	}
	outs := v.shown()
	for _, o := range outs {
		rows.Columns = append(rows.Columns, o.name)
		rows.Numbers = append(rows.Numbers, len(o.cols) == 1 && o.cols[0] == rowNumber)
	}
	rows.Each = func(f func([][]byte) bool) {
		if v.Len() == 0 {
			return
		}
		r := v.reader(outs)
		for i := range v.Len() {
			if !f(r.load(i)) {
				return
			}
		}
	}
	return rows
}

// fromColumnar reads Arrow or Parquet.
func fromColumnar(data []byte, opts Options) (*Table, error) {
	b := NewBuilder(opts, nil)
	err := columnar.Registered().Read(data, columnar.Sink{Grow: func(n int64) error { return opts.grow(int(n)) }, Row: b.Append})
	if errors.Is(err, columnar.ErrForm) {
		return notTable(nil, err)
	}
	if err != nil {
		return nil, err
	}
	return b.Table()
}
