package result

import (
	"fmt"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	tables "github.com/weir-mcp/weir/s2sp/table"
)

// rows shows rows start to end, the end not included, as JSON: the elements of an array, the objects
// that stand one after the other, and of an object the elements of the one array in it or of the one
// that path names. Rows of comma-separated values are what follows the line of names, as in the
// description of the artifact. What is none of these is shown by lines.
func (v *viewing) rows() (View, error) {
	of, err := v.span()
	if err != nil {
		return View{}, err
	}
	content, placed, err := v.str("path")
	if err != nil {
		return View{}, err
	}
	if placed {
		array, path, err := v.arrayAt("rows", content)
		if err != nil {
			return View{}, err
		}
		return v.elements(array, path, rawjson.AppendString([]byte(`,"path":`), content), of), nil
	}
	if t := v.jsonRows(); t != nil {
		return v.rawRows(t, of), nil
	}
	if t := v.csvRows(); t != nil {
		return v.tableRows(t.View(), of), nil
	}
	array, path, err := v.onlyArray()
	if err != nil {
		return View{}, err
	}
	if array != nil {
		return v.elements(array, path, nil, of), nil
	}
	return v.lineRange("rows", of, false)
}

// arrayAt returns the array that a path selects, or an array of the values that it selects, and the
// path of the array if it stands in the document.
func (v *viewing) arrayAt(kind, content string) (array []byte, at string, err error) {
	path, body, matches, err := v.matches(kind, content)
	if err != nil {
		return nil, "", err
	}
	if path.definite() {
		switch {
		case len(matches) == 0:
			return nil, "", v.pathMiss(body, content, path)
		case matches[0][0] == '[':
			return matches[0], path.text, nil
		}
		return nil, "", viewFailed("type %q needs an array and %s is %s", kind, text.Fit(path.text, 80), text.Line(describeValue(matches[0]), 120))
	}
	size := 2
	for _, m := range matches {
		size += len(m) + 1
	}
	if err := v.meter.Take(int64(size)); err != nil {
		return nil, "", err
	}
	array = append(make([]byte, 0, size), '[')
	for i, m := range matches {
		if i > 0 {
			array = append(array, ',')
		}
		array = append(array, m...)
	}
	return append(array, ']'), "", nil
}

// onlyArray returns the array that the artifact is, or the only one in the object that it is, nil if
// it is no JSON or has no array. Several are an error that names them.
func (v *viewing) onlyArray() (array []byte, path string, err error) {
	body, err := v.jsonDocument("rows")
	if err != nil {
		return nil, "", nil // no JSON: it has lines
	}
	switch body[0] {
	case '[':
		return body, "$", nil
	case '{':
		found := tables.FindArrays(body)
		if len(found) == 1 {
			return found[0].Value, found[0].Path, nil
		}
		if len(found) > 1 {
			var names []string
			for _, a := range found[:min(len(found), 5)] {
				names = append(names, a.Path)
			}
			return nil, "", viewFailed("type \"rows\" needs an array and %s has several: name one by path, of %s", v.artifact.Handle, text.Line(strings.Join(names, ", "), 300))
		}
	}
	return nil, "", nil
}

// elements shows elements of an array. path is where it stands, if anywhere; again is what a selector
// that goes on has more.
func (v *viewing) elements(array []byte, path string, again []byte, of span) View {
	total := countElements(array)
	start, end := of.within(total)
	at := func(int) []byte { return nil }
	if path != "" {
		at = func(i int) []byte {
			return append(rawjson.AppendString([]byte(`{"type":"json_path","path":`), fmt.Sprintf("%s[%d]", path, i)), '}')
		}
	}
	return v.rowRange(listValues(&v.scratch, elementsOf(array, start, end, v.max), v.max-noticeChars), start, end, total, again, at)
}

// rawRows shows rows as they stand in the JSON.
func (v *viewing) rawRows(t *tables.Table, of span) View {
	total := t.Len()
	start, end := of.within(total)
	var rows [][]byte
	for i := start; i < min(end, start+v.max); i++ { // there is room for no more
		rows = append(rows, t.Row(i))
	}
	at := func(i int) []byte {
		if t.Path() == "" && v.artifact.MediaType != mediaNDJSON {
			return nil // no path leads to a row
		}
		return append(rawjson.AppendString([]byte(`{"type":"json_path","path":`), rowPath(t, i)), '}')
	}
	return v.rowRange(listValues(&v.scratch, rows, v.max-noticeChars), start, end, total, nil, at)
}

// tableRows shows rows of a table that is no JSON.
func (v *viewing) tableRows(rows tables.View, of span) View {
	total := rows.Len()
	start, end := of.within(total)
	list := listRows(&v.scratch, rows.Slice(start, min(end, start+v.max)), v.max-noticeChars)
	return v.rowRange(list, start, end, total, nil, func(int) []byte { return nil })
}

// rowRange puts a view of rows from start on together, where rows up to end were asked for. again is
// what a selector that goes on has more; whole returns the selector that shows more of a row.
func (v *viewing) rowRange(list *valueList, start, end, total int, again []byte, whole func(i int) []byte) View {
	at := start + list.shown
	if start == 0 && at == total && list.short == 0 {
		return v.finish(list.text(), "", nil)
	}
	var next, more []byte
	if list.short > 0 {
		more = whole(start + list.first)
	}
	if at < total {
		next = appendRowsView(nil, at, min(total, at+max(end-start, 1)))
		next = append(append(next[:len(next)-1], again...), '}')
	} else {
		next, more = more, nil
	}
	return v.finish(list.text(), list.told(fmt.Sprintf("rows %d to %d of %d", start, at, total), "row", start, more), next)
}

// csvRows returns the artifact as a table of comma-separated values, nil where it is none: where
// its media type says so, or where it starts as one.
func (v *viewing) csvRows() *tables.Table {
	mediaType, _, _ := strings.Cut(v.artifact.MediaType, ";")
	if mediaType != mediaCSV && !beginsAsCSV(v.data) {
		return nil
	}
	t, err := v.rowsOf()
	if err != nil {
		return nil
	}
	return t
}
