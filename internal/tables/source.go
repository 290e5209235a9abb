package tables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/limit/work"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
	syncbody "github.com/weir-mcp/weir/s2sp/dispatch"
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/s2sp/table"
)

// open finds the table of a reference; it returns nil if a preview cannot read it. Of a remote
// table, it fetches only the requested rows and columns.
func (r *resolver) open(ref *reference) (*table.Table, error) {
	store := r.tables.Store
	if strings.Contains(ref.source, "://") {
		r.call.Carried = r.call.Carried.Join(r.call.Session.Flow().Rows())
	}
	switch {
	case strings.HasPrefix(ref.source, syncbody.Scheme):
		return nil, errors.New("a ddi:// handle stands for a body: give it as resource_url to a tool that has this parameter")
	case !strings.Contains(ref.source, "://"):
		lease, err := store.At(identity.RouteOf(r.ctx).Profile).Open(r.ctx, r.call.Request.Session.Principal(), ref.source)
		if err != nil {
			return nil, err
		}
		r.call.Carried = r.call.Carried.Join(flow.Marked(lease.Mark))
		r.ends = append(r.ends, func(bool) { lease.Close() })
		return leaseTable(r.ctx, lease)
	}
	if token, own := ownToken(r.tables.base, ref.source); own {
		c, err := claimRows(r.ctx, store, token, r.wanted[ref.source], !r.preview)
		if err != nil {
			return nil, err
		}
		if c.rows == nil {
			c.end(false) // another reference may ask for it
			return nil, nil
		}
		r.ends = append(r.ends, c.end)
		return c.rows, nil
	}
	fetch := r.tables.opts.Fetch
	if fetch == nil {
		return nil, fmt.Errorf("%w: this gateway fetches from no other servers", plane.ErrRefused)
	}
	f, known := fetch.(*plane.Fetcher)
	sel := r.wanted[ref.source]
	switch {
	case r.preview && known:
		return nil, f.Check(ref.source)
	case r.preview:
		return nil, nil
	case known:
		return fetchRows(r.ctx, f, ref.source, sel)
	}
	return fetch.Fetch(r.ctx, ref.source, sel.RowIDs, sel.Columns)
}

// fetchRows fetches the rows of another server, which spends its URL.
func fetchRows(ctx context.Context, f *plane.Fetcher, from string, sel table.Selection) (*table.Table, error) {
	rows, err := f.Open(ctx, from, sel, true)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // what was wanted of it was read
	t, rest, err := collect(ctx, rows)
	if err == nil && rest != nil {
		err = rest.why
	}
	return t, err
}

// ownToken returns the token in a resource_url of this gateway.
func ownToken(base func() (string, error), resourceURL string) (token string, own bool) {
	at, err := base()
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(resourceURL, strings.TrimSuffix(at, "/")+plane.Path)
}

// claimed holds the rows behind a resource_url of this gateway, for one call.
type claimed struct {
	rows *table.Table // nil: they are remote, and were not fetched
	end  func(spend bool)
}

// claimRows claims a token. It fetches remote rows only if fetch is true, and only those in sel.
// The caller must call end: it spends the token, or releases it with the rows in the store.
func claimRows(ctx context.Context, store Store, token string, sel table.Selection, fetch bool) (c claimed, err error) {
	claim, err := store.Claim(ctx, token)
	if err != nil {
		return c, err
	}
	defer func() {
		if err != nil {
			claim.Close()
		}
	}()
	if limit, limited := claim.Limited(); limited && !sel.Within(limit) {
		return c, &plane.RequestError{Reason: "an earlier reader went away, and what it had asked for is all that is left: " + limitText(limit)}
	}
	c.end = func(spend bool) {
		if spend {
			claim.Spend()
		}
		claim.Close()
	}
	if !claim.Elsewhere() {
		c.rows, err = claim.Table(table.DetectOptions{Options: table.Options{Grow: memory.Taker(ctx)}})
		return c, err
	}
	if !fetch {
		return c, nil
	}
	// The remote server spends the rows with the first byte, so a caller that disconnects must not
	// abort the fetch. The source has its own deadlines.
	ctx = context.WithoutCancel(ctx)
	rows, err := claim.Open(ctx, sel, true)
	if err != nil {
		return c, err
	}
	t, rest, err := collect(ctx, rows)
	switch {
	case err != nil:
		_ = rows.Close() // the first error is the one to report
		return c, err
	case rest != nil:
		rest.before = artifact.RowsOf(t)
		if kept := claim.Keep(ctx, rest, sel); kept != nil {
			return c, fmt.Errorf("%w; the URL is spent: %w", rest.why, kept)
		}
		return c, rest.why
	}
	_ = rows.Close() // all of it was read
	c.rows = t
	c.end = func(spend bool) {
		if spend {
			claim.Spend()
		} else {
			// The claim is spent where this fails, and says so to the next one who asks.
			_ = claim.Keep(ctx, artifact.RowsOf(t), sel)
		}
		claim.Close()
	}
	return c, nil
}

