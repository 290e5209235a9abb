package table

import (
	"slices"
	"strings"
)

// Sieve applies a [Selection] to a stream of rows with _row_id, such as the answer of a data plane.
// It holds one row at a time, so a table may have any length.
//
//	{"event":"Wind","wind":88,"_row_id":7}  ─▶ Pass ─▶ {"_row_id":7,"wind":88}
//	{"_row_id":8,"event":"Flood"}                      not selected
//	{"event":"Hail"}                                   no number: skipped
//
// It is not safe for concurrent use.
type Sieve struct {
	sel     Selection
	ids     idSet
	rank    map[string]int // position of each selected column; nil means all
	x       *indexer
	plans   []*sieved // by shape
	read    int
	passed  int
	skipped int
}

// sieved is the plan for rows of one shape.
type sieved struct {
	id    int  // the field with _row_id; -1 for none
	whole bool // rows pass unchanged
	parts []part
}

// NewSieve returns a Sieve for a selection.
func NewSieve(sel Selection) *Sieve {
	s := &Sieve{sel: sel, ids: sel.ids(), x: newIndexer(Options{KeepRowID: true})}
	if len(sel.Columns) > 0 {
		s.rank = make(map[string]int, len(sel.Columns))
		for i, name := range sel.Columns {
			if _, ok := s.rank[name]; !ok {
				s.rank[name] = i
			}
		}
	}
	return s
}

// Pass reads the row at data[i] and returns the index behind it. It appends the selected part to
// dst, with _row_id first; kept reports whether the row was selected. An invalid or truncated row,
// or one beyond a limit, is an error and changes nothing.
func (s *Sieve) Pass(dst, data []byte, i int) (out []byte, end int, kept bool, err error) {
	x := s.x
	x.pos, x.words = x.pos[:0], x.words[:0]
	x.t.rows = min(s.read, maxRows-1) // row number for errors
	if end, err = x.row(data, i); err != nil {
		return dst, i, false, err
	}
	s.read++
	if n := x.words[0]; n != noShape {
		out, kept = s.shaped(dst, data[i:end], n, x.words[2:])
	} else {
		out, kept = s.loose(dst, data[i:end])
	}
	return out, end, kept, nil
}

// shaped passes a row of a known shape whose values start at begins.
func (s *Sieve) shaped(dst, row []byte, n uint32, begins []uint32) ([]byte, bool) {
	shape := s.x.t.shapes[n]
	value := func(f int) []byte {
		end := len(row) - len(shape.suffix)
		if f+1 < len(begins) {
			end = int(begins[f+1]) - len(shape.seps[f+1])
		}
		return row[begins[f]:end]
	}
	plan := s.plan(n, shape)
	if plan.id < 0 || kindOf(value(plan.id)) >= kindNull {
		s.skipped++
		return dst, false
	}
	id := value(plan.id)
	if !s.ids.has(id) {
		return dst, false
	}
	s.passed++
	if plan.whole {
		return append(dst, row...), true
	}
	dst = append(append(dst, `{"`+RowID+`":`...), id...)
	for _, p := range plan.parts {
		dst = append(append(dst, p.lit...), value(int(p.field))...)
	}
	return append(dst, '}'), true
}

func (s *Sieve) plan(n uint32, shape *shape) *sieved {
	for int(n) >= len(s.plans) {
		s.plans = append(s.plans, nil)
	}
	if s.plans[n] != nil {
		return s.plans[n]
	}
	fields := shape.lastFields()
	p := &sieved{id: -1}
	var names []string
	seen := make(map[int32]bool, len(shape.cols))
	for f, col := range shape.cols {
		name := s.x.t.columns[col]
		switch {
		case name == RowID:
			p.id = int(fields[col])
		case !seen[col] && s.wants(name):
			p.parts = append(p.parts, part{"," + shape.keys[f] + ":", fields[col]})
			names = append(names, name)
		}
		seen[col] = true
	}
	s.order(names, p.parts)
	p.whole = p.id == 0 && s.rank == nil && !shape.twice
	s.plans[n] = p
	return p
}

func (s *Sieve) wants(name string) bool {
	if s.rank == nil {
		return true
	}
	_, ok := s.rank[name]
	return ok
}

// order sorts fields into the order of the selected columns.
func (s *Sieve) order(names []string, parts []part) {
	if s.rank == nil {
		return
	}
	at := make(map[string]int, len(parts)) // by literal
	for i, p := range parts {
		at[p.lit] = s.rank[names[i]]
	}
	slices.SortStableFunc(parts, func(a, b part) int { return at[a.lit] - at[b.lit] })
}

// loose passes a row without a shape.
func (s *Sieve) loose(dst, row []byte) ([]byte, bool) {
	values, keys := map[string][]byte{}, map[string][]byte{}
	var names []string
	for f := range looseFields(row) {
		if _, ok := values[f.name]; !ok {
			names = append(names, strings.Clone(f.name))
			keys[f.name] = f.key
		}
		values[f.name] = f.value
	}
	id := values[RowID]
	if kindOf(id) >= kindNull {
		s.skipped++
		return dst, false
	}
	if !s.ids.has(id) {
		return dst, false
	}
	s.passed++
	dst = append(append(dst, `{"`+RowID+`":`...), id...)
	if s.rank != nil {
		slices.SortStableFunc(names, func(a, b string) int { return s.rank[a] - s.rank[b] })
	}
	for _, name := range names {
		if name == RowID || !s.wants(name) {
			continue
		}
		dst = append(append(append(dst, ','), keys[name]...), ':')
		dst = append(dst, values[name]...)
	}
	return append(dst, '}'), true
}

// Passed returns the number of rows that passed.
func (s *Sieve) Passed() int { return s.passed }

// Skipped returns the number of rows without a _row_id.
func (s *Sieve) Skipped() int { return s.skipped }

// Columns lists _row_id and the selected columns that are known or have appeared in a row. They are
// in the order of the selection or, without one, the known columns first and then by appearance.
func (s *Sieve) Columns(known ...string) []string {
	names := []string{RowID}
	there := make(map[string]bool, len(known)+len(s.x.t.columns))
	for _, list := range [][]string{known, s.x.t.columns} {
		for _, name := range list {
			there[name] = true
		}
	}
	delete(there, RowID)
	for _, list := range [][]string{s.sel.Columns, known, s.x.t.columns} {
		for _, name := range list {
			if there[name] && s.wants(name) {
				names = append(names, name)
			}
			delete(there, name)
		}
	}
	return names
}
