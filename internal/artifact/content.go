package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"sync"
	"unsafe"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/s2sp/table"
)

// content is the bytes of an artifact, in memory or in files. References keep it alive: the
// store's, and one per lease.
type content struct {
	budget *budget
	size   int64 // of the bytes
	index  int64 // of the table's index, if it is stored in a file of its own

	// counted is the number of rows that the writer found in the bytes, 0 if it found no table. Set
	// before the content is shared.
	counted int

	// Elsewhere: the source of the rows.
	source Source

	// In memory: data, or a table that has the rows itself.
	data []byte
	rows *table.Table

	// In files: their names, and the table without its bytes where the artifact
	// was written as one. parts are the sizes of its segments.
	file, indexFile string
	skeleton        *table.Table
	parts           []part

	// The copy that outlasts the process, if there is one. It may be the file. Set before the
	// content is shared.
	copy   *copyOnDisk
	copied int64 // bytes of a copy that is not the file
	// Of an earlier process: whether its rows were written as a table, with numbers of their own.
	isTable, rowID bool
	end            end // how the store's own reference ended; set with the ledger's lock

	mu       sync.Mutex // guards below
	holders  int
	mapped   []byte // the file, while leases read it
	mappedIx []byte
	maps     int    // leases that read
	unread   []byte // SHA-256 of a file of an earlier process that has not been read yet
	detected *table.Table
	how      string // with which options it was detected
	extra    int64  // bytes of the index of detected, in memory
}

type part struct{ data, index int }

// end is how an artifact ends.
type end uint8

const (
	removed end = iota // for newer ones, or with its token
	expired
	closed // with the store
)

// hold adds a reference. The caller must have one already.
func (c *content) hold() {
	c.mu.Lock()
	c.holders++
	c.mu.Unlock()
}

// drop removes a reference. The last one frees memory. Files are removed earlier, with the store's
// own reference, because they cannot be opened any more.
func (c *content) drop() {
	c.mu.Lock()
	c.holders--
	last := c.holders == 0
	extra := c.extra
	if last {
		c.extra, c.detected = 0, nil
	}
	c.mu.Unlock()
	if !last {
		return
	}
	if c.file == "" {
		c.budget.free(c.size+c.index+extra, c.copied)
		return
	}
	c.budget.free(extra, c.size+c.index+c.copied)
}

// unlink removes the files, except those for the next process if the store is closed. Mappings of
// them stay valid.
func (c *content) unlink() {
	if c.copy != nil && c.end != closed {
		c.copy.remove(c.end == expired)
	}
	for _, name := range []string{c.file, c.indexFile} {
		if name != "" && (c.copy == nil || name != c.copy.path) {
			removeFile(name)
		}
	}
}

// attach makes the bytes readable until detach.
func (c *content) attach() error {
	if c.file == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.maps == 0 {
		data, err := mapFile(c.file)
		if err != nil {
			return fmt.Errorf("reading a spilled artifact: %w", withoutPath(err))
		}
		var index []byte
		if c.indexFile != "" {
			if index, err = mapFile(c.indexFile); err != nil {
				unmapFile(data)
				return fmt.Errorf("reading a spilled table: %w", withoutPath(err))
			}
		}
		if c.unread != nil {
			if sum := sha256.Sum256(data); !bytes.Equal(sum[:], c.unread) {
				unmapFile(data)
				return errDamaged
			}
			c.unread = nil
		}
		c.mapped, c.mappedIx = data, index
	}
	c.maps++
	return nil
}

func (c *content) detach() {
	if c.file == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.maps--; c.maps > 0 {
		return
	}
	extra := c.extra
	c.detected, c.extra = nil, 0 // its rows are slices of the mapping
	unmapFile(c.mapped)
	unmapFile(c.mappedIx)
	c.mapped, c.mappedIx = nil, nil
	if extra > 0 {
		c.budget.free(extra, 0)
	}
}

// pieces returns the bytes of the artifact. Only rows that were written into memory are several. They are readable
// while the content is attached.
func (c *content) pieces() [][]byte {
	switch {
	case c.file != "":
		return [][]byte{c.mapped}
	case c.rows != nil:
		var all [][]byte
		for _, s := range c.rows.Segments() {
			all = append(all, s.Data)
		}
		return all
	}
	return [][]byte{c.data}
}