func limitText(limit table.Selection) string {
	text := "all rows"
	if n := len(limit.RowIDs); n > 0 {
		text = fmt.Sprint("row_ids ", limit.RowIDs[:min(n, 20)])
		if n > 20 {
			text += fmt.Sprintf(" and %d more", n-20)
		}
	}
	if len(limit.Columns) > 0 {
		text += ", columns " + table.NamesText(limit.Columns, 20)
	}
	return text
}

// errTooManyRows is returned if the rows of one reference exceed the limit of a call.
var errTooManyRows = errors.New("its rows are more than a call may have; choose fewer with row_ids or columns")

// errSpent is returned if a server has released its rows and they were incomplete.
var errSpent = errors.New("the rows did not come whole, and the URL is spent")

// tableCost is how many bytes a table takes for a byte of rows: the rows, as much again while they grow, and the
// index.
const tableCost = 3

// collect reads rows into a table, up to the limit of a call, and counts its bytes until the end of the call.
// rest is what there was no room for, nil if that is nothing.
func collect(ctx context.Context, rows artifact.Rows) (t *table.Table, rest *joined, err error) {
	b := table.NewBuilder(table.Options{KeepRowID: true}, nil)
	most := maxBytes(ctx)
	for size := int64(0); ; {
		row, err := rows.Next()
		if errors.Is(err, io.EOF) {
			if s, ok := rows.(interface{ Skipped() int }); ok && b.Len() == 0 && s.Skipped() > 0 {
				return nil, nil, fmt.Errorf("%w: no row of its answer has a %s", plane.ErrAnswer, table.RowID)
			}
			t, err := b.Table()
			return t, nil, err
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", errSpent, err)
		}
		why := error(nil)
		if size += int64(len(row)); size > most {
			why = fmt.Errorf("%w (a call may have %d bytes of them)", errTooManyRows, most)
		} else {
			why = memory.Take(ctx, tableCost*int64(len(row)))
		}
		if why != nil {
			t, err := b.Table()
			return t, &joined{row: row, rest: rows, why: why}, err
		}
		if err := b.Append(row); err != nil {
			return nil, nil, fmt.Errorf("%w: %w", errSpent, err)
		}
	}
}

// joined returns rows that have been read, the one that had no room behind them, and the rest.
type joined struct {
	before artifact.Rows
	row    []byte // valid until rest has been read; nil: it was returned
	rest   artifact.Rows
	why    error // they did not all fit
}

// Next implements artifact.Rows.
func (j *joined) Next() ([]byte, error) {
	row, err := j.before.Next()
	if !errors.Is(err, io.EOF) {
		return row, err
	}
	if row = j.row; row != nil {
		j.row = nil
		return row, nil
	}
	return j.rest.Next()
}

// Columns implements artifact.Rows.
func (j *joined) Columns() []string { return j.rest.Columns() }

// Close implements artifact.Rows.
func (j *joined) Close() error { return j.rest.Close() }

