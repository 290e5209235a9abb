package plane

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/s2sp/table"
)

// Relay is the resource_url of another server as the source of a token here, for readers that
// cannot reach that server.
//
//	reader ─▶ POST …/data/{our token} ─▶ Claim ─▶ Relay.Open ─▶ POST …/data/{its token}
//	       ◀── rows, as they come ◀──────────────────────────── rows, as they come
type Relay struct {
	Fetcher *Fetcher
	URL     string
	// Columns are the columns of the table, nil if they are unknown: then its server is asked to
	// report columns that do not exist, which not every server does.
	Columns []string
}

var _ artifact.Source = (*Relay)(nil)

// Open implements artifact.Source.
func (r *Relay) Open(ctx context.Context, sel table.Selection, strict bool) (artifact.Rows, error) {
	if strict && r.Columns != nil {
		if err := check(sel, r.Columns); err != nil {
			return nil, err
		}
	}
	a, err := r.Fetcher.Open(ctx, r.URL, sel, strict)
	if errors.Is(err, ErrGone) {
		err = fmt.Errorf("%w: %w", artifact.ErrToken, err)
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// limitedTo describes the remaining rows, which an earlier reader did not take.
func limitedTo(limit Request) string {
	var left []string
	if n := len(limit.RowIDs); n > 0 {
		const show = 20
		ids := strings.Trim(fmt.Sprint(limit.RowIDs[:min(n, show)]), "[]")
		if n > show {
			ids += fmt.Sprintf(" and %d more", n-show)
		}
		left = append(left, "row_ids "+ids)
	}
	if len(limit.Columns) > 0 {
		left = append(left, "columns "+table.NamesText(limit.Columns, 60))
	}
	return "an earlier reader went away before the first byte, and the server of these rows gives them out once: what that reader asked for is all that is left (" +
		strings.Join(left, "; ") + "); ask for no more than that, or call the resource tool again"
}

// primed is Rows whose first row has been read, and can be read again.
type primed struct {
	artifact.Rows
	first []byte
	err   error
	begun bool
}

func prime(rows artifact.Rows) *primed {
	p := &primed{Rows: rows}
	p.first, p.err = rows.Next()
	return p
}

// Next implements artifact.Rows.
func (p *primed) Next() ([]byte, error) {
	if !p.begun {
		p.begun = true
		return p.first, p.err
	}
	return p.Rows.Next()
}

// passOn answers with rows that are elsewhere, as they arrive.
func (e *endpoint) passOn(w http.ResponseWriter, r *http.Request, control *http.ResponseController, claim *artifact.Claim, req Request) {
	// From here on the source may have spent its rows, so the end of the reader's request must not
	// cancel reading them. The source has deadlines of its own.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(r.Context()), claim.Expires.Add(e.opts.Stall))
	defer cancel()
	opened, err := claim.Open(ctx, req, strict(r.Header))
	if err != nil {
		e.refuseSource(w, r, claim, err)
		return
	}
	rows := prime(opened)
	if rows.err != nil && !errors.Is(rows.err, io.EOF) {
		_ = rows.Close() // the first error is the one to report
		e.refuseSource(w, r, claim, rows.err)
		return
	}
	kind := choose(r.Header.Values("Accept"))
	if kind != TypeJSON && kind != TypeNDJSON {
		e.keepAndServe(ctx, w, r, control, claim, rows, req)
		return
	}
	p := &passing{rows: rows, lines: kind == TypeNDJSON, out: &bodyWriter{w: w, control: control, stall: e.opts.Stall, spend: claim.Spend}}
	err = p.begin(r.Context(), kind)
	if err != nil && p.out.written == 0 { // the connection is broken: the token stays unspent
		if err := claim.Keep(ctx, rows, req); err != nil {
			e.opts.Logger.Warn("s2sp: unread rows are lost", "label", claim.Label, "error", err)
		}
		panic(http.ErrAbortHandler)
	}
	if err == nil {
		err = p.rest(ctx)
	}
	err = cmp.Or(err, rows.Close())
	e.opts.Logger.Debug("s2sp: passed on", "label", claim.Label, "rows", p.count, "bytes", p.out.written, "error", err)
	if err != nil {
		// The status is sent already: only a broken connection shows the reader that rows are
		// missing.
		panic(http.ErrAbortHandler)
	}
	claim.Spend() // also where the body is empty
}

// passing writes rows as they come.
type passing struct {
	rows  *primed
	lines bool // one a line
	out   *bodyWriter
	count int
	buf   []byte // up to passChunk, and the rest of a row
}

// passChunk is how much is written at once.
const passChunk = 64 << 10

// begin writes the headers and the first bytes of the body. If it fails before a
// byte of the body is out, the first row can be read again.
func (p *passing) begin(ctx context.Context, kind string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h := p.out.w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", kind)
	h.Set("Vary", "Accept")
	p.out.deadline()
	p.out.w.WriteHeader(http.StatusOK)
	// The headers go first, without the body, so that a connection that is broken by now shows
	// before a byte of the body is written.
	if err := cmp.Or(p.out.flush(), ctx.Err()); err != nil {
		return fmt.Errorf("writing headers: %w", err)
	}
	p.buf = make([]byte, 0, 2*passChunk)
	if !p.lines {
		p.out.head = bodyHead
		_, err := p.out.Write([]byte{'['})
		return err
	}
	if p.rows.err != nil { // there are none
		return nil
	}
	if err := p.row(ctx, p.rows.first); err != nil {
		return err
	}
	p.buf = append(p.buf, '\n')
	err := p.flush()
	if err == nil {
		p.rows.begun, p.count = true, 1
	}
	return err
}

// row writes a row. A long one is not copied, except where line breaks have to go.
func (p *passing) row(ctx context.Context, row []byte) error {
	if p.lines && bytes.ContainsAny(row, "\r\n") {
		n := int64(len(row))
		if err := memory.Take(ctx, n); err != nil {
			return err
		}
		defer memory.Give(ctx, n)
		row = rawjson.StripNewlines(make([]byte, 0, n), row)
	}
	if len(row) >= passChunk {
		if err := p.flush(); err != nil {
			return err
		}
		_, err := p.out.Write(row)
		return err
	}
	p.buf = append(p.buf, row...)
	return nil
}

// flush writes the bytes of buf.
func (p *passing) flush() error {
	if len(p.buf) == 0 {
		return nil
	}
	_, err := p.out.Write(p.buf)
	p.buf = p.buf[:0]
	return err
}

// rest writes the part that begin has left.
func (p *passing) rest(ctx context.Context) error {
	for {
		row, err := p.rows.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if !p.lines && p.count > 0 {
			p.buf = append(p.buf, ',')
		}
		if err := p.row(ctx, row); err != nil {
			return err
		}
		if p.lines {
			p.buf = append(p.buf, '\n')
		}
		p.count++
		if len(p.buf) >= passChunk {
			if err := p.flush(); err != nil {
				return err
			}
		}
	}
	if !p.lines {
		p.buf = strconv.AppendInt(append(p.buf, `],"total_rows":`...), int64(p.count), 10)
		p.buf = append(appendNames(append(p.buf, `,"columns_returned":`...), p.rows.Columns()), '}')
	}
	return p.flush()
}

// keepAndServe answers from the store, once the rows are there.
func (e *endpoint) keepAndServe(ctx context.Context, w http.ResponseWriter, r *http.Request, control *http.ResponseController, claim *artifact.Claim, rows artifact.Rows, req Request) {
	if err := claim.Keep(ctx, rows, req); err != nil {
		e.refuseSource(w, r, claim, err)
		return
	}
	claim.Close()
	kept, err := e.tokens.Claim(r.Context(), r.PathValue("token"))
	if err != nil {
		e.refuse(w, r, http.StatusNotFound, unknown)
		return
	}
	defer kept.Close()
	t, err := kept.Table(table.DetectOptions{})
	if err != nil {
		e.refuseSource(w, r, kept, err)
		return
	}
	e.serve(w, r, control, kept, req.Select(t))
}

// refuseSource answers with the reason why rows that are elsewhere are unavailable.
func (e *endpoint) refuseSource(w http.ResponseWriter, r *http.Request, claim *artifact.Claim, err error) {
	if errors.Is(err, artifact.ErrToken) {
		e.refuse(w, r, http.StatusNotFound, unknown)
		return
	}
	if bad := (*RequestError)(nil); errors.As(err, &bad) {
		e.refuse(w, r, http.StatusBadRequest, bad.Reason)
		return
	}
	e.opts.Logger.Warn("s2sp: remote rows cannot be fetched", "label", claim.Label, "error", err)
	status, helps := http.StatusServiceUnavailable, "the URL still works: try again"
	var full *artifact.Error
	if errors.Is(err, ErrAnswer) || errors.Is(err, ErrRefused) || errors.As(err, &full) {
		status, helps = http.StatusBadGateway, "call that tool again with mode sync"
	}
	e.refuse(w, r, status, fmt.Sprintf("the rows of %s: %v; %s", claim.Label, err, helps))
}
