package table

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Builder makes a table from rows that arrive one by one. It is not safe for concurrent use.
//
//	Append(row) ─▶ open segment (4 MB) ─▶ full ─▶ keep(segment) ─▶ forgotten here
//	                                                  │
//	Table() ──────────────────────────────────────────┴─▶ Table.WithSegments
//
// The segments, concatenated, are the rows as NDJSON.
type Builder struct {
	x    *indexer
	buf  []byte
	keep func(Segment) error
	err  error // error of keep, or Table was called; final

	nulled int // see Table.Nulled
}

var errBuilt = errors.New("the table is complete")

// NewBuilder returns an empty builder. If keep is nil, the table holds its rows. Otherwise keep is
// called with each full segment, and by Table with the last one; it must not retain their bytes.
// The table that Table returns then has no bytes, and [Table.WithSegments] adds the stored ones. An
// error of keep ends the building, and all later calls return it.
func NewBuilder(opts Options, keep func(Segment) error) *Builder {
	return &Builder{x: newIndexer(opts), keep: keep}
}

// Len returns the number of rows so far.
func (b *Builder) Len() int { return b.x.t.rows }

// Append adds a row, which must be one JSON object. It does not retain row. It removes line breaks
// between tokens and reads NaN, Infinity and -Infinity as null. If it returns an error, the table
// is unchanged.
func (b *Builder) Append(row []byte) error {
	err := b.append(row)
	if err == nil || b.err != nil {
		return err
	}
	if n, size := rawjson.CountInfinite(row); n > 0 {
		if size > largeRow {
			if full := b.x.opts.grow(size); full != nil {
				return full
			}
		}
		clean, _ := rawjson.Finite(row)
		if again := b.append(clean); again == nil || b.err != nil {
			b.nulled += n
			return again
		}
	}
	return err
}

// largeRow is the size from which a copy of a row counts; smaller ones are garbage soon.
const largeRow = 64 << 10

func (b *Builder) append(row []byte) error {
	if b.err != nil {
		return b.err
	}
	row = bytes.TrimSpace(row)
	if len(row) > maxRowBytes {
		return fmt.Errorf("row %d: %w: a row of %d bytes, and at most %d are read", b.Len(), ErrTooLarge, len(row), maxRowBytes)
	}
	start := len(b.buf)
	if more := start + len(row) + 1 - cap(b.buf); more > 0 {
		more = max(more, min(start, segmentBytes)) // as append would
		if err := b.x.opts.grow(more); err != nil {
			return err
		}
		b.buf = append(make([]byte, 0, cap(b.buf)+more), b.buf...)
	}
	if bytes.IndexByte(row, '\n') >= 0 || bytes.IndexByte(row, '\r') >= 0 {
		b.buf = rawjson.StripNewlines(b.buf, row)
	} else {
		b.buf = append(b.buf, row...)
	}
	if b.x.data = b.buf; start == 0 {
		b.x.base = 0
	}
	before := b.x.mark()
	end, err := b.x.row(b.buf, start)
	if err == nil && end != len(b.buf) {
		err = fmt.Errorf("row %d: %w at byte %d: text after the value", before.rows, rawjson.ErrSyntax, end-start)
	}
	if err != nil {
		b.x.back(before)
		b.buf = b.buf[:start]
		return err
	}
	b.buf = append(b.buf, '\n')
	if b.x.data, b.x.end = b.buf, len(b.buf); len(b.buf) >= segmentBytes {
		return b.flush()
	}
	return nil
}

// mark is a position of the indexer to which back returns.
type mark struct {
	rows, pos, words, columns, shapes, shapeBytes int
	last                                          uint32
}

func (x *indexer) mark() mark {
	return mark{x.t.rows, len(x.pos), len(x.words), len(x.t.columns), len(x.t.shapes), x.shapeBytes, x.last}
}

// back removes at most one row and everything that the row added.
func (x *indexer) back(m mark) {
	x.t.rows, x.pos, x.words = m.rows, x.pos[:m.pos], x.words[:m.words]
	for _, name := range x.t.columns[m.columns:] {
		delete(x.t.byName, name)
	}
	x.t.columns = x.t.columns[:m.columns]
	if len(x.t.shapes) > m.shapes {
		delete(x.byText, string(x.text))
		x.t.shapes = x.t.shapes[:m.shapes]
	}
	x.shapeBytes, x.last = m.shapeBytes, m.last
	if m.last != noShape && int(x.t.shapes[m.last].next) >= m.shapes {
		x.t.shapes[m.last].next = m.last
	}
}

// flush closes the open segment.
func (b *Builder) flush() error {
	if len(b.buf) == 0 {
		return nil
	}
	if b.keep == nil {
		if b.err = b.x.opts.grow(len(b.buf)); b.err != nil {
			return b.err
		}
		b.x.data = append(make([]byte, 0, len(b.buf)), b.buf...)
		b.err = b.x.seal()
		b.reuse()
		return b.err
	}
	b.x.data = b.buf
	if b.err = b.x.seal(); b.err != nil {
		return b.err
	}
	last := &b.x.t.segs[len(b.x.t.segs)-1]
	if err := b.keep(last.Segment); err != nil {
		b.err = fmt.Errorf("keeping %d rows: %w", last.rows, err)
		return b.err
	}
	last.Segment = Segment{}
	b.reuse()
	return nil
}

// reuse empties the open segment.
func (b *Builder) reuse() {
	b.buf = b.buf[:0]
	if cap(b.buf) > 4*segmentBytes { // one row was long
		b.buf = nil
	}
}

// Table finishes the building and returns the table.
func (b *Builder) Table() (*Table, error) {
	if b.err != nil {
		return nil, b.err
	}
	if err := b.flush(); err != nil {
		return nil, err
	}
	b.err = errBuilt
	t, err := b.x.finish()
	if err != nil {
		return nil, err
	}
	t.nulled = b.nulled
	return t, nil
}
