package table

import (
	"slices"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Selection selects rows by _row_id, and columns. An empty list selects all. Rows and columns that
// do not exist are ignored.
type Selection struct {
	RowIDs  []int
	Columns []string
}

// Select applies a selection to a table. Each row of the view starts with _row_id.
//
// If a table was read with [Options.KeepRowID] and has a column _row_id, rows are selected by that
// column, and rows without a value there are dropped. Rows of other tables are numbered by
// position.
func (s Selection) Select(t *Table) View {
	v := t.View()
	if t.Has(RowID) {
		return s.selectNumbered(v)
	}
	if len(s.RowIDs) > 0 {
		v = v.SelectRows(s.RowIDs)
	}
	if len(s.Columns) > 0 {
		v = v.Project(s.Columns)
	}
	return v.WithRowID()
}

func (s Selection) selectNumbered(v View) View {
	wanted := s.ids()
	rows := make([]uint32, 0, v.Len())
	number, _ := v.idColumn()
	r := v.reader([]out{number})
	for i := range v.Len() {
		if wanted.has(r.load(i)[0]) {
			rows = append(rows, uint32(i))
		}
	}
	v.rows, v.picked = rows, true
	columns := s.Columns
	if len(columns) == 0 {
		columns = v.t.columns
	}
	return v.Project(append([]string{RowID}, columns...))
}

// Within reports whether other selects everything that s selects.
func (s Selection) Within(other Selection) bool {
	if len(other.RowIDs) > 0 {
		if len(s.RowIDs) == 0 {
			return false
		}
		has := other.ids()
		for _, id := range s.RowIDs {
			if !has.hasInt(id) {
				return false
			}
		}
	}
	if len(other.Columns) > 0 {
		if len(s.Columns) == 0 {
			return false
		}
		for _, name := range s.Columns {
			if name != RowID && !slices.Contains(other.Columns, name) {
				return false
			}
		}
	}
	return true
}

// Union selects the rows and columns that s or other select.
func (s Selection) Union(other Selection) Selection {
	var u Selection
	if len(s.RowIDs) > 0 && len(other.RowIDs) > 0 {
		u.RowIDs = slices.Concat(s.RowIDs, other.RowIDs)
		slices.Sort(u.RowIDs)
		u.RowIDs = slices.Compact(u.RowIDs)
	}
	if len(s.Columns) > 0 && len(other.Columns) > 0 {
		u.Columns = slices.Clone(s.Columns)
		for _, name := range other.Columns {
			if !slices.Contains(u.Columns, name) {
				u.Columns = append(u.Columns, name)
			}
		}
	}
	return u
}

// ids returns the set of a selection's row numbers.
func (s Selection) ids() idSet {
	if len(s.RowIDs) == 0 {
		return idSet{all: true}
	}
	set := idSet{ids: slices.Clone(s.RowIDs)}
	slices.Sort(set.ids)
	return set
}

type idSet struct {
	all bool
	ids []int // ascending
}

func (s idSet) hasInt(id int) bool {
	_, ok := slices.BinarySearch(s.ids, id)
	return ok
}

// has reports whether a _row_id is in the set. A row without an id never is.
func (s idSet) has(id []byte) bool {
	if kindOf(id) >= kindNull {
		return false
	}
	if s.all {
		return true
	}
	n, ok := rawjson.Int(id)
	return ok && s.hasInt(n)
}
