package result

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/work"
	"github.com/weir-mcp/weir/internal/text"
	tables "github.com/weir-mcp/weir/s2sp/table"
)

// TableParams are the parameters of selector "table" that are of the query alone.
var TableParams = []string{"columns", "where", "order_by", "offset", "limit", "aggregate", "group_by"}

var tableParams = append(slices.Clone(TableParams), "path")

// rowsOf reads the artifact as a table.
func (v *viewing) rowsOf() (*tables.Table, error) {
	opts := TableOptions(v.artifact.MediaType, func() []byte { return v.data })
	opts.Options.Grow = growing(v.meter).Grow
	return v.read(opts)
}

// growing returns options to read a table whose memory the meter has.
func growing(m *work.Meter) tables.Options { return tables.Options{Grow: m.Take} }

// tableAt is rowsOf, or the objects that a path selects.
func (v *viewing) tableAt(path string, placed bool) (*tables.Table, error) {
	if !placed {
		return v.rowsOf()
	}
	array, _, err := v.arrayAt("table", path)
	if err != nil {
		return nil, err
	}
	if err := v.meter.Spend(int64(len(array))); err != nil {
		return nil, err
	}
	return tables.Detect(array, tables.DetectOptions{Options: growing(v.meter)})
}

// answered is what a selector of type table selects.
type answered struct {
	tables.Answer
	tables.Query
	of              *tables.Table
	placed, grouped bool
}

// tableQuery runs the query of a selector of type table. change may change it before.
func (v *viewing) tableQuery(change func(*tables.Query)) (a answered, err error) {
	path, placed, err := v.str("path")
	if err != nil {
		return a, err
	}
	query := v.selector
	if _, ok := v.params["path"]; ok {
		if query, err = rawjson.Delete(query, "path"); err != nil {
			return a, viewFailed("selector: %v", err)
		}
	}
	q, err := tables.ParseQuery(query)
	if err != nil {
		return a, tableFailed(err)
	}
	change(&q)
	t, err := v.tableAt(path, placed)
	if err != nil {
		var failed *Error
		if errors.As(err, &failed) || v.meter.Err() != nil {
			return a, err
		}
		if errors.Is(err, tables.ErrNotTable) {
			return a, viewFailed("type \"table\" needs rows and %s has none: %s; name an array of objects by path, or use head, lines, json_path or search", v.artifact.Handle, text.Line(err.Error(), text.MaxMessageChars))
		}
		return a, viewFailed("%s cannot be read as a table: %s", v.artifact.Handle, text.Line(err.Error(), text.MaxMessageChars))
	}
	grouped := len(q.Aggregate) > 0 || len(q.GroupBy) > 0
	if !grouped && len(q.Columns) > 0 && t.Has(tables.RowID) && !slices.Contains(q.Columns, tables.RowID) {
		q.Columns = append([]string{tables.RowID}, q.Columns...)
	}
	found, err := t.View().QueryWithin(v.meter, q)
	if err != nil {
		if ended := v.meter.Err(); errors.Is(err, ended) {
			return a, ended
		}
		return a, tableFailed(err)
	}
	return answered{Answer: found, Query: q, of: t, placed: placed, grouped: grouped}, nil
}

// Rows returns the rows that a selector of type table selects; without a limit in it, all of them.
// data and read are of the artifact: its bytes, and these as a table. The rows are invalid when the
// bytes are. It returns the errors of Select.
func Rows(ctx context.Context, a artifact.Artifact, data []byte, read func(tables.DetectOptions) (*tables.Table, error), selector json.RawMessage, opts ViewOptions) (rows tables.View, err error) {
	err = Bounded(ctx, int64(len(data)), opts, func(m *work.Meter) error {
		v, err := newViewing(m, ctx, a, data, read, selector, opts.MaxChars)
		if err != nil {
			return err
		}
		found, err := v.tableQuery(func(q *tables.Query) {
			if _, limited := v.params["limit"]; !limited {
				q.Limit = 0
			}
		})
		rows = found.View
		return err
	})
	return rows, opts.Screen.viewError(err)
}

// table shows rows and columns by what they hold. Rows come with their _row_id,
// by which a $table reference and a fetch select; those at a path of their own have none.
func (v *viewing) table() (View, error) {
	a, err := v.tableQuery(func(*tables.Query) {})
	if err != nil {
		return View{}, err
	}
	rows := a.View
	if t := a.of; !a.grouped && !a.placed && !t.Has(tables.RowID) {
		rows = rows.WithRowID()
	}
	if v.csv {
		if text, shown, ok := csvRows(&v.scratch, rows, v.max-noticeChars); ok {
			return v.tableView(a, text, "CSV", shown, nil)
		}
	}
	list := listRows(&v.scratch, rows, v.max-noticeChars)
	return v.tableView(a, list.text(), "", list.shown, list)
}

// tableView puts a view of type table together, whose text shows so many rows in a form. list has the values that are
// shortened; it may be nil.
func (v *viewing) tableView(a answered, text, form string, shown int, list *valueList) (View, error) {
	q, t, grouped := a.Query, a.of, a.grouped
	start := min(q.Offset, a.Matched)
	at := start + shown
	noun := "rows"
	if grouped {
		noun = "groups"
	}
	notice := ""
	if start > 0 || at < a.Matched {
		notice = fmt.Sprintf("%s %d to %d of %d", noun, start, at, a.Matched)
		if len(q.Where) > 0 {
			notice += fmt.Sprintf(" that match, of %d", t.Len())
		}
	} else if len(q.Where) > 0 {
		notice = fmt.Sprintf("all %d %s that match, of %d", a.Matched, noun, t.Len())
	}
	if list != nil {
		notice = list.told(notice, "row", start, nil)
	}
	if form != "" && notice != "" {
		form += ", "
	}
	notice = form + notice
	var next []byte
	if at < a.Matched {
		var err error
		if next, err = rawjson.Set(v.selector, "offset", strconv.AppendInt(nil, int64(at), 10)); err != nil {
			return View{}, viewFailed("selector: %v", err)
		}
		next = compact(nil, next)
	}
	view := v.finish(text, notice, next)
	view.Matched = a.Matched
	return view, nil
}

func compactRow(dst []byte, rows tables.View, i int) []byte {
	start := len(dst)
	dst = rows.AppendRow(dst, i)
	if bytes.ContainsAny(dst[start:], "\n\t ") {
		row := bytes.Clone(dst[start:])
		dst = compact(dst[:start], row)
	}
	return dst
}

// tableFailed names the parameter of a query that is wrong.
func tableFailed(err error) *Error {
	var q *tables.QueryError
	if !errors.As(err, &q) {
		return &Error{Code: ViewFailed, Message: "table: " + text.Line(err.Error(), text.MaxMessageChars), Cause: err}
	}
	e := viewFailed("%s %s", q.Param, q.Detail)
	e.Details = append(rawjson.AppendString(json.RawMessage(`{"param":`), q.Param), '}')
	return e
}
