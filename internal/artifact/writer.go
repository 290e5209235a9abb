package artifact

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"os"
	"time"

	"github.com/weir-mcp/weir/s2sp/table"
)

// TableWriter takes rows in one after the other, in memory as long as there is
// room and in files from then on, and ends as an artifact or behind a token. It
// is for one goroutine.
//
// Without files it takes Options.MaxBytes of rows; with them it takes rows while there is room on
// disk, but Commit refuses more than MaxBytes.
type TableWriter struct {
	s                *Local
	principal, label string
	b                *table.Builder
	sum              hash.Hash
	size             int64

	kept          []table.Segment // in memory
	memory        int64           // reserved for them
	toFile        bool            // from the first row on
	data, index   *os.File        // once it has spilled
	disk          int64           // reserved for them
	parts         []part
	ended         bool
	dataSz, idxSz int64
}

var errEnded = errors.New("the table writer has ended")

// Len is the number of rows so far.
func (w *TableWriter) Len() int { return w.b.Len() }

// Append adds a row, a JSON object, which stays the caller's. A row that is
// refused changes nothing; after ErrTooLarge, ErrFull or an error of the disk
// only Abort is left to do.
func (w *TableWriter) Append(row []byte) error {
	if w.ended {
		return errEnded
	}
	if w.size += int64(len(row)) + 1; w.size > w.s.opts.MaxBytes && w.s.budget.spill == nil {
		return w.s.opts.tooLarge(w.size)
	}
	return w.b.Append(row)
}

// keep takes a full segment.
func (w *TableWriter) keep(seg table.Segment) error {
	w.sum.Write(seg.Data)
	n := int64(len(seg.Data) + len(seg.Index))
	w.dataSz += int64(len(seg.Data))
	w.idxSz += int64(len(seg.Index))
	w.parts = append(w.parts, part{len(seg.Data), len(seg.Index)})
	if w.data == nil {
		if !w.toFile && w.s.budget.reserve(n) {
			w.memory += n
			w.kept = append(w.kept, table.Segment{Data: append([]byte(nil), seg.Data...), Index: append([]byte(nil), seg.Index...)})
			return nil
		}
		if err := w.spill(); err != nil {
			return err
		}
	}
	return w.write(seg)
}

// spill moves the rows in memory to files.
func (w *TableWriter) spill() error {
	if w.s.budget.spill == nil {
		return w.s.budget.reserveDisk(w.dataSz + w.idxSz) // says that there is no disk
	}
	var err error
	if w.data, err = w.s.budget.createFile("data"); err != nil {
		return fmt.Errorf("spilling a table: %w", withoutPath(err))
	}
	if w.index, err = w.s.budget.createFile("index"); err != nil {
		return fmt.Errorf("spilling a table: %w", withoutPath(err))
	}
	for _, seg := range w.kept {
		if err := w.write(seg); err != nil {
			return err
		}
	}
	w.s.budget.free(w.memory, 0)
	w.kept, w.memory = nil, 0
	return nil
}

func (w *TableWriter) write(seg table.Segment) error {
	n := int64(len(seg.Data) + len(seg.Index))
	if err := w.s.budget.reserveDisk(n); err != nil {
		return err
	}
	w.disk += n
	if _, err := w.data.Write(seg.Data); err != nil {
		return fmt.Errorf("spilling a table: %w", withoutPath(err))
	}
	if _, err := w.index.Write(seg.Index); err != nil {
		return fmt.Errorf("spilling a table: %w", withoutPath(err))
	}
	return nil
}

// finish closes the table and returns its content, held for the caller.
func (w *TableWriter) finish() (*content, error) {
	if w.ended {
		return nil, errEnded
	}
	t, err := w.b.Table()
	if err == nil && w.data != nil {
		err = withoutPath(errors.Join(w.data.Close(), w.index.Close()))
	}
	if err != nil {
		w.Abort()
		return nil, err
	}
	w.ended = true
	c := &content{budget: w.s.budget, size: w.dataSz, index: w.idxSz, holders: 1}
	if w.data == nil {
		c.rows = t.WithSegments(w.kept)
		return c, nil
	}
	c.file, c.indexFile, c.skeleton, c.parts = w.data.Name(), w.index.Name(), t, w.parts
	return c, nil
}

// Commit keeps the table as an artifact of the principal, under the handle that
// its rows as NDJSON have.
func (w *TableWriter) Commit(ctx context.Context) (Artifact, error) {
	if err := ctx.Err(); err != nil {
		w.Abort()
		return Artifact{}, err
	}
	c, err := w.finish()
	if err != nil {
		return Artifact{}, err
	}
	sum := w.sum.Sum(nil)
	by := owner{principal: w.principal}
	a := Artifact{Handle: w.s.opts.handleOf(by, "", sum), MediaType: "application/x-ndjson", Label: w.label, SizeBytes: c.size, ContentHash: hex.EncodeToString(sum)}
	// keep refuses another content of the handle. One of this content that is damaged goes first.
	if _, it, err := w.s.renew(by.principal, a); err == nil && it != nil {
		w.s.sound(it)
	}
	if err := c.outlast(); err != nil {
		return Artifact{}, err
	}
	return w.s.keep(by, a, c)
}

// Deposit keeps the table for one token and nothing else, as Tokens.Deposit does.
// A ttl of 0 is Options.TokenTTL.
func (w *TableWriter) Deposit(ttl time.Duration) (Token, error) {
	if err := w.place(); err != nil {
		w.Abort()
		return Token{}, err
	}
	c, err := w.finish()
	if err != nil {
		return Token{}, err
	}
	return w.s.deposit(w.principal, w.label, c, ttl)
}

// place brings the rows to where a deposit of their size goes.
func (w *TableWriter) place() error {
	if w.ended {
		return errEnded
	}
	inFile, err := w.s.placeDeposit(w.principal, w.size)
	if err != nil || !inFile {
		return err
	}
	w.toFile = true
	if w.data != nil {
		return nil
	}
	return w.spill()
}

// Abort drops the rows. After Commit or Deposit it does nothing.
func (w *TableWriter) Abort() {
	if w.ended {
		return
	}
	w.ended = true
	for _, f := range []*os.File{w.data, w.index} {
		if f != nil {
			_ = f.Close() // a file that could not be written is removed anyway
			removeFile(f.Name())
		}
	}
	w.s.budget.free(w.memory, w.disk)
	w.kept, w.memory, w.disk = nil, 0, 0
}