// choose applies row_ids and the query. Unknown rows and columns are an error, because the caller would
// otherwise not notice that they are missing.
func (r *resolver) choose(ref *reference, t *table.Table) (table.View, error) {
	numbered := t.Has(table.RowID)
	there := func(id int) bool { return id >= 0 && id < t.Len() }
	if numbered && len(ref.rowIDs) > 0 {
		ids := plane.RowIDs(t.View())
		slices.Sort(ids)
		there = func(id int) bool { _, ok := slices.BinarySearch(ids, id); return ok }
	}
	for _, id := range ref.rowIDs {
		switch {
		case there(id):
		case numbered:
			return table.View{}, refError(r.call, ref.place.path(), "row_ids has %d, and no row of the table has this %s", id, table.RowID)
		default:
			return table.View{}, refError(r.call, ref.place.path(), "row_ids has %d, and the table has %s, numbered from 0", id, text.Plural(t.Len(), "row"))
		}
	}
	q, v := ref.query, t.View()
	if !ref.grouped {
		for _, name := range q.Columns {
			if !v.Has(name) {
				return table.View{}, refError(r.call, ref.place.path(), "columns has %q, which is no column; there are %s", text.Fit(name, maxKeyChars), table.NamesText(t.Columns(), 20))
			}
		}
	}
	switch {
	case numbered:
		v = table.Selection{RowIDs: ref.rowIDs}.Select(t)
	case len(ref.rowIDs) > 0:
		v = v.SelectRows(ref.rowIDs)
	}
	merged := ref.kind == asObjects && ref.text && !ref.grouped // abstract_data and body_data are merged by _row_id
	if own := slices.Contains(q.Columns, table.RowID); !ref.grouped && numbered && !own {
		switch {
		case !merged:
			v = v.Without([]string{table.RowID}) // it is of S2SP, not of the rows
		case len(q.Columns) > 0:
			q.Columns = append([]string{table.RowID}, q.Columns...)
		}
	}
	v, err := r.query(ref, v, q)
	if err == nil && merged && !numbered {
		v = v.WithRowID()
	}
	return v, err
}

// query runs the query of a reference, within the bounds of a view. What it makes counts for the call.
func (r *resolver) query(ref *reference, v table.View, q table.Query) (table.View, error) {
	if !ref.grouped && len(q.Where) == 0 && len(q.OrderBy) == 0 && q.Offset == 0 && q.Limit == 0 {
		if len(q.Columns) > 0 {
			v = v.Project(q.Columns)
		}
		return v, nil
	}
	var found table.Answer
	taken := int64(0)
	size, _ := v.Table().Size()
	opts := result.ViewOptions{Turns: r.tables.Turns, Room: func(bytes int64) error {
		err := memory.Take(r.ctx, bytes-taken)
		taken = max(taken, bytes)
		return err
	}}
	err := result.Bounded(r.ctx, size, opts, func(m *work.Meter) (err error) {
		found, err = v.QueryWithin(m, q)
		return err
	})
	var wrong *table.QueryError
	var bad *result.Error
	switch {
	case errors.As(err, &wrong):
		return v, refError(r.call, ref.place.path(), "%v", wrong)
	case errors.As(err, &bad) && bad.Cause != nil:
		return v, r.noRoom(bad.Cause)
	case bad != nil:
		return v, refError(r.call, ref.place.path(), "%s", bad.Message)
	}
	return found.View, err
}

// failed returns the error for a reference without rows.
func (r *resolver) failed(ref *reference, err error) error {
	return sourceError(r.ctx, r.call, ref.place.path(), err)
}

// sourceError returns the error for a source, at a path of the arguments, without rows.
func sourceError(ctx context.Context, c *dispatch.Call, path string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var ae *artifact.Error
	var bad *plane.RequestError
	var full *memory.Error
	code := result.ArgsInvalid
	switch {
	case errors.Is(err, artifact.ErrToken), errors.Is(err, plane.ErrGone):
		return refError(c, path, "unknown or expired resource: a resource_url works once, and not for long; call the tool that gave it again")
	case errors.As(err, &bad):
		return refError(c, path, "%s", bad.Reason)
	case errors.Is(err, errTooManyRows):
		return refError(c, path, "%v", err)
	case errors.As(err, &ae):
		return refError(c, path, "%s", ae.Error())
	case errors.Is(err, errSpent), errors.Is(err, plane.ErrAnswer):
		code = result.UpstreamError // a retry finds nothing, or the same
	case errors.As(err, &full):
		return dispatch.Classify(ctx, c.Entry.Upstream, mcp.NoRoom("the rows of "+path, err))
	case errors.Is(err, plane.ErrFetch):
		code = result.UpstreamUnavailable
	}
	e := refError(c, path, "%v", err)
	e.Code, e.Cause = code, err
	return e
}
