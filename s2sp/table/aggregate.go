package table

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/internal/work"
)

// Limits of an aggregation.
const (
	maxGroups   = 100_000
	maxDistinct = 1_000_000 // distinct values counted, over all groups
)

// Aggregations lists the aggregate functions. They ignore null and absent values. sum and avg
// ignore values that are not numbers, and compute without rounding (avg is rounded once, at the
// end). min and max use the order of [Order]; first and last use the order of the rows. Without
// values, count and count_distinct are 0 and the others are null.
func Aggregations() []string {
	return []string{"count", "count_distinct", "sum", "avg", "min", "max", "first", "last"}
}

// group holds the aggregates of one group.
type group struct {
	names [][]byte // values of the grouping columns
	cells []cell
}

// cell is one aggregate of one group.
type cell struct {
	count    int64
	sum      sum
	best     []byte
	distinct map[string]bool
}

// aggregate returns a table with one row per group, in order of first appearance. Without grouping
// it returns one row for all.
func (v View) aggregate(m *work.Meter, by []string, aggregates []Aggregate) (View, error) {
	if len(aggregates) == 0 {
		aggregates = []Aggregate{{Op: "count"}}
	}
	outs := make([]out, 0, len(by)+len(aggregates))
	names := make([]string, 0, cap(outs))
	for i, name := range by {
		o, ok := v.find(name)
		if !ok {
			return View{}, v.noColumn(fmt.Sprintf("group_by[%d]", i), name)
		}
		outs, names = append(outs, o), append(names, name)
	}
	for i, a := range aggregates {
		param := fmt.Sprintf("aggregate[%d]", i)
		if !slices.Contains(Aggregations(), a.Op) {
			return View{}, badQuery(param+".op", "is %.40q, and there are %s", a.Op, strings.Join(Aggregations(), ", "))
		}
		o, ok := v.find(a.Column)
		if !ok && (a.Op != "count" || a.Column != "" && a.Column != "*") {
			return View{}, v.noColumn(param+".column", a.Column)
		}
		name := a.As
		switch {
		case name != "":
		case !ok:
			name = a.Op
		default:
			name = a.Op + "_" + a.Column
		}
		if slices.Contains(names, name) {
			return View{}, badQuery(param+".as", "gives two columns the name %.60q", name)
		}
		outs, names = append(outs, o), append(names, name)
	}
	groups, err := v.gather(m, outs, len(by), aggregates)
	if err != nil {
		return View{}, err
	}
	b := NewBuilder(Options{KeepRowID: true}, nil)
	var row []byte
	for _, g := range groups {
		row = append(row[:0], '{')
		for i, name := range names {
			if i > 0 {
				row = append(row, ',')
			}
			row = append(rawjson.AppendString(row, name), ':')
			if i < len(by) {
				row = appendValue(row, g.names[i])
			} else {
				row = g.cells[i-len(by)].append(row, aggregates[i-len(by)].Op)
			}
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

func appendValue(dst, v []byte) []byte {
	if v == nil {
		return append(dst, "null"...)
	}
	return append(dst, v...)
}

// gather reads all rows once.
func (v View) gather(m *work.Meter, outs []out, by int, aggregates []Aggregate) ([]*group, error) {
	groups := map[string]*group{}
	var order []*group
	if by == 0 {
		g := &group{cells: make([]cell, len(aggregates))}
		groups[""], order = g, append(order, g)
	}
	if v.t == nil {
		return order, nil
	}
	distinct := 0
	var key []byte
	r := v.reader(outs)
	for i := range v.Len() {
		if err := m.Spend(rowWork * 2); err != nil {
			return nil, err
		}
		values := r.load(i)
		key = key[:0]
		for _, name := range values[:by] {
			start := len(key)
			key = identity(append(key, 0, 0, 0, 0, 0, 0, 0, 0), name)
			// Prefix the length: otherwise two pairs of values could produce the same key.
			n := len(key) - start - 8
			for b := range 8 {
				key[start+b] = byte(n >> (8 * b))
			}
		}
		g := groups[string(key)]
		if g == nil {
			if len(order) >= maxGroups {
				return nil, badQuery("group_by", "makes more than %d groups", maxGroups)
			}
			g = &group{cells: make([]cell, len(aggregates))}
			for _, name := range values[:by] {
				g.names = append(g.names, slices.Clone(name))
			}
			groups[string(key)], order = g, append(order, g)
		}
		for k, a := range aggregates {
			value := values[by+k]
			if len(outs[by+k].cols) == 0 { // count without a column counts rows
				g.cells[k].count++
				continue
			}
			if kindOf(value) >= kindNull {
				continue
			}
			if err := g.cells[k].add(a.Op, value, &distinct); err != nil {
				return nil, badQuery(fmt.Sprintf("aggregate[%d]", k), "%v", err)
			}
		}
	}
	return order, nil
}

func (c *cell) add(op string, value []byte, distinct *int) error {
	switch op {
	case "count":
		c.count++
	case "count_distinct":
		id := identity(nil, value)
		if c.distinct == nil {
			c.distinct = map[string]bool{}
		}
		if !c.distinct[string(id)] {
			if *distinct++; *distinct > maxDistinct {
				return fmt.Errorf("counts more than %d different values", maxDistinct)
			}
			c.distinct[string(id)] = true
		}
	case "sum", "avg":
		if kindOf(value) == kindNumber {
			return c.sum.add(value)
		}
	case "min", "max":
		if c.best == nil || (before(value, c.best) == (op == "min") && !equal(value, c.best)) {
			c.best = append(c.best[:0:0], value...)
		}
	case "first":
		if c.best == nil {
			c.best = append(c.best, value...)
		}
	case "last":
		c.best = append(c.best[:0], value...)
	}
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

func (c *cell) append(dst []byte, op string) []byte {
	switch op {
	case "count":
		return strconv.AppendInt(dst, c.count, 10)
	case "count_distinct":
		return strconv.AppendInt(dst, int64(len(c.distinct)), 10)
	case "sum", "avg":
		switch {
		case c.sum.count == 0:
			return append(dst, "null"...)
		case op == "sum":
			return append(dst, c.sum.json()...)
		}
		return append(dst, c.sum.mean()...)
	}
	return appendValue(dst, c.best)
}
