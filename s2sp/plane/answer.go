package plane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/s2sp/table"
)

// Answer reads the answer of a data plane as it arrives. It returns each selected row with a
// _row_id once. It uses the memory of one row, which has at most 16 MB. It is for one goroutine. The
// caller must Close it.
//
//	{"body": [ {"_row_id":0,…}, {"_row_id":1,…}, … ], "total_rows": 2, …}
//	           └─ Next ───────▶ └─ Next ───────▶     └─ Next: io.EOF, all of it was JSON
type Answer struct {
	body   io.ReadCloser
	server string // for errors
	ctx    context.Context
	end    func()      // of the connection
	idle   *time.Timer // nil: the caller bounds waits
	stall  time.Duration
	most   int64 // bytes of the whole; 0 is no bound
	row    int   // bytes of one row

	buf   []byte
	at    int   // the part of buf that was read
	made  int64 // taken for buf, and for out and the slice that it grows from
	outs  int64 // the part of made for out
	total int64
	eof   bool

	sieve  *table.Sieve
	out    []byte
	place  place
	bodies int
	named  []string // columns_returned, nil before they have arrived
	ends   objectEnd
	nulled int
	err    error
}

// place is where in the answer the reader is.
type place uint8

const (
	placeStart place = iota
	placeFirstRow
	placeRow
	placeBehind // the body
	placeEnd
)

// maxMember bounds a row, and a member of the answer that is not its body.
const maxMember = 16 << 20

// Next returns the next row, with _row_id as its first member. It is valid until the next call.
// After the last row it returns io.EOF, once it has read the answer to its end. Other errors wrap
// ErrFetch.
func (a *Answer) Next() ([]byte, error) {
	if a.err != nil {
		return nil, a.err
	}
	row, err := a.next()
	if err != nil {
		if !errors.Is(err, io.EOF) {
			err = a.failed(err)
		}
		a.err = err
	}
	return rawjson.RepairText(row), err
}

// failed is the error that ends the reading.
func (a *Answer) failed(err error) error {
	if cause := context.Cause(a.ctx); cause != nil {
		return cause
	}
	return err
}

// Columns lists the selected columns, _row_id first: the columns of the rows so far, and the
// columns that the server names.
func (a *Answer) Columns() []string { return a.sieve.Columns(a.named...) }

// Skipped returns how many rows had no _row_id so far.
func (a *Answer) Skipped() int { return a.sieve.Skipped() }

// Nulled returns how many values so far were NaN or infinite and were replaced by null.
func (a *Answer) Nulled() int { return a.nulled }

// ReadAnswer reads an answer that the caller has requested, from the body of its HTTP response.
// server is its name in errors. Rows are bounded as a Fetcher's.
func ReadAnswer(ctx context.Context, body io.ReadCloser, server string, sel table.Selection) *Answer {
	return &Answer{body: body, server: server, ctx: ctx, end: func() {}, row: maxMember, sieve: table.NewSieve(sel)}
}

// Close ends the reading. It may be called more than once.
func (a *Answer) Close() error {
	if a.idle != nil {
		a.idle.Stop()
	}
	err := a.body.Close()
	a.buf, a.out = nil, nil
	memory.Give(a.ctx, a.made)
	a.made, a.outs = 0, 0
	a.end()
	return err
}

// take counts n more bytes that the Answer is about to make, until Close.
func (a *Answer) take(n int64) error {
	if n <= 0 {
		return nil
	}
	err := memory.Take(a.ctx, n)
	if err == nil {
		a.made += n
	}
	return err
}

// makeRow takes the room in out of the row that starts here; out grows by doubling.
func (a *Answer) makeRow() error {
	n := 2*int64(len(a.buf)-a.at) - a.outs
	err := a.take(n)
	if err == nil {
		a.outs += max(n, 0)
	}
	return err
}

// begin reads until the first byte has come.
func (a *Answer) begin() error {
	if err := a.fill(); err != nil {
		return a.failed(a.broken(err, ""))
	}
	return nil
}

func (a *Answer) next() ([]byte, error) {
	for {
		switch a.place {
		case placeStart, placeBehind:
			if err := a.members(); err != nil {
				return nil, err
			}
		case placeEnd:
			return nil, io.EOF
		default:
			row, err := a.nextRow()
			if row != nil || err != nil {
				return row, err
			}
		}
	}
}

