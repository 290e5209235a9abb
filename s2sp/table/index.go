package table

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Limits of the index. Without them, hostile input could make the index larger than the rows. Rows
// beyond a limit are not indexed but parsed again for each access.
const (
	maxShapes     = 4096
	maxShapeBytes = 4 << 20
)

// segmentBytes is the minimum size of all segments except the last. Positions inside a segment have
// 32 bits.
const segmentBytes = 4 << 20

// Memory of a field of a shape, and of a column without its name.
const (
	fieldBytes  = 64
	columnBytes = 128
)

// Options change how rows are read. The zero value is ready to use.
type Options struct {
	// KeepRowID keeps the name of a _row_id column in the data. Set it for rows that got their
	// _row_id earlier, such as the abstract rows of a consumer tool.
	KeepRowID bool
	// Grow, if set, is called before more memory is held for the table or for reading it, with the
	// number of further bytes. Its error ends the reading, and the error of the reading wraps it.
	Grow func(bytes int64) error
}

// grow calls Grow.
func (o Options) grow(bytes int) error {
	if o.Grow == nil || bytes <= 0 {
		return nil
	}
	if err := o.Grow(int64(bytes)); err != nil {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return nil
}

// Index reads a JSON array of objects. The table's rows are slices of data, so the caller must not
// change it. NaN, Infinity and -Infinity are read as null; see [Table.Nulled].
func Index(data []byte, opts Options) (*Table, error) {
	return finite(data, opts, func(data []byte) (*Table, error) { return index(data, opts) })
}

// finite calls read with data. If that fails only because of NaN or Infinity, it calls read again
// with null in their place.
func finite(data []byte, opts Options, read func([]byte) (*Table, error)) (*Table, error) {
	t, err := read(data)
	if err == nil {
		return t, nil
	}
	if errors.Is(err, ErrTooLarge) || !bytes.Contains(data, []byte("NaN")) && !bytes.Contains(data, []byte("Infinity")) {
		return nil, err
	}
	if full := opts.grow(len(data)); full != nil {
		return nil, full
	}
	clean, n := rawjson.Finite(data)
	if n == 0 {
		return nil, err
	}
	t, again := read(clean)
	if again != nil {
		return nil, err // the first error has the position in data
	}
	t.nulled += n
	return t, nil
}

func index(data []byte, opts Options) (*Table, error) {
	x := newIndexer(opts)
	i := rawjson.SkipSpace(data, 0)
	if i >= len(data) {
		return nil, fmt.Errorf("%w: there is nothing", ErrNotTable)
	}
	if data[i] != '[' {
		return nil, fmt.Errorf("%w: not an array", ErrNotTable)
	}
	x.expect(len(data) - i)
	i = rawjson.SkipSpace(data, i+1)
	if i < len(data) && data[i] == ']' {
		i++
	} else {
		for {
			end, err := x.row(data, i)
			if err != nil {
				return nil, err
			}
			i = end
			// Fast path for the usual separators between rows.
			if i < len(data) && data[i] != ',' && data[i] != ']' {
				i = rawjson.SkipSpace(data, i)
			}
			if i >= len(data) {
				return nil, fmt.Errorf("%w at byte %d: the array is not closed", rawjson.ErrSyntax, i)
			}
			if data[i] == ']' {
				i++
				break
			}
			if data[i] != ',' {
				return nil, fmt.Errorf("%w at byte %d: a comma is missing", rawjson.ErrSyntax, i)
			}
			if i++; i < len(data) && data[i] != '{' {
				i = rawjson.SkipSpace(data, i)
			}
		}
	}
	if i = rawjson.SkipSpace(data, i); i != len(data) {
		return nil, fmt.Errorf("%w at byte %d: text after the value", rawjson.ErrSyntax, i)
	}
	return x.finish()
}

// indexer makes a table from rows in order.
type indexer struct {
	t    *Table
	opts Options

	data  []byte // the rows of the open segment
	base  int    // start of the segment in data
	end   int    // end of its last row in data
	first int    // number of its first row
	pos   []uint32
	words []uint32

	byText     map[string]uint32 // shapes by their concatenated literals
	last       uint32            // shape of the previous row, or noShape
	shapeBytes int
	text       []byte // scratch: the literals of the current row
	fields     []field
	grown      int // words for which Grow was called
	scratch    int // bytes of text and fields for which Grow was called
}

type field struct{ sep, key, value int } // starts of the literal, the key and the value

func newIndexer(opts Options) *indexer {
	return &indexer{
		t:      &Table{byName: map[string]int{}},
		opts:   opts,
		byText: map[string]uint32{},
		last:   noShape,
	}
}

// expect reserves index space for about n bytes of rows.
func (x *indexer) expect(n int) {
	n = min(n, segmentBytes)
	x.words = slices.Grow(x.words, n/24)
	x.pos = slices.Grow(x.pos, n/256)
}

// row reads the object at data[i] and returns the index behind it. Rows of the same data must be
// given in order; new data starts a new segment.
func (x *indexer) row(data []byte, i int) (end int, err error) {
	if x.t.rows >= maxRows {
		return i, fmt.Errorf("row %d: %w: more than %d rows", x.t.rows, ErrTooLarge, maxRows)
	}
	if len(x.pos) == 0 {
		x.data, x.base = data, i
	} else if x.end-x.base >= segmentBytes || len(data) != len(x.data) || &data[0] != &x.data[0] {
		if err := x.seal(); err != nil {
			return i, err
		}
		x.data, x.base = data, i
	}
	start := len(x.words)
	if x.last != noShape {
		s := x.t.shapes[x.last]
		if end, ok := x.match(x.last, s, i); ok {
			return x.done(start, end)
		}
		x.words = x.words[:start]
		if next := s.next; next != x.last {
			if end, ok := x.match(next, x.t.shapes[next], i); ok {
				x.last = next
				return x.done(start, end)
			}
			x.words = x.words[:start]
		}
	}
	if i >= len(data) || data[i] != '{' {
		if _, err := rawjson.Skip(data, i); err != nil {
			return i, fmt.Errorf("row %d: %w", x.t.rows, err)
		}
		return i, fmt.Errorf("%w: row %d is not an object", ErrNotTable, x.t.rows)
	}
	end, err = x.learn(i)
	if err != nil {
		return i, fmt.Errorf("row %d: %w", x.t.rows, err)
	}
	return x.done(start, end)
}

func (x *indexer) done(start, end int) (int, error) {
	x.pos = append(x.pos, uint32(start))
	x.end = end
	x.t.rows++
	if n := cap(x.pos) + cap(x.words) - x.grown; n > 0 {
		x.grown += n
		return end, x.opts.grow(n * word)
	}
	return end, nil
}

// match reads a row of shape s. If the row has another shape, ok is false and the caller removes
// the words that match appended.
func (x *indexer) match(n uint32, s *shape, i int) (end int, ok bool) {
	data, base := x.data, x.base
	words := append(x.words, n, 0)
	at := len(words) - 1
	for _, sep := range s.seps {
		if len(data)-i <= len(sep) || string(data[i:i+len(sep)]) != sep {
			return 0, false
		}
		i += len(sep)
		words = append(words, uint32(i-base))
		switch c := data[i]; {
		case c == '"':
			// Fast path: skip short plain strings eight bytes at a time.
			p := i + 1
			for p+8 <= len(data) {
				stop := special(binary.LittleEndian.Uint64(data[p:]))
				if stop != 0 {
					p += bits.TrailingZeros64(stop) / 8
					break
				}
				if p += 8; p-i > 64 {
					break
				}
			}
			if p < len(data) && data[p] == '"' {
				i = p + 1
				continue
			}
		case c >= '1' && c <= '9':
			p := i + 1
			for p < len(data) && data[p]-'0' <= 9 {
				p++
			}
			if p+1 < len(data) && data[p] == '.' && data[p+1]-'0' <= 9 {
				for p++; p < len(data) && data[p]-'0' <= 9; {
					p++
				}
			}
			if p < len(data) && (data[p] == ',' || data[p] == '}') {
				i = p
				continue
			}
		}
		var err error
		if i, err = rawjson.Skip(data, i); err != nil {
			return 0, false // learn finds the same error and reports its position
		}
	}
	end = i + len(s.suffix)
	if end > len(data) || string(data[i:end]) != s.suffix || end-base > maxRowBytes+segmentBytes {
		return 0, false
	}
	words[at] = uint32(end - base)
	x.words = words
	return end, true
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special sets the high bit of each byte of w that is a quote, a backslash or a control character.
// Bits above the lowest such byte may be set wrongly.
func special(w uint64) uint64 {
	slash := w ^ '\\'*ones
	quote := w ^ '"'*ones
	return ((quote-ones)&^quote | (slash-ones)&^slash | (w-0x20*ones)&^w) & highs
}

// learn reads a row field by field and assigns a shape: a known one, a new one, or none if there
// are too many.
func (x *indexer) learn(i int) (end int, err error) {
	// Skip validates the row; the second pass only finds the fields.
	if end, err = rawjson.Skip(x.data, i); err != nil {
		return i, err
	}
	if end-i > maxRowBytes {
		return i, fmt.Errorf("%w: a row of %d bytes, and at most %d are read", ErrTooLarge, end-i, maxRowBytes)
	}
	row := x.data[i:end]
	x.text, x.fields = x.text[:0], x.fields[:0]
	sep := 0
	if err := rawjson.EachMember(row, func(m rawjson.Member) bool {
		value := m.End - len(m.Value)
		x.text = append(x.text, row[sep:value]...)
		x.text = append(x.text, 0) // separator that no literal contains
		x.fields = append(x.fields, field{sep, m.Start, value})
		sep = m.End
		return true
	}); err != nil {
		return i, err
	}
	x.text = append(x.text, row[sep:]...)
	if n := cap(x.text) + cap(x.fields)*int(unsafe.Sizeof(field{})) - x.scratch; n > 0 {
		x.scratch += n
		if err := x.opts.grow(n); err != nil {
			return i, err
		}
	}
	n, known := x.byText[string(x.text)]
	if !known {
		if n, err = x.newShape(row, sep); err != nil {
			return i, err
		}
	}
	if n == noShape {
		x.words = append(x.words, noShape, uint32(end-x.base), uint32(i-x.base))
		return end, nil
	}
	x.words = append(x.words, n, uint32(end-x.base))
	for _, f := range x.fields {
		x.words = append(x.words, uint32(i+f.value-x.base))
	}
	if x.last != noShape {
		x.t.shapes[x.last].next = n
	}
	x.last = n
	return end, nil
}

func (x *indexer) newShape(row []byte, suffix int) (uint32, error) {
	s := &shape{suffix: string(row[suffix:]), next: uint32(len(x.t.shapes))}
	seen := make(map[int32]bool, len(x.fields))
	keep := len(x.fields) > 0 && len(x.t.shapes) < maxShapes && x.shapeBytes+2*len(x.text) <= maxShapeBytes
	for _, f := range x.fields {
		key := row[f.key:]
		end, err := rawjson.Skip(key, 0)
		if err != nil {
			return 0, err
		}
		key = key[:end]
		col, err := x.column(key)
		if err != nil {
			return 0, err
		}
		if !keep {
			continue
		}
		s.twice = s.twice || seen[int32(col)]
		seen[int32(col)] = true
		s.seps = append(s.seps, string(row[f.sep:f.value]))
		s.keys = append(s.keys, string(key))
		s.cols = append(s.cols, int32(col))
	}
	if !keep {
		return noShape, nil
	}
	if err := x.opts.grow(2*len(x.text) + fieldBytes*len(x.fields)); err != nil {
		return 0, err
	}
	x.shapeBytes += 2 * len(x.text)
	n := uint32(len(x.t.shapes))
	x.t.shapes = append(x.t.shapes, s)
	x.byText[string(x.text)] = n
	return n, nil
}

// column returns the column of a quoted key and adds it if it is new.
func (x *indexer) column(key []byte) (int, error) {
	name, err := columnName(key)
	if err != nil {
		return 0, err
	}
	t := x.t
	if col, ok := t.byName[name]; ok {
		return col, nil
	}
	if len(t.columns) >= MaxColumns {
		return 0, fmt.Errorf("%w: more than %d different keys", ErrTooWide, MaxColumns)
	}
	if err := x.opts.grow(columnBytes + len(name)); err != nil {
		return 0, err
	}
	name = strings.Clone(name)
	t.byName[name] = len(t.columns)
	t.columns = append(t.columns, name)
	return len(t.columns) - 1, nil
}

// columnName unquotes a key as encoding/json does: invalid Unicode becomes U+FFFD.
func columnName(key []byte) (string, error) {
	if body := key[1 : len(key)-1]; bytes.IndexByte(body, '\\') < 0 && utf8.Valid(body) {
		return string(body), nil
	}
	var name string
	if err := json.Unmarshal(key, &name); err != nil {
		return "", fmt.Errorf("%w: %w", rawjson.ErrSyntax, err)
	}
	return name, nil
}

// seal closes the open segment.
func (x *indexer) seal() error {
	if len(x.pos) == 0 {
		return nil
	}
	if err := x.opts.grow((len(x.pos) + len(x.words)) * word); err != nil {
		return err
	}
	x.t.segs = append(x.t.segs, segment{
		Segment: Segment{Data: x.data[x.base:x.end:x.end], Index: packIndex(x.pos, x.words)},
		first:   x.first,
		rows:    len(x.pos),
	})
	x.first = x.t.rows
	x.pos, x.words = x.pos[:0], x.words[:0]
	return nil
}

func packIndex(pos, words []uint32) []byte {
	index := make([]byte, (len(pos)+len(words))*word)
	for i, p := range pos {
		binary.LittleEndian.PutUint32(index[i*word:], p+uint32(len(pos)))
	}
	rest := index[len(pos)*word:]
	for i, w := range words {
		binary.LittleEndian.PutUint32(rest[i*word:], w)
	}
	return index
}

// finish closes the last segment and sets the column names.
func (x *indexer) finish() (*Table, error) {
	if err := x.seal(); err != nil {
		return nil, err
	}
	t := x.t
	if col, ok := t.byName[RowID]; ok && !x.opts.KeepRowID {
		name := ownRowID
		for t.Has(name) {
			name += "_"
		}
		t.rename(col, name)
	}
	t.columns = slices.Clip(t.columns)
	return t, nil
}

// rename renames a column. The caller must own t.
func (t *Table) rename(col int, name string) {
	delete(t.byName, t.columns[col])
	t.columns[col] = name
	t.byName[name] = col
	if t.keys == nil {
		t.keys = make([][]byte, len(t.columns))
	}
	t.keys[col] = rawjson.Quote(name)
	t.renamed = true
}
