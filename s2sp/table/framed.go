package table

import (
	"bytes"
	"errors"
	"slices"
	"strconv"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// maxFramed bounds the bytes of a table whose document names each column once: its rows repeat the
// names, so a small document could make a table of any size.
const maxFramed = 64 << 20

// framed reads an object that names its columns once:
//
//	{"columns": ["a", "b"], "rows": [[1, 2], [3, 4]]}      as many databases answer; columns may be header, headers or
//	                                                       fields, or objects with a name, and rows data, values or records
//	{"columns": ["a", "b"], "index": [0, 1], "data": […]}  pandas' to_json(orient="split")
//	{"a": {"0": 1, "1": 3}, "b": {"0": 2, "1": 4}}         pandas' to_json(), column by column
//
// ok is false if data has none of these forms. An index that is not 0, 1, 2, … becomes the column
// index. The third form needs two columns, because one column could be any object with numbers as
// keys.
func framed(data []byte, opts Options) (t *Table, ok bool, err error) {
	end, err := rawjson.Skip(data, 0)
	if err != nil || rawjson.SkipSpace(data, end) != len(data) {
		return nil, false, nil
	}
	f := frame{b: NewBuilder(opts, nil)}
	if !f.split(data) && !f.byColumn(data) {
		return nil, false, nil
	}
	return f.table()
}

// table reads the rows.
func (f *frame) table() (t *Table, ok bool, err error) {
	for f.b.Len() == 0 || f.more() {
		row := f.row()
		if row == nil {
			return nil, false, nil
		}
		if f.size += len(row); f.size > maxFramed {
			return nil, false, ErrTooLarge
		}
		if err := f.b.Append(row); err != nil {
			return nil, false, err
		}
	}
	if !f.whole() {
		return nil, false, nil
	}
	t, err = f.b.Table()
	return t, err == nil, err
}

// frame is the reading of one such object: by rows, or by columns.
type frame struct {
	b     *Builder
	names [][]byte // keys of a row, as JSON
	buf   []byte
	size  int
	sure  bool // rows may end early

	rows, index *elements // index is nil if it says nothing
	columns     []elements
}

// split starts to read columns, and rows or data.
func (f *frame) split(data []byte) bool {
	m := make([][]byte, len(framedMembers))
	if rawjson.Fields(data, framedMembers, m) != nil {
		return false
	}
	columns, rows := onlyArray(m[:4]), onlyArray(m[4:8])
	if columns == nil || rows == nil || !f.header(columns, true) {
		return false
	}
	if f.rows = (&elements{data: rows, at: 1}); !f.rows.more() {
		return false
	}
	if index := m[8]; rawjson.IsArray(index) && !slices.ContainsFunc(f.names, isIndex) && !counts(index) {
		f.index = &elements{data: index, at: 1}
		f.names = slices.Insert(f.names, 0, []byte(`"index"`))
	}
	return true
}

// framedMembers are the members that split reads: the names of the columns, the rows, and the index.
var framedMembers = []string{"columns", "header", "headers", "fields", "rows", "data", "values", "records", "index"}

func isIndex(name []byte) bool { return string(name) == `"index"` }

// onlyArray returns the one array in a list of members, nil if there is none or several.
func onlyArray(members [][]byte) (array []byte) {
	for _, m := range members {
		if !rawjson.IsArray(m) {
			continue
		}
		if array != nil {
			return nil
		}
		array = m
	}
	return array
}

// header reads the names of the columns: strings, or objects with a name if these are allowed.
func (f *frame) header(array []byte, objects bool) bool {
	seen := map[string]bool{}
	for names := (&elements{data: array, at: 1}); names.more(); {
		value := names.next()
		if objects && rawjson.IsObject(value) {
			value = rawjson.Get(value, "name")
		}
		name, err := rawjson.String(value)
		if err != nil || seen[name] || len(f.names) == MaxColumns {
			return false
		}
		seen[name] = true
		f.names = append(f.names, rawjson.Quote(name))
	}
	return len(f.names) > 0
}

// headed reads an array of arrays whose first one has the names of the columns:
//
//	[["a", "b"], [1, "x"], [2, "y"]]
//
// Names are different from each other and not empty. Unless the caller knows that the array is a table (sure), there
// are two columns at least, and some column has values that are no strings, such as numbers: lists of pairs of
// strings, and matrices of numbers, are no tables. Where the caller knows it, rows may end early, as those of
// spreadsheets do. ok is false if data is no such array.
func headed(data []byte, opts Options, sure bool) (t *Table, ok bool, err error) {
	f := frame{b: NewBuilder(opts, nil), rows: &elements{data: data, at: 1}, sure: sure}
	if !rawjson.IsArray(data) || !f.rows.more() {
		return nil, false, nil
	}
	first := f.rows.next()
	if !rawjson.IsArray(first) || !f.header(first, false) || !sure && len(f.names) < 2 ||
		slices.ContainsFunc(f.names, func(name []byte) bool { return len(name) == len(`""`) }) || !f.rows.more() {
		return nil, false, nil
	}
	if !sure && !f.typed(*f.rows) {
		return nil, false, nil
	}
	return f.table()
}

// typed reports whether the rows have as many values as there are columns, and some column has values other than
// strings, and no strings.
func (f *frame) typed(rows elements) bool {
	others, strings := make([]bool, len(f.names)), make([]bool, len(f.names))
	for rows.more() {
		values, i := elements{data: rows.next(), at: 1}, 0
		if !rawjson.IsArray(values.data) {
			return false
		}
		for ; values.more() && i < len(f.names); i++ {
			switch kindOf(values.next()) {
			case kindString:
				strings[i] = true
			case kindNumber, kindBoolean:
				others[i] = true
			}
		}
		if i != len(f.names) || values.more() {
			return false
		}
	}
	for i := range others {
		if others[i] && !strings[i] {
			return true
		}
	}
	return false
}

// counts reports whether an array is 0, 1, 2, …
func counts(array []byte) bool {
	e := elements{data: array, at: 1}
	for i := 0; e.more(); i++ {
		if string(e.next()) != strconv.Itoa(i) {
			return false
		}
	}
	return true
}

// byColumn starts to read columns with the numbers of rows as keys.
func (f *frame) byColumn(data []byte) bool {
	fits := true
	if rawjson.EachMember(data, func(m rawjson.Member) bool {
		i := rawjson.SkipSpace(m.Value, 1)
		fits = m.Value[0] == '{' && bytes.HasPrefix(m.Value[i:], []byte(`"0"`))
		f.names = append(f.names, rawjson.Quote(string(m.Key)))
		f.columns = append(f.columns, elements{data: m.Value, at: 1})
		return fits && len(f.columns) <= MaxColumns
	}) != nil {
		return false
	}
	return fits && len(f.columns) > 1 && len(f.columns) <= MaxColumns
}

// more reports whether there is a further row.
func (f *frame) more() bool {
	if f.rows != nil {
		return f.rows.more()
	}
	return f.columns[0].more()
}

// row returns the next row, or nil if it does not fit.
func (f *frame) row() []byte {
	f.buf = f.buf[:0]
	if f.rows == nil {
		key := strconv.Itoa(f.b.Len())
		for i := range f.columns {
			c := &f.columns[i]
			if !c.more() || !c.key(key) {
				return nil
			}
			f.cell(i, c.next())
		}
		return append(f.buf, '}')
	}
	values, i := elements{data: f.rows.next(), at: 1}, 0
	if f.index != nil {
		if !f.index.more() {
			return nil
		}
		f.cell(0, f.index.next())
		i = 1
	}
	if !rawjson.IsArray(values.data) {
		return nil
	}
	for ; values.more(); i++ {
		if i == len(f.names) {
			return nil
		}
		f.cell(i, values.next())
	}
	if i != len(f.names) && !f.sure {
		return nil
	}
	if i == 0 {
		f.buf = append(f.buf, '{')
	}
	return append(f.buf, '}')
}

func (f *frame) cell(i int, value []byte) {
	sep := byte(',')
	if i == 0 {
		sep = '{'
	}
	f.buf = append(append(append(append(f.buf, sep), f.names[i]...), ':'), value...)
}

// whole reports whether nothing is left in any column or in the index.
func (f *frame) whole() bool {
	for i := range f.columns {
		if f.columns[i].more() {
			return false
		}
	}
	return f.index == nil || !f.index.more()
}

// elements reads the elements of a valid array, or the members of a valid object, one after the
// other.
type elements struct {
	data []byte
	at   int
}

// more reports whether there is another element, and goes to it.
func (e *elements) more() bool {
	e.at = rawjson.SkipSpace(e.data, e.at)
	if e.at < len(e.data) && e.data[e.at] == ',' {
		e.at = rawjson.SkipSpace(e.data, e.at+1)
	}
	return e.at < len(e.data) && e.data[e.at] != ']' && e.data[e.at] != '}'
}

// key goes behind the key of a member, and reports whether the key is the wanted one.
func (e *elements) key(want string) bool {
	quoted := e.next()
	if len(quoted) != len(want)+2 || string(quoted[1:len(quoted)-1]) != want {
		return false
	}
	e.at = rawjson.SkipSpace(e.data, e.at) + 1 // the colon
	return true
}

// next returns the element here, and goes behind it.
func (e *elements) next() []byte {
	start := rawjson.SkipSpace(e.data, e.at)
	end, err := rawjson.Skip(e.data, start)
	if err != nil { // the caller has checked the whole
		end = len(e.data)
	}
	e.at = end
	return e.data[start:end]
}

// asFramed is framed for Detect: other errors than of a limit mean another form.
func asFramed(data []byte, opts Options) (*Table, bool, error) {
	return another(framed(data, opts))
}

// asHeaded is headed in place of why, the error of an array that is no table of objects.
func asHeaded(data []byte, opts Options, sure bool, why error) (*Table, error) {
	if data[rawjson.SkipSpace(data, 1)] != '[' { // data has an element, or its end
		return nil, why
	}
	if end, err := rawjson.Skip(data, 0); err != nil || rawjson.SkipSpace(data, end) != len(data) {
		return nil, why
	}
	t, ok, err := another(headed(data, opts, sure))
	if !ok && err == nil {
		err = why
	}
	return t, err
}

func another(t *Table, ok bool, err error) (*Table, bool, error) {
	if err != nil && !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrTooWide) {
		return nil, false, nil
	}
	return t, ok, err
}