// members reads members of the answer up to its body, or to its end.
func (a *Answer) members() error {
	first := a.place == placeStart
	if first {
		if c, err := a.peek(); err != nil || c != '{' {
			return a.broken(err, "it is no object")
		}
		a.at++
	}
	for ; ; first = false {
		c, err := a.peek()
		switch {
		case err != nil:
			return a.broken(err, "")
		case c == '}':
			return a.finish()
		case !first && c != ',':
			return a.broken(nil, "a comma is missing")
		case !first:
			a.at++
		}
		key, err := a.member()
		if err != nil {
			return err
		}
		if key != "body" {
			continue
		}
		if a.bodies++; a.bodies > 1 {
			return a.unusable("duplicate key \"body\"")
		}
		if c, err := a.peek(); err != nil || c != '[' {
			return a.broken(err, "its body is no table: not an array")
		}
		a.at++
		a.place = placeFirstRow
		return nil
	}
}

// finish reads the end of the answer.
func (a *Answer) finish() error {
	if a.bodies == 0 {
		return a.unusable("the answer has no body")
	}
	a.at++
	if _, err := a.peek(); err == nil {
		return a.broken(nil, "there is text behind it")
	} else if !errors.Is(err, errEnd) {
		return err
	}
	a.place = placeEnd
	return nil
}

// member reads a key, and the value of all but the body.
func (a *Answer) member() (key string, err error) {
	if c, err := a.peek(); err != nil || c != '"' {
		return "", a.broken(err, "a key is missing")
	}
	quoted, err := a.value()
	if err != nil {
		return "", err
	}
	key = rawjson.Text(quoted)
	if c, err := a.peek(); err != nil || c != ':' {
		return "", a.broken(err, "a colon is missing")
	}
	a.at++
	if key == "body" {
		return key, nil
	}
	if _, err := a.peek(); err != nil {
		return "", a.broken(err, "")
	}
	value, err := a.value()
	if err == nil && key == "columns_returned" {
		// It is only passed on: a value that is no list of names is ignored.
		_ = each(key, value, func(v []byte) error {
			name, err := rawjson.String(v)
			a.named = append(a.named, name)
			return err
		})
	}
	return key, err
}

// value reads a value that need not be kept.
func (a *Answer) value() ([]byte, error) {
	for {
		end, err := rawjson.Skip(a.buf, a.at)
		if err == nil && (end < len(a.buf) || a.eof) { // a number may go on
			v := a.buf[a.at:end]
			a.at = end
			return v, nil
		}
		if a.eof {
			return nil, a.broken(err, "")
		}
		if len(a.buf)-a.at > maxMember {
			return nil, a.unusable("a member of it that is not its body has more than %d bytes", maxMember)
		}
		if err := a.fill(); err != nil && !errors.Is(err, errEnd) {
			return nil, err
		}
	}
}

// nextRow returns the next row that passes, or nil behind the last.
func (a *Answer) nextRow() ([]byte, error) {
	for {
		c, err := a.peek()
		switch {
		case err != nil:
			return nil, a.broken(err, "")
		case c == ']':
			a.at++
			a.place = placeBehind
			return nil, nil
		case a.place == placeRow && c != ',':
			return nil, a.noTable(errors.New("a comma is missing between rows"))
		case a.place == placeRow:
			a.at++
			if c, err = a.peek(); err != nil {
				return nil, a.broken(err, "")
			}
		}
		if c != '{' {
			return nil, a.noTable(errors.New("a row is not an object"))
		}
		row, err := a.readRow()
		if err != nil {
			return nil, err
		}
		a.place = placeRow
		if row != nil {
			return row, nil
		}
	}
}

// readRow reads the row that starts here, which may have arrived only in part. It returns nil for a
// row that is not selected.
func (a *Answer) readRow() ([]byte, error) {
	a.ends = objectEnd{}
	for begun := false; ; begun = true {
		// A row that continues in later pieces is scanned once, not again with each piece.
		size, whole := 0, true
		if begun {
			size, whole = a.ends.find(a.buf[a.at:])
		}
		if whole {
			if err := a.makeRow(); err != nil {
				return nil, err
			}
			out, end, kept, err := a.sieve.Pass(a.out[:0], a.buf, a.at)
			if err == nil && end-a.at > a.row {
				return nil, a.longRow()
			}
			if err == nil {
				a.at, a.out = end, out
				return rowOf(out, kept), nil
			}
			if size == 0 {
				size, whole = a.ends.find(a.buf[a.at:])
			}
			if whole {
				return a.cleanRow(size, err)
			}
		}
		if len(a.buf)-a.at > a.row {
			return nil, a.longRow()
		}
		if err := a.fill(); err != nil {
			return nil, a.broken(err, "")
		}
	}
}

