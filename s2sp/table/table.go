package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// RowID is the name of the column that numbers the rows of a table: 0, 1, 2, …
const RowID = "_row_id"

// ownRowID is the new name of a _row_id column in the data. If that name is taken, underscores are
// added until it is free.
const ownRowID = "_row_id_data"

// Limits of a table. A row beyond a limit is refused.
const (
	MaxColumns  = 1 << 16 // distinct keys
	maxRowBytes = 1 << 30 // bytes of one row
	maxRows     = 1<<31 - 2
)

// Errors of reading rows. Errors in the JSON itself come from package rawjson. All are wrapped with
// the number of the row.
var (
	// ErrNotTable means that the data is not a table: for example, not an array of objects.
	ErrNotTable = errors.New("not a table")
	// ErrTooWide means more than MaxColumns distinct keys.
	ErrTooWide = errors.New("too many columns")
	// ErrTooLarge means a row of more than 1 GiB, or more than 2³¹-2 rows.
	ErrTooLarge = errors.New("table too large")
)

// Segment is a range of rows: their bytes and the positions of their values. Both may be stored
// anywhere, such as in a memory-mapped file, as long as they do not change.
type Segment struct {
	Data  []byte // the rows, with the text between them
	Index []byte // opaque; its size is about a fifth of Data's
}

// Table is an immutable table, safe for concurrent use. Slices that its methods return share its
// bytes: callers must not change them, and they are valid as long as the segments are.
type Table struct {
	columns []string
	byName  map[string]int
	keys    [][]byte // quoted name of a renamed column; nil: as in the data
	renamed bool     // some column is renamed
	shapes  []*shape
	segs    []segment
	rows    int
	nulled  int    // values that were not JSON
	path    string // see Path
}

// segment is a Segment with an index of its rows.
type segment struct {
	Segment
	first int // number of its first row
	rows  int
}

// shape is the common text of rows: the literal before each value and after the last one.
type shape struct {
	seps   []string // {"a": then ,"b": …
	suffix string   // }
	keys   []string // quoted, as in the data
	cols   []int32  // the column of each field
	twice  bool     // a key occurs twice
	next   uint32   // the shape that last followed this one; a guess for indexing
}

// The index of a segment, in little-endian words of four bytes:
//
//	rows × position of the row's record, in words
//	records: shape, end of the row, begin of value 0, …, begin of value w-1     (w ≥ 1)
//	         noShape, end of the row, begin of the row
//
// All positions count from the segment's first byte. A value ends where the next literal starts.
const (
	noShape = 1<<32 - 1
	word    = 4
)

// Len returns the number of rows.
func (t *Table) Len() int { return t.rows }

// Nulled returns the number of values NaN, Infinity and -Infinity in the data. They are null in the
// table, because JSON has no such numbers.
func (t *Table) Nulled() int { return t.nulled }

// Path returns the JSONPath of the array in which Detect found the rows: "$", "$.items", or
// "$.features[*].properties". It is "" if the data is not one JSON array or object.
func (t *Table) Path() string { return t.path }

// Columns lists the columns in order of first appearance. The slice belongs to the caller.
func (t *Table) Columns() []string { return slices.Clone(t.columns) }

// Has reports whether there is a column with this name.
func (t *Table) Has(name string) bool { _, ok := t.byName[name]; return ok }

// Segments returns the segments of the table.
func (t *Table) Segments() []Segment {
	out := make([]Segment, len(t.segs))
	for i := range t.segs {
		out[i] = t.segs[i].Segment
	}
	return out
}

// WithSegments returns the same table over other copies of its bytes. It panics if their number or
// sizes differ.
func (t *Table) WithSegments(segs []Segment) *Table {
	if len(segs) != len(t.segs) {
		panic(fmt.Sprintf("table: %d segments for a table of %d", len(segs), len(t.segs)))
	}
	c := *t
	c.segs = slices.Clone(t.segs)
	for i := range segs {
		if old := t.segs[i].Segment; old.Data != nil && (len(segs[i].Data) != len(old.Data) || len(segs[i].Index) != len(old.Index)) {
			panic(fmt.Sprintf("table: segment %d has other sizes", i))
		}
		c.segs[i].Segment = segs[i]
	}
	return &c
}

// Size returns the size of the rows and of their index. Together they are the memory of a table,
// except for its shapes.
func (t *Table) Size() (data, index int64) {
	for i := range t.segs {
		data += int64(len(t.segs[i].Data))
		index += int64(len(t.segs[i].Index))
	}
	return data, index
}

// Row returns the bytes of a row, braces included. It panics if row is out of range.
func (t *Table) Row(row int) []byte {
	s := t.segment(row)
	rec := s.record(row)
	begin, end := t.bounds(rec)
	return s.Data[begin:end:end]
}

// Rows iterates over the bytes of the rows.
func (t *Table) Rows() iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for i := range t.segs {
			s := &t.segs[i]
			for row := s.first; row < s.first+s.rows; row++ {
				begin, end := t.bounds(s.record(row))
				if !yield(row, s.Data[begin:end:end]) {
					return
				}
			}
		}
	}
}

// Cell returns one value as it was written, nil if the row or the table does not have it. Use a
// [View] to read many.
func (t *Table) Cell(row int, column string) []byte {
	col, ok := t.byName[column]
	if !ok {
		return nil
	}
	c := newCursor(t, []int{col})
	c.load(row)
	return c.values[0]
}

// View returns all rows and columns of the table.
func (t *Table) View() View { return View{t: t} }

func (t *Table) segment(row int) *segment {
	if row < 0 || row >= t.rows {
		panic(fmt.Sprintf("table: row %d of a table with %d", row, t.rows))
	}
	i, found := slices.BinarySearchFunc(t.segs, row, func(s segment, row int) int { return s.first - row })
	if !found {
		i--
	}
	return &t.segs[i]
}

// record is the index of one row.
type record []byte

func (s *segment) record(row int) record {
	pos := binary.LittleEndian.Uint32(s.Index[(row-s.first)*word:])
	return s.Index[int(pos)*word:]
}

func (r record) shape() uint32   { return binary.LittleEndian.Uint32(r) }
func (r record) end() int        { return int(binary.LittleEndian.Uint32(r[word:])) }
func (r record) begin(i int) int { return int(binary.LittleEndian.Uint32(r[(2+i)*word:])) }

// bounds returns the start and end of a row in its segment.
func (t *Table) bounds(r record) (begin, end int) {
	begin, end = r.begin(0), r.end()
	if n := r.shape(); n != noShape {
		begin -= len(t.shapes[n].seps[0])
	}
	return begin, end
}
