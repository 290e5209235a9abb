// Package table keeps rows and columns as the JSON they came in. A table is the
// bytes of its rows and an index that says where each value begins; asking for
// rows and columns copies stretches of bytes, so whatever a value is written
// like survives: integers of twenty digits, 1e400, lone surrogates, escapes and
// the order of keys.
//
//	[{"id":1,"name":"a","tags":[]}, {"id":2,"name":"b"}]       Index, Detect, Builder
//	      │         │        │            │        │
//	shape 0 {"id":• ,"name":• ,"tags":• }  shape 1 {"id":• ,"name":• }
//	index:  row 0 = shape 0, 7 16 27 30    row 1 = shape 1, 39 48 51
//	      │
//	View = Table × rows × columns × names    Project, SelectRows, Rename, Query
//	      │
//	      └─▶ WriteJSON · WriteNDJSON · WriteCSV · WriteArrow      (byte copies but for the last two)
//
// What stands between the values of a row is its shape. Rows of the same shape
// share it, and the shape of the last row is tried first: then reading a row is
// comparing literals and skipping values.
//
// What is a column: keys are compared unescaped and case-sensitively, columns
// are the union over the rows in order of first appearance, and a field that is
// absent in a row stays absent (it is not null). NaN, Infinity and -Infinity, which
// are no JSON but which many programs write, are read as null and counted. Where a row has a key twice the
// last value counts, at the place of the first, as encoding/json, Python and
// JavaScript have it. A column that the data itself calls _row_id is kept under
// the name [OwnRowID], because _row_id is the number of the row in its table
// (spec/tables §1); [Options.KeepRowID] switches that off for rows
// that come out of another table.
//
// The package knows nothing of MCP, HTTP or where the bytes are kept.
package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// RowID is the name of the column that counts the rows of a table: 0, 1, 2, …
const RowID = "_row_id"

// OwnRowID is the name under which a data's own _row_id column is kept. If the
// data has a column of that name as well, underscores are added until the name
// is free.
const OwnRowID = "_row_id_data"

// Bounds of a table. A row that goes beyond one is refused.
const (
	MaxColumns  = 1 << 16 // different keys
	MaxRowBytes = 1 << 30 // bytes of one row
	MaxRows     = 1<<31 - 2
)

// Errors that reading rows gives. Errors in the JSON itself are those of
// package rawjson. All are wrapped with the number of the row.
var (
	// ErrNotTable: the bytes are no table: not an array of objects, for example.
	ErrNotTable = errors.New("not a table")
	// ErrTooWide: more than MaxColumns different keys.
	ErrTooWide = errors.New("too many columns")
	// ErrTooLarge: a row of more than MaxRowBytes, or more than MaxRows rows.
	ErrTooLarge = errors.New("table too large")
)

// Segment is a stretch of rows: their bytes and where their values begin. Both
// may be kept anywhere, a memory-mapped file for instance, as long as they do
// not change.
type Segment struct {
	Data  []byte // the rows; between them is what stood between them
	Index []byte // opaque; its size is about a fifth of Data's
}

// Table is rows × columns. It does not change, and everything on it may be
// called concurrently. Slices that its methods return are slices of its bytes:
// they must not be changed, and live as long as the segments do.
type Table struct {
	columns []string
	byName  map[string]int
	keys    [][]byte // quoted name of a column that is not written like in the data; nil: as the row has it
	renamed bool     // some key is set
	shapes  []*shape
	segs    []segment
	rows    int
	nulled  int // values of the data that JSON lacks
}

// segment is a Segment with what is needed to find a row in it.
type segment struct {
	Segment
	first int // number of its first row
	rows  int
}

// shape is what rows have in common: the literal before each value and behind
// the last one.
type shape struct {
	seps   []string // {"a": then ,"b": …
	suffix string   // }
	keys   []string // quoted, as the rows have them
	cols   []int32  // the column of each field
	twice  bool     // a key stands twice
	next   uint32   // the shape that followed this one last: only a guess, used while indexing
}

// The index of a segment, in little-endian words of four bytes:
//
//	rows × position of the row's record, in words
//	records: shape, end of the row, begin of value 0, …, begin of value w-1     (w ≥ 1)
//	         noShape, end of the row, begin of the row
//
// All begins and ends count from the segment's first byte. A value ends where
// the literal before the next one begins.
const (
	noShape = 1<<32 - 1
	word    = 4
)

// Len is the number of rows.
func (t *Table) Len() int { return t.rows }

// Nulled is the number of values NaN, Infinity and -Infinity that the data had:
// JSON has no such numbers, so they are null in the table.
func (t *Table) Nulled() int { return t.nulled }

// Columns lists the columns in order of first appearance. The caller may keep
// and change the slice.
func (t *Table) Columns() []string { return slices.Clone(t.columns) }

// Has reports whether there is a column called name.
func (t *Table) Has(name string) bool { _, ok := t.byName[name]; return ok }

// Segments lists the stretches of bytes that the table consists of.
func (t *Table) Segments() []Segment {
	out := make([]Segment, len(t.segs))
	for i := range t.segs {
		out[i] = t.segs[i].Segment
	}
	return out
}

// WithSegments returns the same table over other copies of the same bytes. It
// panics if their number or sizes differ, because then they are not the same.
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

// Size returns the bytes of the rows and the bytes of the index over them,
// which together are the memory that a table takes but for its shapes.
func (t *Table) Size() (data, index int64) {
	for i := range t.segs {
		data += int64(len(t.segs[i].Data))
		index += int64(len(t.segs[i].Index))
	}
	return data, index
}

// Row returns the bytes of one row as they came, the braces included. It panics
// where there is no such row.
func (t *Table) Row(row int) []byte {
	s := t.segment(row)
	rec := s.record(row)
	begin, end := t.bounds(rec)
	return s.Data[begin:end:end]
}

// Rows iterates over the bytes of the rows as they came.
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

// Cell returns one value as it is written, nil where the row has no such field
// or the table no such column. To read many, use a [View].
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

// bounds says where in its segment a row begins and ends.
func (t *Table) bounds(r record) (begin, end int) {
	begin, end = r.begin(0), r.end()
	if n := r.shape(); n != noShape {
		begin -= len(t.shapes[n].seps[0])
	}
	return begin, end
}