// cleanRow reads a row that is no JSON, and may be so only for numbers that JSON
// lacks.
func (a *Answer) cleanRow(size int, err error) ([]byte, error) {
	if err := memory.Take(a.ctx, int64(size)); err != nil {
		return nil, err
	}
	defer memory.Give(a.ctx, int64(size))
	clean, n := rawjson.Finite(a.buf[a.at : a.at+size])
	if n == 0 {
		return nil, a.noTable(err)
	}
	out, _, kept, again := a.sieve.Pass(a.out[:0], clean, 0)
	if again != nil {
		return nil, a.noTable(err)
	}
	a.nulled += n
	a.at, a.out = a.at+size, out
	return rowOf(out, kept), nil
}

func rowOf(out []byte, kept bool) []byte {
	if !kept {
		return nil
	}
	return out
}

// peek returns the next byte that is no white space.
func (a *Answer) peek() (byte, error) {
	for {
		if a.at = rawjson.SkipSpace(a.buf, a.at); a.at < len(a.buf) {
			return a.buf[a.at], nil
		}
		if err := a.fill(); err != nil {
			return 0, err
		}
	}
}

// Sizes of the buffer: as it starts, and how much is read at once from then on.
const (
	firstRead = 32 << 10
	moreRead  = 256 << 10
)

// errEnd: the answer has no more bytes.
var errEnd = errors.New("it ends early")

// fill reads more, or returns errEnd.
func (a *Answer) fill() error {
	if a.eof {
		return errEnd
	}
	if a.at > 0 {
		a.buf = a.buf[:copy(a.buf, a.buf[a.at:])]
		a.at = 0
	}
	size := firstRead
	if a.total > 0 {
		size = moreRead
	}
	if len(a.buf) > cap(a.buf)/2 { // of a row that is long
		size = max(size, 2*cap(a.buf))
	}
	if size > cap(a.buf) {
		before := int64(cap(a.buf))
		if err := a.take(int64(size)); err != nil {
			return err
		}
		a.buf = append(make([]byte, 0, size), a.buf...)
		memory.Give(a.ctx, before)
		a.made -= before
	}
	if a.idle != nil {
		a.idle.Reset(a.stall)
	}
	for {
		n, err := a.body.Read(a.buf[len(a.buf):cap(a.buf)])
		a.buf = a.buf[:len(a.buf)+n]
		if a.total += int64(n); a.most > 0 && a.total > a.most {
			return tooLarge(a.server, a.most)
		}
		switch {
		case n > 0:
			a.eof = errors.Is(err, io.EOF)
			return nil
		case errors.Is(err, io.EOF):
			a.eof = true
			return errEnd
		case errors.Is(err, io.ErrUnexpectedEOF):
			return fmt.Errorf("%w: %s broke off in the middle of its answer", ErrFetch, a.server)
		case err != nil:
			return fmt.Errorf("%w: %s broke off: %w", ErrFetch, a.server, withoutURL(err))
		}
	}
}

// broken returns the error for a malformed answer: with err or, if it is nil, with why.
func (a *Answer) broken(err error, why string) error {
	if full := (*memory.Error)(nil); errors.Is(err, ErrFetch) || errors.As(err, &full) {
		return err
	}
	if err != nil {
		why = strings.TrimPrefix(err.Error(), rawjson.ErrSyntax.Error()+" ")
	}
	return a.unusable("the answer is no S2SP body: %s", why)
}

func (a *Answer) noTable(err error) error {
	return a.unusable("the body is no table: %v", err)
}

func (a *Answer) longRow() error { return a.unusable("a row of it has more than %d bytes", a.row) }

func (a *Answer) unusable(format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrAnswer, a.server, fmt.Sprintf(format, args...))
}

// objectEnd finds the end of an object whose text arrives in pieces. It looks only at brackets and
// quotes.
type objectEnd struct {
	at      int // the scanned part
	depth   int
	text    bool // in a string
	escaped bool // behind a backslash in one
}

// find returns the length of the object at the start of data, which must start with the data of the
// call before.
func (e *objectEnd) find(data []byte) (size int, whole bool) {
	for ; e.at < len(data); e.at++ {
		c := data[e.at]
		switch {
		case e.escaped:
			e.escaped = false
		case e.text:
			// Most of a row is text.
			n := bytes.IndexAny(data[e.at:], `"\`)
			if n < 0 {
				e.at = len(data)
				return 0, false
			}
			e.at += n
			e.escaped, e.text = data[e.at] == '\\', data[e.at] != '"'
		case c == '"':
			e.text = true
		case c == '{' || c == '[':
			e.depth++
		case c == '}' || c == ']':
			if e.depth--; e.depth <= 0 {
				e.at++
				return e.at, true
			}
		}
	}
	return 0, false
}
