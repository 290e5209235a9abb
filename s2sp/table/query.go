package table

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/work"
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
)

// Query runs q with a default bound on its work. Queries of millions of rows stay within it.
func (v View) Query(ctx context.Context, q Query) (Answer, error) {
	m := work.NewMeter(ctx, work.Options{Limit: maxQueryWork})
	defer m.Close()
	return v.QueryWithin(m, q)
}

// QueryWithin runs q and counts its work in m. The error is a *QueryError or an error of m.
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
		if v, err = v.aggregate(m, q.GroupBy, q.Aggregate); err != nil {
			return Answer{}, err
		}
	}
	if v, err = v.order(m, q.OrderBy); err != nil {
		return Answer{}, err
	}
	a := Answer{Matched: v.Len()}
	end := -1
	if q.Limit > 0 && q.Limit < v.Len()-min(q.Offset, v.Len()) {
		end = q.Offset + q.Limit
	}
	if q.Offset > 0 || end >= 0 {
		v = v.Slice(q.Offset, end)
	}
	if len(q.Columns) > 0 {
		for i, name := range q.Columns {
			if !v.Has(name) {
				return Answer{}, v.noColumn(fmt.Sprintf("columns[%d]", i), name)
			}
		}
		v = v.Project(q.Columns)
	}
	a.View = v
	return a, nil
}

// noColumn returns an error that lists the existing columns.
func (v View) noColumn(param, name string) error {
	return badQuery(param, "names %.60q, which is no column; there are: %s", name, NamesText(v.Columns(), 40))
}

// filter returns the rows of v for which all conditions hold.
func (v View) filter(m *work.Meter, where []Condition) (View, error) {
	if len(where) == 0 || v.t == nil {
		return v, nil
	}
	tests := make([]func([]byte) (bool, error), len(where))
	outs := make([]out, len(where))
	for i, c := range where {
		o, ok := v.find(c.Column)
		if !ok {
			return View{}, v.noColumn(fmt.Sprintf("where[%d].column", i), c.Column)
		}
		test, err := c.compile(fmt.Sprintf("where[%d]", i), m)
		if err != nil {
			return View{}, err
		}
		outs[i], tests[i] = o, test
	}
	r := v.reader(outs)
	rows := []uint32{}
	for i := range v.Len() {
		if err := m.Spend(rowWork); err != nil {
			return View{}, err
		}
		values := r.load(i)
		holds := true
		for k, test := range tests {
			var err error
			if holds, err = test(values[k]); err != nil {
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

// order sorts the rows stably.
func (v View) order(m *work.Meter, by []Order) (View, error) {
	if len(by) == 0 || v.t == nil {
		return v, nil
	}
	outs := make([]out, len(by))
	down := make([]bool, len(by))
	for i, o := range by {
		found, ok := v.find(o.Column)
		down[i] = o.Descending
		if !ok { // also accept "-wind" and "wind desc"
			name, desc := strings.CutPrefix(o.Column, "-")
			if !desc {
				if name, desc = strings.CutSuffix(o.Column, " desc"); !desc {
					name = strings.TrimSuffix(o.Column, " asc")
				}
			}
			if found, ok = v.find(name); ok && desc {
				down[i] = !o.Descending
			}
		}
		if !ok {
			return View{}, v.noColumn(fmt.Sprintf("order_by[%d]", i), o.Column)
		}
		outs[i] = found
	}
	type sortable struct {
		row  uint32
		keys [][]byte
	}
	n := v.Len()
	rows := make([]sortable, n)
	keys, err := work.Grow(m, [][]byte(nil), n*len(outs))
	if err != nil {
		return View{}, err
	}
	keys = keys[:n*len(outs)]
	r := v.reader(outs)
	for i := range n {
		if err := m.Spend(rowWork); err != nil {
			return View{}, err
		}
		at := keys[i*len(outs) : (i+1)*len(outs)]
		copy(at, r.load(i))
		for k, o := range outs {
			if o.cols[0] == rowNumber { // use the reader's bytes without copying
				at[k] = slices.Clone(at[k])
			}
		}
		rows[i] = sortable{uint32(v.rowAt(i)), at}
	}
	slices.SortStableFunc(rows, func(a, b sortable) int {
		if m.Spend(compareWork) != nil {
			return 0 // an error occurred: end the sort quickly
		}
		for k := range outs {
			x, y := kindOf(a.keys[k]), kindOf(b.keys[k])
			if x != y {
				// Missing values are last in both directions.
				if down[k] && x < kindNull && y < kindNull {
					return int(y) - int(x)
				}
				return int(x) - int(y)
			}
			if c := compare(x, a.keys[k], b.keys[k]); c != 0 {
				if down[k] {
					return -c
				}
				return c
			}
		}
		return 0
	})
	v.rows, v.picked = make([]uint32, n), true
	for i := range rows {
		v.rows[i] = rows[i].row
	}
	return v, m.Err()
}
