package table

import (
	"fmt"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Merge joins abstract rows and body rows with the same _row_id into one table, as consumer tools
// do. The result has the rows of abstract in their order. Each has its own fields first, then the
// fields that only its body row has. Rows of abstract without a _row_id, or with null, are dropped.
// A row without a body row stays as it is. If several body rows have the same _row_id, the last one
// is used.
//
// The _row_id of a row is its field in a table read with KeepRowID, or its position in a view made
// by [View.WithRowID]. In other views rows have none.
func Merge(abstract, body View) (*Table, error) {
	rows := map[string]int{}
	if id, ok := body.idColumn(); ok {
		r := body.reader([]out{id})
		for i := range body.Len() {
			if id := r.load(i)[0]; kindOf(id) < kindNull {
				rows[string(identity(nil, id))] = i
			}
		}
	}
	b := NewBuilder(Options{KeepRowID: true}, nil)
	number, ok := abstract.idColumn()
	if !ok {
		return b.Table()
	}
	left := abstract.shown()
	has := make(map[string]int, len(left))
	for k, o := range left {
		has[o.name] = k
	}
	var right []out
	var shadow []int // column of left that hides a column of right, or -1
	if body.t != nil {
		right = body.shown()
	}
	for _, o := range right {
		k, ok := has[o.name]
		if !ok {
			k = -1
		}
		shadow = append(shadow, k)
	}
	ids := abstract.reader([]out{number})
	lefts := newEmitter(abstract)
	values := abstract.reader(left)
	var rights *reader
	if body.t != nil {
		rights = body.reader(right)
	}
	var row, id []byte
	for i := range abstract.Len() {
		own := ids.load(i)[0]
		if kindOf(own) >= kindNull {
			continue
		}
		row = lefts.append(row[:0], abstract.rowAt(i))
		id = identity(id[:0], own)
		if at, ok := rows[string(id)]; ok {
			row = row[:len(row)-1]
			hidden := values.load(i)
			for k, v := range rights.load(at) {
				if v == nil || shadow[k] >= 0 && hidden[shadow[k]] != nil {
					continue
				}
				row = append(row, ',')
				row = append(rawjson.AppendString(row, right[k].name), ':')
				row = append(row, v...)
			}
			row = append(row, '}')
		}
		if err := b.Append(row); err != nil {
			return nil, fmt.Errorf("merging: %w", err)
		}
	}
	return b.Table()
}

// idColumn returns the _row_id column of a view, if it has one.
func (v View) idColumn() (out, bool) {
	switch {
	case v.id:
		return out{name: RowID, key: rawjson.Quote(RowID), cols: []int{rowNumber}}, true
	case v.t == nil || !v.t.Has(RowID):
		return out{}, false
	}
	return v.find(RowID)
}
