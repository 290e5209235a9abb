package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/weir-mcp/weir/s2sp/table"
)

// Source keeps the rows of a deposit elsewhere and gives them out once, to the first reader. Open
// may be called concurrently with the Open of other sources.
//
//	DepositSource ─▶ token ─▶ Claim ─▶ Open ─▶ Rows ─┬─ Spend ─▶ read on, gone
//	                            ▲                    └─ Keep  ─▶ in the store ─┐
//	                            └──────────────────────────────────────────────┘
type Source interface {
	// Open requests rows and columns. With strict, a column that does not exist is an error. Open
	// returns once the first byte of the answer has arrived: from then on the source has given its
	// rows out. The caller must Close the rows.
	//
	// An error that wraps ErrToken says that the source has no rows any more. After any other error
	// Open may be called again.
	Open(ctx context.Context, sel table.Selection, strict bool) (Rows, error)
}

// Rows returns rows one after the other. Each is a JSON object with its _row_id. It is for one
// goroutine.
type Rows interface {
	// Next returns the next row, which is valid until the next call, or io.EOF after the last.
	Next() ([]byte, error)
	// Columns lists the columns of the rows so far, _row_id first.
	Columns() []string
	// Close ends the reading.
	Close() error
}

// errElsewhere: the rows of a claim are at their source.
var errElsewhere = errors.New("the rows of this artifact are not here")

// Elsewhere reports whether the rows of a claim must be read with Open.
func (c *Claim) Elsewhere() bool { return c.c.source != nil }

// Open asks the source for rows. If it has none any more, the claim is spent, and
// the error wraps ErrToken.
//
// Opened rows exist nowhere else. The caller must read them and call Spend, or return them with
// Keep.
func (c *Claim) Open(ctx context.Context, sel table.Selection, strict bool) (Rows, error) {
	if c.c.source == nil {
		return nil, errors.New("the rows of this claim are here: use Table")
	}
	rows, err := c.c.source.Open(ctx, sel, strict)
	if errors.Is(err, ErrToken) {
		c.Spend()
	}
	return rows, err
}

// Keep reads the remaining rows of the source into the store, for the next claim of the token,
// which is limited to sel. It closes the rows. If it fails, the rows are lost, and the claim is
// spent.
func (c *Claim) Keep(ctx context.Context, rows Rows, sel table.Selection) error {
	err := ErrToken // the token is of another node, which has spent it
	if c.token.item.space != nil {
		err = c.keep(ctx, rows, sel)
	}
	if cerr := rows.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		c.Spend()
		return fmt.Errorf("keeping the rows of %s, which its server gives out once: %w", c.Label, err)
	}
	return nil
}

func (c *Claim) keep(ctx context.Context, rows Rows, sel table.Selection) error {
	w := c.store.NewTable(c.token.item.space.principal, c.Label, table.Options{KeepRowID: true})
	defer w.Abort()
	for {
		row, err := rows.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = w.Append(row)
		}
		if err != nil {
			return err
		}
	}
	if err := w.place(); err != nil {
		return err
	}
	kept, err := w.finish()
	if err != nil {
		return err
	}
	return c.store.replace(c.token, kept, sel)
}

// RowsOf returns the rows of a table that has its own _row_id.
func RowsOf(t *table.Table) Rows {
	v := table.Selection{}.Select(t)
	return &tableRows{v: v, next: v.Appender()}
}

type tableRows struct {
	v    table.View
	next func(dst []byte, i int) []byte
	at   int
	b    []byte
}

func (r *tableRows) Next() ([]byte, error) {
	if r.at >= r.v.Len() {
		return nil, io.EOF
	}
	r.b = r.next(r.b[:0], r.at)
	r.at++
	return r.b, nil
}

func (r *tableRows) Columns() []string { return r.v.Columns() }
func (r *tableRows) Close() error      { return nil }
