package tables

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/result"
	syncbody "github.com/weir-mcp/weir/s2sp/dispatch"
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/s2sp/table"
)

// fillBody replaces a ddi:// handle in the arguments by the body in the session, once for all attempts
// of the call.
func fillBody(ctx context.Context, c *dispatch.Call) error {
	args, err := c.Session.FillBody(ctx, c.Args)
	if err != nil {
		return &result.Error{Code: result.ArgsInvalid, Message: err.Error(), Cause: err}
	}
	c.Args = args
	return nil
}

// hideBodies removes the bodies from a result, or withholds the result if that fails. asked means
// that the call had mode sync.
func (d *division) hideBodies(ctx context.Context, asked bool, raw json.RawMessage) (json.RawMessage, error) {
	c := d.call
	if len(raw) > memory.Free && rawjson.Contains(raw, "abstract") && rawjson.Contains(raw, "body") {
		n, err := memory.TakeShare(ctx, tableCost*int64(len(raw)))
		if err != nil {
			return nil, d.keepError(ctx, err)
		}
		defer memory.Give(ctx, max(0, n-int64(len(raw)))) // the rest is the new result's
	}
	hide := c.Session.Bodies().OnToolResult
	if asked {
		hide = c.Session.Bodies().OnSyncResult
	}
	out, err := hide(raw)
	if err != nil {
		return nil, &result.Error{Code: result.UpstreamError, Cause: err, Details: toolOf(c), Ran: true,
			Message: fmt.Sprintf("%s HAS run, but its answer is withheld, because it may hold %v. Ask with mode async, or have its server write JSON; another call runs it again", c.Entry.ID, err)}
	}
	return out, nil
}

// keepBodies stores the rows of a tool that was called in mode sync in place of async. It converts
// the answer to mode async, and reports whether the answer had rows to store.
func (d *division) keepBodies(ctx context.Context, result json.RawMessage) (out json.RawMessage, stored bool, failed error) {
	n, err := memory.TakeShare(ctx, tableCost*int64(len(result)))
	if err != nil {
		return nil, false, err
	}
	defer memory.Give(ctx, n)
	kept := ""
	out = syncbody.EachDocument(result, "abstract", func(obj []byte) ([]byte, bool) {
		var abstract, body []byte
		if failed != nil || rawjson.Scan(obj, rawjson.Key("abstract", &abstract), rawjson.Key("body", &body)) != nil || abstract == nil || body == nil || string(body) == "null" {
			return nil, false
		}
		if kept == "" {
			var rows *table.Table
			if rows, failed = mergeBody(abstract, body, columnsIn(obj)); failed != nil {
				return nil, false
			}
			if kept, failed = d.deposit(ctx, rows); failed != nil {
				return nil, false
			}
		}
		next, err := rawjson.Delete(obj, "body")
		if err == nil {
			next, err = rawjson.Set(next, plane.ParamURL, rawjson.Quote(kept))
		}
		failed = err
		return next, err == nil
	})
	return out, kept != "", failed
}

// mergeBody returns the table whose parts are the abstract and the body of a mode sync answer. Its
// columns have the order that the answer lists.
func mergeBody(abstract, body []byte, columns []string) (*table.Table, error) {
	a, err := rowsIn(abstract)
	if err != nil {
		return nil, fmt.Errorf("reading the abstract: %w", err)
	}
	b, err := rowsIn(body)
	if err != nil {
		return nil, fmt.Errorf("reading the body: %w", err)
	}
	t, err := table.Merge(a.View(), b.View())
	if err == nil && t.Len() < a.Len() && t.Len() == 0 {
		return nil, fmt.Errorf("its rows have no %s", table.RowID)
	}
	if err != nil {
		return nil, err
	}
	return inOrder(t, columns)
}

// inOrder returns the table with its columns in an order; _row_id comes first, and columns that the
// order lacks come last.
func inOrder(t *table.Table, order []string) (*table.Table, error) {
	rank := make(map[string]int, len(order)+1)
	for i, name := range order {
		rank[name] = i - len(order)
	}
	rank[table.RowID] = -len(order) - 1
	columns := t.Columns()
	sorted := slices.SortedStableFunc(slices.Values(columns), func(a, b string) int { return rank[a] - rank[b] })
	if slices.Equal(columns, sorted) {
		return t, nil
	}
	b := table.NewBuilder(table.Options{KeepRowID: true}, nil)
	row := t.View().Project(sorted).Appender()
	var buf []byte
	for i := range t.Len() {
		buf = row(buf[:0], i)
		if err := b.Append(buf); err != nil {
			return nil, err
		}
	}
	return b.Table()
}

// rowsIn parses a value as rows: a list of them, one row, or either as text.
func rowsIn(value []byte) (*table.Table, error) {
	if text, err := rawjson.Unquote(value); err == nil {
		value = text
	}
	if string(value) == "null" {
		value = []byte("[]")
	}
	// The view is merged, which copies the rows.
	return table.Detect(value, table.DetectOptions{Options: table.Options{KeepRowID: true}, One: true})
}
