package result

import (
	"fmt"
	"strings"

	"github.com/weir-mcp/weir/internal/rawjson"
	tables "github.com/weir-mcp/weir/s2sp/table"
)

// rows shows rows start to end of a table, the end not included, as JSON objects.
// Rows of comma-separated values are what follows the line of names, as in the
// description of the artifact. What is no table is shown by lines.
func (v *viewing) rows() (View, error) {
	start, end, err := v.span()
	if err != nil {
		return View{}, err
	}
	if t := v.jsonRows(); t != nil {
		return v.rawRows(t, start, end), nil
	}
	if t := v.csvRows(); t != nil {
		return v.tableRows(t.View(), start, end), nil
	}
	return v.lineRange("rows", start, end)
}

// rawRows shows rows as they stand in the JSON.
func (v *viewing) rawRows(t *tables.Table, start, end int) View {
	total := t.Len()
	start, end = clampSpan(start, end, total)
	rows := make([][]byte, 0, end-start)
	for i := start; i < end; i++ {
		rows = append(rows, t.Row(i))
	}
	out, shown := joinElements(rows, v.max-noticeChars)
	if shown == 0 && start < end {
		next := append(rawjson.AppendString([]byte(`{"type":"json_path","path":`), rowPath(t, start)), '}')
		return v.finish(out, fmt.Sprintf("row %d of %d alone is too long to show", start, total), next)
	}
	return v.rowRange(out, start, shown, end, total)
}

// tableRows shows rows of a table that is no JSON.
func (v *viewing) tableRows(rows tables.View, start, end int) View {
	total := rows.Len()
	start, end = clampSpan(start, end, total)
	out, shown := writeRows(rows.Slice(start, end), v.max-noticeChars)
	if shown == 0 && start < end {
		return v.finish(out, fmt.Sprintf("row %d of %d alone is too long to show: name columns with the selector \"table\"", start, total), nil)
	}
	return v.rowRange(out, start, shown, end, total)
}

// rowRange puts a view of shown rows from start on together, where rows up to end
// were asked for.
func (v *viewing) rowRange(out string, start, shown, end, total int) View {
	at := start + shown
	if start == 0 && at == total {
		return v.finish(out, "", nil)
	}
	var next []byte
	if at < total {
		next = appendRowsView(nil, at, min(total, at+max(end-start, 1)))
	}
	return v.finish(out, fmt.Sprintf("rows %d to %d of %d", start, at, total), next)
}

// clampSpan puts a span within a total; an end below 0 is the total.
func clampSpan(start, end, total int) (int, int) {
	if end < 0 || end > total {
		end = total
	}
	return min(start, end), end
}

// csvRows returns the artifact as a table of comma-separated values, nil where it
// is none: where its media type says so, or where it begins as one.
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
