package table

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/limit/work"
)

// DefaultLimit is the number of rows that a parsed query returns by default.
const DefaultLimit = 50

// Query selects a part of a table; it has the parameters of tool_view's selector "table". The zero
// Query selects everything.
//
//	rows ─▶ Where ─▶ GroupBy + Aggregate ─▶ OrderBy ─▶ Offset, Limit ─▶ Columns
type Query struct {
	Columns   []string    // columns in output order; empty means all
	Where     []Condition // all must hold
	OrderBy   []Order
	GroupBy   []string
	Aggregate []Aggregate // with GroupBy one row per group, otherwise one row
	Offset    int
	Limit     int // 0 means no limit
}

// Condition compares the value in Column with Value by Op.
type Condition struct {
	Column string
	Op     string          // one of Operators
	Value  json.RawMessage // in and not_in take an array; exists and null take a boolean or nothing
}

// Order sorts by a column. Numbers sort before strings, then booleans, then nested values. Null and
// absent values are last in both directions.
type Order struct {
	Column     string
	Descending bool
}

// Aggregate is a function over the rows of a group.
type Aggregate struct {
	Op     string // one of Aggregations
	Column string // may be empty for count
	As     string // name of the result; the default is op_column, or count
}

// Answer is the result of a query.
type Answer struct {
	View View
	// Matched is the number of rows, or groups, before Offset and Limit apply.
	Matched int
}

// QueryError says which parameter of a query is wrong, and why.
type QueryError struct {
	Param  string // such as "where[1].op"
	Detail string
}

// Error returns the message for users.
func (e *QueryError) Error() string { return e.Param + " " + e.Detail }

func badQuery(param, format string, args ...any) error {
	return &QueryError{Param: param, Detail: fmt.Sprintf(format, args...)}
}

// maxQueryWork bounds a query without its own Meter, in units of work: enough for some ten million
// rows with simple conditions.
const maxQueryWork = 2_000_000_000

// Costs in units of work.
const (
	rowWork     = 30 // read the needed columns of a row
	compareWork = 5  // compare two rows
	byteWork    = 64 // bytes that are read, compared or copied for one unit
)

// Bounds of the memory of a query without its own Meter, its answer included: so many times the
// bytes of the table, and so many more.
const (
	maxQueryFactor = 4
	maxQueryBytes  = 64 << 20
)

// Query runs q with default bounds on its work and its memory. Queries of millions of rows stay
// within them.
func (v View) Query(ctx context.Context, q Query) (Answer, error) {
	most := int64(maxQueryBytes)
	if v.t != nil {
		data, _ := v.t.Size()
		most += maxQueryFactor * data
	}
	m := work.NewMeter(ctx, work.Options{Limit: maxQueryWork, Room: func(bytes int64) error {
		if bytes > most {
			return badQuery("query", "would hold more than %d MB of memory: narrow it", most>>20)
		}
		return nil
	}})
	defer m.Close()
	return v.QueryWithin(m, q)
}

// QueryWithin runs q and counts in m its work, and the memory that it and its answer hold. The error
// is a *QueryError or an error of m.
func (v View) QueryWithin(m *work.Meter, q Query) (Answer, error) {
	if q.Offset < 0 {
		return Answer{}, badQuery("offset", "must be 0 or more, not %d", q.Offset)
	}
	if q.Limit < 0 {
		return Answer{}, badQuery("limit", "must be 0 or more, not %d", q.Limit)
	}
	v, err := v.filter(m, q.Where)
	if err != nil {
		return Answer{}, err
	}
	if len(q.Aggregate) > 0 || len(q.GroupBy) > 0 {
		return v.grouped(m, q)
	}
	for i, name := range q.Columns {
		if !v.Has(name) {
			return Answer{}, v.noColumn(fmt.Sprintf("columns[%d]", i), name)
		}
	}
	keys, err := sortKeys(q.OrderBy, v.Has, v.Columns)
	if err != nil {
		return Answer{}, err
	}
	if v, err = v.order(m, keys); err != nil {
		return Answer{}, err
	}
	a := Answer{Matched: v.Len()}
	start, end := q.span(v.Len())
	if err := m.Take(int64(end-start) * 4); err != nil { // the numbers of the rows
		return Answer{}, err
	}
	v = v.Slice(start, end)
	if len(q.Columns) > 0 {
		v = v.Project(q.Columns)
	}
	a.View = v
	return a, nil
}

