package table

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/work"
)

// Limits of an aggregation.
const (
	maxGroups   = 100_000
	maxCells    = 1_000_000 // groups × the columns of a group
	maxDistinct = 1_000_000 // distinct values counted, over all groups
)

// Aggregations lists the aggregate functions. They ignore null and absent values. sum and avg
// ignore values that are not numbers, and compute without rounding (avg is rounded once, at the
// end). min and max use the order of [Order]; first and last use the order of the rows. Without
// values, count and count_distinct are 0 and the others are null.
func Aggregations() []string {
	return []string{"count", "count_distinct", "sum", "avg", "min", "max", "first", "last"}
}

// grouping is an aggregation of the rows of a view.
//
//	rows ─▶ key ─▶ group n: its first row; of each aggregate, element n of one list
//	        order of the groups, offset, limit ─▶ the groups that are written
//
// A group holds positions in the table and no copies of its values.
type grouping struct {
	v     View
	m     *work.Meter
	read  columnSet
	by    []int // of read
	aggs  []aggregation
	names []string // of the columns: by, then aggs

	groups   map[string]uint32
	first    []uint32 // row of the view, by group
	key      []byte
	scratch  scratch
	distinct map[string]struct{}
}

// aggregation is one aggregate of all groups. The list that its function needs has an element for
// each group.
type aggregation struct {
	op     string
	column int // of grouping.read; -1 counts rows
	counts []int64
	sums   []sum
	best   [][]byte // of the table, or a row's number
}

// newGrouping reads the groups and aggregates of a query.
func (v View) newGrouping(m *work.Meter, by []string, aggregates []Aggregate) (*grouping, error) {
	if len(aggregates) == 0 {
		aggregates = []Aggregate{{Op: "count"}}
	}
	g := &grouping{v: v, m: m, read: columnSet{v: v}, groups: map[string]uint32{}, distinct: map[string]struct{}{}, scratch: scratch{m: m}}
	for i, name := range by {
		param := fmt.Sprintf("group_by[%d]", i)
		at, ok := g.read.add(name)
		switch {
		case !ok:
			return nil, v.noColumn(param, name)
		case slices.Contains(g.by, at):
			return nil, badQuery(param, "names %.60q a second time", name)
		}
		g.by, g.names = append(g.by, at), append(g.names, name)
	}
	for i, a := range aggregates {
		param := fmt.Sprintf("aggregate[%d]", i)
		if !slices.Contains(Aggregations(), a.Op) {
			return nil, badQuery(param+".op", "is %.40q, and there are %s", a.Op, strings.Join(Aggregations(), ", "))
		}
		at, ok := g.read.add(a.Column)
		if !ok && (a.Op != "count" || a.Column != "" && a.Column != "*") {
			return nil, v.noColumn(param+".column", a.Column)
		}
		name := a.As
		switch {
		case name != "":
		case !ok:
			name = a.Op
		default:
			name = a.Op + "_" + a.Column
		}
		if slices.Contains(g.names, name) {
			return nil, badQuery(param+".as", "gives two columns the name %.60q", name)
		}
		g.aggs, g.names = append(g.aggs, aggregation{op: a.Op, column: at}), append(g.names, name)
	}
	return g, nil
}

