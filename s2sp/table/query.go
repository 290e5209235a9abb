package table

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/work"
)

// DefaultLimit is how many rows a parsed query shows unless it says otherwise.
const DefaultLimit = 50

// Query asks for a part of a table: the parameters of tool_view's selector
// "table". The zero Query asks for everything.
//
//	rows ─▶ Where ─▶ GroupBy + Aggregate ─▶ OrderBy ─▶ Offset, Limit ─▶ Columns
type Query struct {
	Columns   []string    // shown columns in their order; empty is all
	Where     []Condition // all must hold
	OrderBy   []Order
	GroupBy   []string
	Aggregate []Aggregate // with GroupBy and without: one row for each group, or one for all
	Offset    int
	Limit     int // 0 is no limit
}

// Condition holds for a row whose value in Column stands to Value as Op says.
type Condition struct {
	Column string
	Op     string          // one of Operators
	Value  json.RawMessage // of in and not_in, an array; of exists and null, absent or a boolean
}

// Order sorts by a column. Numbers come before strings, then booleans, then
// nested values; null and absent come last in both directions.
type Order struct {
	Column     string
	Descending bool
}

// Aggregate is computed over the rows of a group.
type Aggregate struct {
	Op     string // one of Aggregations
	Column string // may be empty for count
	As     string // name of the result; empty is op_column, or count
}

// Answer is what a query gives.
type Answer struct {
	View View
	// Matched is how many rows there were before Offset and Limit; with
	// aggregates, how many groups.
	Matched int
}

// QueryError says which parameter of a query is wrong and how.
type QueryError struct {
	Param  string // such as "where[1].op"
	Detail string
}

// Error returns the sentence a user reads.
func (e *QueryError) Error() string { return e.Param + " " + e.Detail }

func badQuery(param, format string, args ...any) error {
	return &QueryError{Param: param, Detail: fmt.Sprintf(format, args...)}
}

// maxQueryWork bounds a query without a Meter of its own, in units of work: some
// ten million rows with simple conditions.
const maxQueryWork = 2_000_000_000

// What a query costs, in units of work.
const (
	rowWork     = 30 // to read the columns of a row that it needs
	compareWork = 5  // to compare two rows
)

// Query is QueryWithin for ctx, with a bound that queries of millions of rows stay
// within.
func (v View) Query(ctx context.Context, q Query) (Answer, error) {
	m := work.NewMeter(ctx, work.Options{Limit: maxQueryWork})
	defer m.Close()
	return v.QueryWithin(m, q)
}

// QueryWithin answers q. The error is a *QueryError, or m's: it counts what the
// query costs.
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

// noColumn says which columns there are.
func (v View) noColumn(param, name string) error {
	return badQuery(param, "names %.60q, which is no column; there are: %s", name, NamesText(v.Columns(), 40))
}

// filter returns v with the rows for which all conditions hold.
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
			rows = append(rows, uint32(v.rowAt(i)))
		}
	}
	v.rows, v.picked = rows, true
	return v, nil
}

// order sorts the rows; those that are equal stay in their order.
func (v View) order(m *work.Meter, by []Order) (View, error) {
	if len(by) == 0 || v.t == nil {
		return v, nil
	}
	outs := make([]out, len(by))
	down := make([]bool, len(by))
	for i, o := range by {
		found, ok := v.find(o.Column)
		down[i] = o.Descending
		if !ok { // "-wind" and "wind desc" are written, too
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
	keys := make([][]byte, n*len(outs))
	r := v.reader(outs)
	for i := range n {
		if err := m.Spend(rowWork); err != nil {
			return View{}, err
		}
		at := keys[i*len(outs) : (i+1)*len(outs)]
		copy(at, r.load(i))
		for k, o := range outs {
			if o.cols[0] == rowNumber { // the reader's own bytes
				at[k] = slices.Clone(at[k])
			}
		}
		rows[i] = sortable{uint32(v.rowAt(i)), at}
	}
	slices.SortStableFunc(rows, func(a, b sortable) int {
		if m.Spend(compareWork) != nil {
			return 0 // the sorting ends soon
		}
		for k := range outs {
			x, y := kindOf(a.keys[k]), kindOf(b.keys[k])
			if x != y {
				// What is missing comes last in both directions.
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