// span returns the range of n rows or groups that Offset and Limit select.
func (q Query) span(n int) (start, end int) {
	start, end = min(q.Offset, n), n
	if q.Limit > 0 && q.Limit < n-start {
		end = start + q.Limit
	}
	return start, end
}

// noColumn returns an error that lists the existing columns.
func (v View) noColumn(param, name string) error { return noColumn(v.Columns(), param, name) }

func noColumn(columns []string, param, name string) error {
	return badQuery(param, "names %.60q, which is no column; there are: %s", name, NamesText(columns, 40))
}

// columnSet is a list of columns of a view that are read together, each once.
type columnSet struct {
	v    View
	outs []out
	at   map[string]int
}

// add returns the place of a column in outs. ok is false, and the place -1, if there is no such
// column.
func (c *columnSet) add(name string) (at int, ok bool) {
	if at, ok = c.at[name]; ok {
		return at, true
	}
	o, ok := c.v.find(name)
	if !ok {
		return -1, false
	}
	if c.at == nil {
		c.at = map[string]int{}
	}
	c.at[name] = len(c.outs)
	c.outs = append(c.outs, o)
	return len(c.outs) - 1, true
}

// scratch counts memory that a computation uses again and again, such as the text of one value.
type scratch struct {
	m    *work.Meter
	most int
}

// need makes the scratch memory one of n bytes.
func (s *scratch) need(n int) error {
	if n <= s.most {
		return nil
	}
	err := s.m.Take(int64(n - s.most))
	s.most = n
	return err
}

// filter returns the rows of v for which all conditions hold.
func (v View) filter(m *work.Meter, where []Condition) (View, error) {
	if len(where) == 0 || v.t == nil {
		return v, nil
	}
	tests := make([]func([]byte) (bool, error), len(where))
	read := columnSet{v: v}
	columns := make([]int, len(where)) // of read
	for i, c := range where {
		var ok bool
		if columns[i], ok = read.add(c.Column); !ok {
			return View{}, v.noColumn(fmt.Sprintf("where[%d].column", i), c.Column)
		}
		var err error
		if tests[i], err = c.compile(fmt.Sprintf("where[%d]", i), m); err != nil {
			return View{}, err
		}
	}
	texts := scratch{m: m}
	r := v.reader(read.outs)
	rows := []uint32{}
	for i := range v.Len() {
		values := r.load(i)
		holds := true
		for k, test := range tests {
			err := m.Spend(rowWork)
			value := values[columns[k]]
			if err == nil {
				err = texts.need(2 * len(value)) // a test may decode it
			}
			if err == nil {
				holds, err = test(value)
			}
			if err != nil {
				return View{}, err
			}
			if !holds {
				break
			}
		}
		if holds {
			var err error
			if rows, err = work.Append(m, rows, uint32(v.rowAt(i))); err != nil {
				return View{}, err
			}
		}
	}
	v.rows, v.picked = rows, true
	return v, nil
}

// sortKey is a column by which rows are sorted.
type sortKey struct {
	name string
	down bool
}

// maxSortKeys bounds the columns by which rows are sorted.
const maxSortKeys = 64