// gather reads all rows once.
func (g *grouping) gather() error {
	if len(g.by) == 0 { // one group, even without rows
		if err := g.add(0); err != nil {
			return err
		}
	}
	if g.v.t == nil {
		return nil
	}
	r := g.v.reader(g.read.outs)
	for i := range g.v.Len() {
		if err := g.m.Spend(rowWork * int64(1+len(g.by))); err != nil {
			return err
		}
		values := r.load(i)
		n := uint32(0)
		if len(g.by) > 0 {
			var err error
			if n, err = g.group(i, values); err != nil {
				return err
			}
		}
		for k := range g.aggs {
			a := &g.aggs[k]
			var value []byte
			if a.column >= 0 {
				value = values[a.column]
			}
			if err := g.m.Spend(rowWork + int64(len(value))/byteWork); err != nil {
				return err
			}
			if a.column < 0 {
				a.counts[n]++
				continue
			}
			if kindOf(value) >= kindNull {
				continue
			}
			if err := g.count(uint32(k), n, value, g.read.outs[a.column].cols[0] == rowNumber); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxKey is the length up to which the key of a group, or of a distinct value, is kept as it is. Of a
// longer one its hash is kept, so that keys do not copy the table.
const maxKey = 64

// shortKey returns key, or a digest of it if it is long. Values in keys have their length before
// them, so no key starts with eight bytes of 255.
func shortKey(key []byte) []byte {
	if len(key) <= maxKey {
		return key
	}
	hash := sha256.Sum256(key)
	return append(binary.LittleEndian.AppendUint64(key[:0], 1<<64-1), hash[:]...)
}

// appendKey appends a value to a key, with its length: otherwise two pairs of values could produce
// the same key.
func (g *grouping) appendKey(key, value []byte) ([]byte, error) {
	if err := g.m.Spend(int64(len(value)) / 8); err != nil {
		return nil, err
	}
	if err := g.scratch.need(3 * len(value)); err != nil {
		return nil, err
	}
	start := len(key)
	key = identity(binary.LittleEndian.AppendUint64(key, 0), value)
	binary.LittleEndian.PutUint64(key[start:], uint64(len(key)-start-8))
	return key, nil
}

// entryBytes is the size of an entry of a map of keys without its key.
const entryBytes = 64

// group returns the number of the group of row i.
func (g *grouping) group(i int, values [][]byte) (uint32, error) {
	g.key = g.key[:0]
	var err error
	for _, at := range g.by {
		if g.key, err = g.appendKey(g.key, values[at]); err != nil {
			return 0, err
		}
	}
	g.key = shortKey(g.key)
	if n, ok := g.groups[string(g.key)]; ok {
		return n, nil
	}
	n := uint32(len(g.first))
	switch {
	case n >= maxGroups:
		return 0, badQuery("group_by", "makes more than %d groups", maxGroups)
	case (int(n)+1)*len(g.names) > maxCells:
		return 0, badQuery("group_by", "makes more than %d groups of %d columns, and %d values are the bound: ask for fewer aggregates, or put a condition before it that leaves fewer rows", n, len(g.names), maxCells)
	}
	if err := g.m.Take(entryBytes + int64(len(g.key))); err != nil {
		return 0, err
	}
	g.groups[string(g.key)] = n
	return n, g.add(i)
}

// add adds a group whose first row is row i.
func (g *grouping) add(i int) (err error) {
	if g.first, err = work.Append(g.m, g.first, uint32(i)); err != nil {
		return err
	}
	for k := range g.aggs {
		switch a := &g.aggs[k]; a.op {
		case "count", "count_distinct":
			a.counts, err = work.Append(g.m, a.counts, 0)
		case "sum", "avg":
			a.sums, err = work.Append(g.m, a.sums, sum{})
		default:
			a.best, err = work.Append(g.m, a.best, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// count adds a value to aggregate k of group n. own says that value is valid only now.
func (g *grouping) count(k, n uint32, value []byte, own bool) (err error) {
	a := &g.aggs[k]
	switch a.op {
	case "count":
		a.counts[n]++
		return nil
	case "count_distinct":
		g.key = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(g.key[:0], k), n)
		if g.key, err = g.appendKey(g.key, value); err != nil {
			return err
		}
		if len(g.key) > maxKey { // k and n stay
			g.key = append(g.key[:8], shortKey(slices.Clip(g.key[8:]))...)
		}
		if _, ok := g.distinct[string(g.key)]; ok {
			return nil
		}
		if len(g.distinct) >= maxDistinct {
			return badQuery(fmt.Sprintf("aggregate[%d]", k), "counts more than %d different values", maxDistinct)
		}
		g.distinct[string(g.key)] = struct{}{}
		a.counts[n]++
		return g.m.Take(entryBytes + int64(len(g.key)))
	case "sum", "avg":
		if kindOf(value) != kindNumber {
			return nil
		}
		before := a.sums[n].bytes()
		if err := a.sums[n].add(value); err != nil {
			return badQuery(fmt.Sprintf("aggregate[%d]", k), "%v", err)
		}
		if err := g.m.Spend(a.sums[n].bytes()); err != nil {
			return err
		}
		return g.m.Take(2 * (a.sums[n].bytes() - before))
	}
	best := a.best[n]
	switch a.op {
	case "min", "max":
		if best != nil && (before(value, best) != (a.op == "min") || equal(value, best)) {
			return nil
		}
	case "first":
		if best != nil {
			return nil
		}
	}
	if own {
		value = slices.Clone(value)
	}
	a.best[n] = value
	return nil
}

// before reports whether a sorts before b.
func before(a, b []byte) bool {
	x, y := kindOf(a), kindOf(b)
	if x != y {
		return x < y
	}
	return compare(x, a, b) < 0
}

// table returns a table of the columns at some places of names, with one row per group: of those
// groups, or of all.
func (g *grouping) table(columns []int, groups []uint32, all bool) (View, error) {
	if all {
		groups = make([]uint32, len(g.first))
		for n := range groups {
			groups[n] = uint32(n)
		}
	}
	b := NewBuilder(Options{KeepRowID: true}, nil)
	var r *reader
	if g.v.t != nil {
		r = g.v.reader(g.read.outs)
	}
	keys := make([][]byte, len(columns))
	for i, c := range columns {
		keys[i] = append(rawjson.Quote(g.names[c]), ':')
	}
	var row []byte
	for _, n := range groups {
		if err := g.m.Spend(rowWork * int64(len(columns))); err != nil {
			return View{}, err
		}
		var values [][]byte
		if len(g.by) > 0 {
			values = r.load(int(g.first[n]))
		}
		size := 0
		for i, c := range columns {
			size += len(keys[i]) + 1 + g.size(c, n, values)
		}
		if err := g.m.Spend(int64(size)); err != nil {
			return View{}, err
		}
		// The row, and where it is in the table with the places of its values.
		if err := g.m.Take(int64(2*size + 4*len(columns))); err != nil {
			return View{}, err
		}
		row = append(row[:0], '{')
		for i, c := range columns {
			if i > 0 {
				row = append(row, ',')
			}
			row = g.append(append(row, keys[i]...), c, n, values)
		}
		if err := b.Append(append(row, '}')); err != nil {
			return View{}, fmt.Errorf("writing a group: %w", err)
		}
	}
	t, err := b.Table()
	if err != nil {
		return View{}, fmt.Errorf("writing %d groups: %w", len(groups), err)
	}
	return t.View(), nil
}

// size returns about how many bytes append appends.
func (g *grouping) size(column int, n uint32, values [][]byte) int {
	if column < len(g.by) {
		return len(values[g.by[column]])
	}
	switch a := &g.aggs[column-len(g.by)]; {
	case a.sums != nil:
		return 24 + 5*int(a.sums[n].bytes())/2 // a byte of a number has 2.4 digits
	case a.best != nil:
		return len(a.best[n])
	}
	return 8
}

// append appends the value of a column of group n; values are the values of the group's first row.
func (g *grouping) append(dst []byte, column int, n uint32, values [][]byte) []byte {
	if column < len(g.by) {
		return appendValue(dst, values[g.by[column]])
	}
	switch a := &g.aggs[column-len(g.by)]; {
	case a.counts != nil:
		return strconv.AppendInt(dst, a.counts[n], 10)
	case a.sums != nil:
		s := &a.sums[n]
		switch {
		case s.count == 0:
			return append(dst, "null"...)
		case a.op == "sum":
			return append(dst, s.json()...)
		}
		return append(dst, s.mean()...)
	default:
		return appendValue(dst, a.best[n])
	}
}

func appendValue(dst, v []byte) []byte {
	if v == nil {
		return append(dst, "null"...)
	}
	return append(dst, v...)
}

// grouped runs the part of a query behind its conditions, if it has groups. Only the groups that the
// query selects are written, and of all groups the columns by which they are sorted.
func (v View) grouped(m *work.Meter, q Query) (Answer, error) {
	g, err := v.newGrouping(m, q.GroupBy, q.Aggregate)
	if err != nil {
		return Answer{}, err
	}
	columns := make([]int, len(g.names))
	for i := range columns {
		columns[i] = i
	}
	for i, name := range q.Columns {
		if !slices.Contains(g.names, name) {
			return Answer{}, noColumn(g.names, fmt.Sprintf("columns[%d]", i), name)
		}
	}
	keys, err := sortKeys(q.OrderBy, func(name string) bool { return slices.Contains(g.names, name) }, func() []string { return g.names })
	if err != nil {
		return Answer{}, err
	}
	if err := g.gather(); err != nil {
		return Answer{}, err
	}
	a := Answer{Matched: len(g.first)}
	start, end := q.span(a.Matched)
	if len(keys) == 0 {
		picked := make([]uint32, end-start)
		for i := range picked {
			picked[i] = uint32(start + i)
		}
		a.View, err = g.table(columns, picked, false)
	} else {
		sorted := make([]int, len(keys))
		for i, k := range keys {
			sorted[i] = slices.Index(g.names, k.name)
		}
		var by View
		if by, err = g.table(sorted, nil, true); err != nil {
			return Answer{}, err
		}
		if by, err = by.order(m, keys); err != nil {
			return Answer{}, err
		}
		a.View, err = g.table(columns, by.rows[start:end], false)
	}
	if err == nil && len(q.Columns) > 0 {
		a.View = a.View.Project(q.Columns)
	}
	return a, err
}
