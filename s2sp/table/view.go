package table

import (
	"slices"
	"strconv"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// View is a selection of rows and columns of a table, in an order and with names. It is a small
// immutable value: its methods return another View. It is safe for concurrent use. The zero View
// has no rows and no columns.
//
// A table without a _row_id of its own (see [Options.KeepRowID]) has an implicit column _row_id
// with the row's number. It is shown only if asked for by name.
type View struct {
	t      *Table
	outs   []out    // shown columns; nil: all columns as each row has them
	rows   []uint32 // row numbers; see picked
	picked bool     // rows is the selection; otherwise all rows in order
	id     bool     // each row starts with _row_id
}

// out is a column of a view.
type out struct {
	name string
	key  []byte // quoted name; nil: as in the data
	cols []int  // columns of the table, or rowNumber; the last one that a row has is used
}

// rowNumber stands for the implicit column with the row's number.
const rowNumber = -1

// Table returns the table below v.
func (v View) Table() *Table { return v.t }

// Len returns the number of rows.
func (v View) Len() int {
	switch {
	case v.picked:
		return len(v.rows)
	case v.t == nil:
		return 0
	}
	return v.t.rows
}

// ID returns the table's number of row i of the view.
func (v View) ID(i int) int {
	if v.picked {
		return int(v.rows[i])
	}
	return i
}

// Columns lists the column names in order, with _row_id first if [View.WithRowID] was called.
func (v View) Columns() []string {
	var names []string
	if v.id {
		names = append(names, RowID)
	}
	if v.t == nil {
		return names
	}
	if v.outs == nil {
		for _, name := range v.t.columns {
			if !v.id || name != RowID {
				names = append(names, name)
			}
		}
		return names
	}
	for _, o := range v.outs {
		names = append(names, o.name)
	}
	return names
}

// Has reports whether v has a column with this name.
func (v View) Has(name string) bool { _, ok := v.find(name); return ok }

func (v View) find(name string) (out, bool) {
	if v.t == nil {
		return out{}, false
	}
	if v.outs != nil {
		if i := slices.IndexFunc(v.outs, func(o out) bool { return o.name == name }); i >= 0 {
			return v.outs[i], true
		}
	} else if col, ok := v.t.byName[name]; ok {
		return v.t.out(col), true
	}
	if name == RowID && !v.t.Has(RowID) {
		return out{name: RowID, key: rawjson.Quote(RowID), cols: []int{rowNumber}}, true
	}
	return out{}, false
}

func (t *Table) out(col int) out {
	o := out{name: t.columns[col], cols: []int{col}}
	if t.keys != nil {
		o.key = t.keys[col]
	}
	return o
}

// all returns the columns of a view explicitly.
func (v View) all() []out {
	if v.outs != nil || v.t == nil {
		return v.outs
	}
	outs := make([]out, len(v.t.columns))
	for col := range v.t.columns {
		outs[col] = v.t.out(col)
	}
	return outs
}

// Project returns v with only the named columns, in the order of the names. Duplicate and unknown
// names are ignored.
func (v View) Project(columns []string) View {
	if v.t == nil {
		return v
	}
	outs := make([]out, 0, min(len(columns), len(v.t.columns)+1))
	seen := make(map[string]bool, len(columns))
	byName := v.lookup(len(columns))
	for _, name := range columns {
		if o, ok := byName(name); ok && !seen[name] && (!v.id || name != RowID) {
			outs = append(outs, o)
		}
		seen[name] = true
	}
	v.outs = outs
	return v
}

// Without returns v without the named columns.
func (v View) Without(columns []string) View {
	drop := make(map[string]bool, len(columns))
	for _, name := range columns {
		drop[name] = true
	}
	v.outs = slices.DeleteFunc(slices.Clone(v.all()), func(o out) bool { return drop[o.name] })
	if v.outs == nil {
		v.outs = []out{}
	}
	return v
}

// lookup returns a find function for n names; it uses a map if there are many.
func (v View) lookup(n int) func(string) (out, bool) {
	if v.outs == nil || n < 16 {
		return v.find
	}
	byName := make(map[string]int, len(v.outs))
	for i, o := range v.outs {
		byName[o.name] = i
	}
	return func(name string) (out, bool) {
		if i, ok := byName[name]; ok {
			return v.outs[i], true
		}
		return v.find(name)
	}
}

// SelectRows returns v with only the rows with the given numbers, in the order of v. Duplicate and
// unknown numbers are ignored.
func (v View) SelectRows(ids []int) View {
	if v.t == nil {
		return v
	}
	wanted := make([]uint32, 0, len(ids))
	for _, id := range ids {
		if id >= 0 && id < v.t.rows {
			wanted = append(wanted, uint32(id))
		}
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	if v.picked {
		rows := make([]uint32, 0, min(len(wanted), len(v.rows)))
		for _, row := range v.rows {
			if _, ok := slices.BinarySearch(wanted, row); ok {
				rows = append(rows, row)
			}
		}
		wanted = rows
	}
	v.rows, v.picked = wanted, true
	return v
}

// Slice returns v with the rows from start to before end. Both are clamped to the existing rows; a
// negative end means the last one.
func (v View) Slice(start, end int) View {
	n := v.Len()
	if end < 0 || end > n {
		end = n
	}
	start = min(max(start, 0), end)
	if start == 0 && end == n {
		return v
	}
	if v.picked {
		v.rows = v.rows[start:end:end]
		return v
	}
	rows := make([]uint32, 0, end-start)
	for row := start; row < end; row++ {
		rows = append(rows, uint32(row))
	}
	v.rows, v.picked = rows, true
	return v
}

// Rename returns v with renamed columns; the map is from old to new names. A column keeps its
// position. If columns get the same name, the column stays at the first position, and of several
// values in a row the last column's is used. _row_id is never renamed, because rows are matched by
// it.
func (v View) Rename(names map[string]string) View {
	if len(names) == 0 || v.t == nil {
		return v
	}
	var outs []out
	at := map[string]int{}
	for _, o := range v.all() {
		if name, ok := names[o.name]; ok && o.name != RowID && name != RowID && name != o.name {
			o.name, o.key = name, rawjson.Quote(name)
		}
		if i, ok := at[o.name]; ok {
			outs[i].cols = append(slices.Clip(outs[i].cols), o.cols...)
			if outs[i].key == nil {
				outs[i].key = rawjson.Quote(o.name)
			}
			continue
		}
		at[o.name] = len(outs)
		outs = append(outs, o)
	}
	v.outs = outs
	return v
}

// WithRowID returns v with each row's number in the table as its first field, _row_id (spec/tables
// §1).
func (v View) WithRowID() View {
	if v.t == nil {
		return v
	}
	if v.outs != nil || v.t.Has(RowID) {
		v = v.Without([]string{RowID})
	}
	v.id = true
	return v
}

// rowAt returns the number in the table of row i.
func (v View) rowAt(i int) int {
	if v.picked {
		return int(v.rows[i])
	}
	return i
}

// cursor reads the values of some columns, row by row. It is not safe for concurrent use.
type cursor struct {
	t      *Table
	cols   []int
	values [][]byte // values of the loaded row; nil if absent
	plans  [][]planned
	seg    *segment
	id     []byte
	wanted map[string][]int // for rows without a shape: indexes in cols by name
}

func newCursor(t *Table, cols []int) *cursor {
	return &cursor{t: t, cols: cols, values: make([][]byte, len(cols)), plans: make([][]planned, len(t.shapes))}
}

// planned is a column that the rows of a shape have.
type planned struct{ column, field int32 }

// plan returns the columns that the rows of a shape have. The plans of all shapes together are not
// longer than the shapes, however many columns are read.
func (c *cursor) plan(n uint32) []planned {
	if p := c.plans[n]; p != nil {
		return p
	}
	p := []planned{}
	fields := c.t.shapes[n].lastFields()
	for k, col := range c.cols {
		if f, ok := fields[int32(col)]; ok {
			p = append(p, planned{int32(k), f})
		}
	}
	c.plans[n] = slices.Clip(p)
	return p
}

// lastFields maps the columns of a shape to their last field.
func (s *shape) lastFields() map[int32]int32 {
	fields := make(map[int32]int32, len(s.cols))
	for f, col := range s.cols {
		fields[col] = int32(f)
	}
	return fields
}

// locate finds the segment of a row; consecutive rows are found quickly.
func (t *Table) locate(seg *segment, row int) *segment {
	if seg != nil && row >= seg.first && row < seg.first+seg.rows {
		return seg
	}
	return t.segment(row)
}

// value returns the position of field f of a row with this shape.
func (s *shape) value(r record, f int) (begin, end int) {
	begin = r.begin(f)
	if f+1 < len(s.seps) {
		return begin, r.begin(f+1) - len(s.seps[f+1])
	}
	return begin, r.end() - len(s.suffix)
}

func (c *cursor) load(row int) {
	c.seg = c.t.locate(c.seg, row)
	rec := c.seg.record(row)
	n := rec.shape()
	if n == noShape {
		c.loadLoose(c.seg.Data[rec.begin(0):rec.end()])
	} else {
		s := c.t.shapes[n]
		clear(c.values)
		for _, p := range c.plan(n) {
			begin, end := s.value(rec, int(p.field))
			c.values[p.column] = c.seg.Data[begin:end:end]
		}
	}
	for k, col := range c.cols {
		if col == rowNumber {
			c.id = strconv.AppendInt(c.id[:0], int64(row), 10)
			c.values[k] = c.id
		}
	}
}

// loadLoose reads a row without a shape.
func (c *cursor) loadLoose(row []byte) {
	if c.wanted == nil {
		c.wanted = make(map[string][]int, len(c.cols))
		for k, col := range c.cols {
			if col != rowNumber {
				c.wanted[c.t.original(col)] = append(c.wanted[c.t.original(col)], k)
			}
		}
	}
	clear(c.values)
	for f := range looseFields(row) {
		for _, k := range c.wanted[f.name] {
			c.values[k] = f.value
		}
	}
}

// original returns the name of a column in the data.
func (t *Table) original(col int) string {
	if t.renamed && t.keys[col] != nil {
		return RowID // indexing renames this column only
	}
	return t.columns[col]
}

type looseField struct {
	name       string
	key, value []byte
}

// looseFields iterates over the fields of a row that indexing has validated.
func looseFields(row []byte) func(func(looseField) bool) {
	return func(yield func(looseField) bool) {
		// cannot fail: indexing has validated the row
		_ = rawjson.EachMember(row, func(m rawjson.Member) bool {
			end, err := rawjson.Skip(row, m.Start)
			if err != nil {
				return false
			}
			key := row[m.Start:end]
			name, err := columnName(key)
			if err != nil {
				return false
			}
			return yield(looseField{name, key, m.Value})
		})
	}
}

// reader reads the columns of a view, row by row. It is not safe for concurrent use.
type reader struct {
	v     View
	outs  []out
	first []int // index of each out's first column in the cursor
	c     *cursor
	vals  [][]byte
}

// reader returns a reader of the columns outs of v.
func (v View) reader(outs []out) *reader {
	r := &reader{v: v, outs: outs, vals: make([][]byte, len(outs))}
	var cols []int
	for _, o := range outs {
		r.first = append(r.first, len(cols))
		cols = append(cols, o.cols...)
	}
	r.first = append(r.first, len(cols))
	r.c = newCursor(v.t, cols)
	return r
}

// load reads row i of the view. The values are valid until the next load.
func (r *reader) load(i int) [][]byte {
	r.c.load(r.v.rowAt(i))
	for k := range r.outs {
		r.vals[k] = nil
		for n := r.first[k+1] - 1; n >= r.first[k]; n-- {
			if v := r.c.values[n]; v != nil {
				r.vals[k] = v
				break
			}
		}
	}
	return r.vals
}

// shown returns the columns of the whole view, _row_id included.
func (v View) shown() []out {
	outs := v.all()
	if v.id {
		outs = append([]out{{name: RowID, key: rawjson.Quote(RowID), cols: []int{rowNumber}}}, outs...)
	}
	return outs
}

// Each calls f for each row until f returns false. values are in the order of [View.Columns], as
// written, and nil if absent. f must not retain the slice.
func (v View) Each(f func(id int, values [][]byte) bool) {
	if v.t == nil {
		return
	}
	r := v.reader(v.shown())
	for i := range v.Len() {
		if !f(v.rowAt(i), r.load(i)) {
			return
		}
	}
}