// sortKeys reads order_by. has reports whether there is a column, and columns lists all.
func sortKeys(by []Order, has func(string) bool, columns func() []string) ([]sortKey, error) {
	if len(by) > maxSortKeys {
		return nil, badQuery("order_by", "has %d columns, and at most %d are sorted by", len(by), maxSortKeys)
	}
	var keys []sortKey
	for i, o := range by {
		k := sortKey{o.Column, o.Descending}
		ok := has(o.Column)
		if !ok { // also accept "-wind" and "wind desc"
			name, desc := strings.CutPrefix(o.Column, "-")
			if !desc {
				if name, desc = strings.CutSuffix(o.Column, " desc"); !desc {
					name = strings.TrimSuffix(o.Column, " asc")
				}
			}
			if ok = has(name); ok {
				k = sortKey{name, o.Descending != desc}
			}
		}
		param := fmt.Sprintf("order_by[%d]", i)
		if !ok {
			return nil, noColumn(columns(), param, o.Column)
		}
		if slices.ContainsFunc(keys, func(other sortKey) bool { return other.name == k.name }) {
			return nil, badQuery(param, "names %.60q a second time", k.name)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// sortable is a row with the value that it is sorted by: of the table, nil for the row's number.
type sortable struct {
	row   uint32
	value []byte
}

// order sorts the rows stably: by the first key, then those that are equal by the next one. So it
// holds one value for each row, however many keys there are.
func (v View) order(m *work.Meter, keys []sortKey) (View, error) {
	if len(keys) == 0 || v.t == nil {
		return v, nil
	}
	n := v.Len()
	all, err := work.Grow(m, []sortable(nil), n)
	if err != nil {
		return View{}, err
	}
	for i := range n {
		all = append(all, sortable{row: uint32(v.rowAt(i))})
	}
	s := sorting{m: m, view: View{t: v.t, outs: v.outs, id: v.id}, keys: keys, readers: make([]*reader, len(keys)), texts: scratch{m: m}}
	if err := s.sort(all, 0); err != nil {
		return View{}, err
	}
	rows, err := work.Grow(m, []uint32(nil), n)
	if err != nil {
		return View{}, err
	}
	for i := range all {
		rows = append(rows, all[i].row)
	}
	v.rows, v.picked = rows, true
	return v, nil
}

// sorting sorts rows of a view that has all rows.
type sorting struct {
	m       *work.Meter
	view    View
	keys    []sortKey
	readers []*reader // of each key, made when rows are equal in those before it
	texts   scratch
}

// sort sorts rows by the keys from k on.
func (s *sorting) sort(rows []sortable, k int) error {
	key := s.keys[k]
	o, _ := s.view.find(key.name)
	numbers := o.cols[0] == rowNumber
	if s.readers[k] == nil {
		if err := s.m.Take(int64(len(s.view.t.shapes)) * 32); err != nil {
			return err
		}
		s.readers[k] = s.view.reader([]out{o})
	}
	for i := range rows {
		if err := s.m.Spend(rowWork); err != nil {
			return err
		}
		rows[i].value = nil
		if numbers {
			continue
		}
		value := s.readers[k].load(int(rows[i].row))[0]
		if len(value) > s.texts.most/2 { // a comparison may decode two
			if err := s.texts.need(2 * len(value)); err != nil {
				return err
			}
		}
		rows[i].value = value
	}
	compare := func(a, b sortable) int {
		if numbers {
			return int(a.row) - int(b.row)
		}
		return compareSorted(a.value, b.value, key.down)
	}
	slices.SortStableFunc(rows, func(a, b sortable) int {
		if s.m.Spend(compareWork+int64(min(len(a.value), len(b.value)))/byteWork) != nil {
			return 0 // an error occurred: end the sort quickly
		}
		if numbers && key.down {
			return compare(b, a)
		}
		return compare(a, b)
	})
	if err := s.m.Err(); err != nil || k+1 == len(s.keys) {
		return err
	}
	for from := 0; from < len(rows); {
		to := from + 1
		for to < len(rows) && compare(rows[from], rows[to]) == 0 {
			to++
		}
		if to-from > 1 {
			if err := s.sort(rows[from:to], k+1); err != nil {
				return err
			}
		}
		from = to
	}
	return nil
}

// compareSorted orders two values of any kind. Missing values are last in both directions.
func compareSorted(a, b []byte, down bool) int {
	x, y := kindOf(a), kindOf(b)
	c := int(x) - int(y)
	if x == y {
		c = compare(x, a, b)
	}
	if down && (x < kindNull && y < kindNull) {
		return -c
	}
	return c
}