// reader returns a reader of the artifact. It is valid while the content is attached.
func (c *content) reader() io.Reader {
	var all []io.Reader
	for _, piece := range c.pieces() {
		all = append(all, bytes.NewReader(piece))
	}
	return io.MultiReader(all...)
}

// table returns the artifact as rows. It is readable while the content is attached.
func (c *content) table(opts table.DetectOptions) (*table.Table, error) {
	switch {
	case c.source != nil:
		return nil, errElsewhere
	case c.rows != nil:
		return c.rows, nil
	}
	if c.skeleton != nil {
		segs := make([]table.Segment, len(c.parts))
		data, index := c.mapped, c.mappedIx
		for i, p := range c.parts {
			segs[i] = table.Segment{Data: data[:p.data:p.data], Index: index[:p.index:p.index]}
			data, index = data[p.data:], index[p.index:]
		}
		return c.skeleton.WithSegments(segs), nil
	}
	as := opts
	as.Grow = nil // it does not change the table
	how := fmt.Sprintf("%+v", as)
	c.mu.Lock()
	if t := c.detected; t != nil && c.how == how {
		c.mu.Unlock()
		return t, nil
	}
	c.mu.Unlock()
	t, err := c.detect(opts)
	if err != nil {
		return nil, fmt.Errorf("reading an artifact as a table: %w", err)
	}
	// The index is kept for the next reader if there is room for it, and for rows that were written
	// for it, such as rows of CSV.
	rows, size := t.Size()
	if segs := t.Segments(); len(segs) > 0 && !within(segs[0].Data, c.pieces()[0]) {
		size += rows
	}
	if c.budget.reserve(size) {
		c.mu.Lock()
		if c.detected == nil {
			c.detected, c.how, c.extra = t, how, size
			size = 0
		}
		c.mu.Unlock()
		if size > 0 {
			c.budget.free(size, 0)
		}
	}
	return t, nil
}

// within reports whether part is of all.
func within(part, all []byte) bool {
	at, from := uintptr(unsafe.Pointer(unsafe.SliceData(part))), uintptr(unsafe.Pointer(unsafe.SliceData(all)))
	return len(part) == 0 || at >= from && at < from+uintptr(len(all))
}

// detect reads bytes that were not written as a table.
func (c *content) detect(opts table.DetectOptions) (*table.Table, error) {
	data := c.pieces()[0]
	if c.isTable {
		return table.NDJSON(data, table.Options{KeepRowID: c.rowID, Grow: opts.Grow})
	}
	return table.Detect(data, opts)
}

// written returns the table as which an artifact was written, or nil. It may have no rows.
func (c *content) written() *table.Table {
	if c.rows != nil {
		return c.rows
	}
	return c.skeleton
}

// Lease is access to an artifact's bytes. They stay readable until Close, even if the artifact is
// removed. It is for one goroutine.
type Lease struct {
	Artifact
	c      *content
	closed bool
}

func newLease(a Artifact, c *content) (*Lease, error) {
	if err := c.attach(); err != nil {
		c.drop()
		return nil, err
	}
	return &Lease{Artifact: a, c: c}, nil
}

// Bytes returns the artifact. The bytes are shared, must not be changed, and are invalid after
// Close. For an artifact made by NewTable they are its rows as NDJSON. Those of a large table in memory
// are a copy, which the call of ctx takes; see memory.Make for it and its errors. Reader needs none.
func (l *Lease) Bytes(ctx context.Context) ([]byte, error) {
	pieces := l.c.pieces()
	switch len(pieces) {
	case 0:
		return nil, nil
	case 1:
		return pieces[0], nil
	}
	return memory.Make(ctx, nil, func(w io.Writer) error {
		for _, piece := range pieces {
			if _, err := w.Write(piece); err != nil {
				return err
			}
		}
		return nil
	})
}

// Reader returns a reader of the bytes, which is valid until Close.
func (l *Lease) Reader() io.Reader { return l.c.reader() }

// Table returns the artifact as a table. If it was not written as a table, it is read with opts,
// and the index is kept. The table is invalid after Close. If the artifact is not a table, the
// error wraps table.ErrNotTable.
func (l *Lease) Table(opts table.DetectOptions) (*table.Table, error) { return l.c.table(opts) }

// Close ends the access. It may be called more than once.
func (l *Lease) Close() {
	if l.closed {
		return
	}
	l.closed = true
	l.c.detach()
	l.c.drop()
}

// closeWritten closes a file and removes it if it could not be written.
func closeWritten(f *os.File, err error) error {
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is the one to report
	}
	return err
}
