package codec

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/weir-mcp/weir/internal/columnar"
	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Limits of one record batch, or of a row group.
const (
	batchRows  = 8192
	batchBytes = 1 << 20
	longText   = 64 << 10 // a longer text is not copied into a batch with others
)

// writeArrow writes rows as an Arrow IPC stream and returns the number of bytes written.
func writeArrow(w io.Writer, rows columnar.Rows) (int64, error) {
	types := typesOf(rows)
	fields := make([]arrow.Field, len(types))
	for k, c := range types {
		fields[k] = arrow.Field{Name: rows.Columns[k], Type: c.arrow(), Nullable: true}
		if c.kind == kindJSON {
			fields[k].Metadata = arrow.NewMetadata([]string{columnar.Encoding}, []string{"json"})
		}
	}
	schema := arrow.NewSchema(fields, nil)
	out := &count{w: w}
	s := &arrowStream{rows: rows, types: types, schema: schema, build: array.NewRecordBuilder(new(recycler), schema)}
	s.escaped.w = out
	s.out = ipc.NewWriter(&s.escaped, ipc.WithSchema(schema))
	defer s.build.Release()
	row := 0
	rows.Each(func(values [][]byte) bool {
		s.err = s.append(row, values)
		row++
		return s.err == nil
	})
	if s.err == nil {
		s.err = s.flush()
	}
	return out.n, errors.Join(s.err, s.out.Close())
}

// arrow returns the type in Arrow.
func (c column) arrow() arrow.DataType {
	switch c.kind {
	case kindBool:
		return arrow.FixedWidthTypes.Boolean
	case kindInt:
		return arrow.PrimitiveTypes.Int64
	case kindFloat:
		return arrow.PrimitiveTypes.Float64
	case kindDecimal:
		return &arrow.Decimal128Type{Precision: int32(c.precision), Scale: int32(c.scale)}
	case kindString, kindJSON:
		return arrow.BinaryTypes.String
	case kindDate:
		return arrow.FixedWidthTypes.Date32
	case kindTime:
		t := &arrow.TimestampType{Unit: [...]arrow.TimeUnit{arrow.Second, arrow.Millisecond, arrow.Microsecond, arrow.Nanosecond}[c.unit/3]}
		if c.utc {
			t.TimeZone = "UTC"
		}
		return t
	case kindList:
		return arrow.ListOf(c.elem.arrow())
	}
	return arrow.Null
}

// A recycler is an allocator that gives the buffers of a batch to the next one.
type recycler struct{ free [][]byte }

// Allocate implements memory.Allocator.
func (r *recycler) Allocate(size int) []byte {
	for i, b := range r.free {
		if cap(b) >= size {
			r.free = slices.Delete(r.free, i, i+1)
			b = b[:size]
			clear(b)
			return b
		}
	}
	return make([]byte, size, (size+63)/64*64)
}

// Reallocate implements memory.Allocator.
func (r *recycler) Reallocate(size int, b []byte) []byte {
	if size <= cap(b) {
		clear(b[min(len(b), size):size])
		return b[:size]
	}
	out := r.Allocate(size)
	copy(out, b)
	r.Free(b)
	return out
}

// Free implements memory.Allocator.
func (r *recycler) Free(b []byte) {
	if cap(b) == 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(r.free, cap(b), func(have []byte, n int) int { return cap(have) - n })
	r.free = slices.Insert(r.free, at, b)
}

// An arrowStream collects rows into record batches.
type arrowStream struct {
	rows   columnar.Rows
	types  []column
	schema *arrow.Schema
	build  *array.RecordBuilder
	out    *ipc.Writer
	n      int // rows of the batch
	bytes  int
	err    error

	escaped escaped
}

// An escaped writes texts for their stand-ins: a text with escapes need not be made to be written. A stand-in
// has the length of the text, and is a part of its JSON, which is longer.
type escaped struct {
	w     io.Writer
	texts map[*byte][]byte // the JSON of a text, by the first byte of its stand-in
}

// add returns the stand-in of a text.
func (e *escaped) add(v []byte) ([]byte, error) {
	size := &count{w: io.Discard}
	if err := rawjson.WriteText(size, v); err != nil || size.n == 0 {
		return nil, err
	}
	if e.texts == nil {
		e.texts = map[*byte][]byte{}
	}
	e.texts[&v[1]] = v
	return v[1 : 1+size.n : 1+size.n], nil
}

// Write implements io.Writer.
func (e *escaped) Write(p []byte) (int, error) {
	if len(p) > 0 && e.texts != nil {
		if v, ok := e.texts[&p[0]]; ok {
			return len(p), rawjson.WriteText(e.w, v)
		}
	}
	return e.w.Write(p)
}

// append adds a row to the batch, or writes it as a batch of its own if it has long texts: these are then
// written from where they are.
func (s *arrowStream) append(row int, values [][]byte) error {
	size, long := 0, false
	for k, v := range values {
		size += len(v)
		long = long || len(v) > longText && (s.types[k].kind == kindString || s.types[k].kind == kindJSON)
	}
	if long {
		if err := s.flush(); err != nil {
			return err
		}
		return s.single(row, values)
	}
	for k, v := range values {
		if err := appendArrow(s.build.Field(k), s.types[k], v); err != nil {
			return failed(s.rows.Columns[k], row, err)
		}
	}
	s.n++
	if s.bytes += size; s.n >= batchRows || s.bytes >= batchBytes {
		return s.flush()
	}
	return nil
}

// flush writes the batch, if it has rows.
func (s *arrowStream) flush() error {
	if s.n == 0 {
		return nil
	}
	s.n, s.bytes = 0, 0
	batch := s.build.NewRecordBatch()
	defer batch.Release()
	return s.out.Write(batch)
}

// single writes a row as a batch.
func (s *arrowStream) single(row int, values [][]byte) error {
	columns := make([]arrow.Array, len(values))
	for k, v := range values {
		c := s.types[k]
		if !none(v) && (c.kind == kindString || c.kind == kindJSON) {
			text, err := s.text(c, v)
			if err == nil && int64(len(text)) > 1<<31-1 {
				err = errors.New("a value of " + strconv.Itoa(len(text)) + " bytes is too long for an Arrow column")
			}
			if err != nil {
				return failed(s.rows.Columns[k], row, err)
			}
			ends := arrow.Int32Traits.CastToBytes([]int32{0, int32(len(text))})
			data := array.NewData(arrow.BinaryTypes.String, 1, []*memory.Buffer{nil, memory.NewBufferBytes(ends), memory.NewBufferBytes(text)}, nil, 0, 0)
			columns[k] = array.NewStringData(data)
			continue
		}
		b := array.NewBuilder(memory.DefaultAllocator, c.arrow())
		err := appendArrow(b, c, v)
		columns[k] = b.NewArray()
		b.Release()
		if err != nil {
			return failed(s.rows.Columns[k], row, err)
		}
	}
	batch := array.NewRecordBatch(s.schema, columns, 1)
	defer batch.Release()
	err := s.out.Write(batch)
	s.escaped.texts = nil
	return err
}

// text returns the text of a value, or its stand-in.
func (s *arrowStream) text(c column, v []byte) ([]byte, error) {
	if c.kind == kindString && len(v) > longText && bytes.IndexByte(v, '\\') >= 0 && utf8.Valid(v) {
		return s.escaped.add(v)
	}
	return c.textOf(v)
}

// appendArrow adds a value to a column.
func appendArrow(to array.Builder, c column, v []byte) error {
	if none(v) {
		to.AppendNull()
		return nil
	}
	switch b := to.(type) {
	case *array.BooleanBuilder:
		b.Append(v[0] == 't')
	case *array.Int64Builder:
		n, err := strconv.ParseInt(string(v), 10, 64)
		b.Append(n)
		return err
	case *array.Float64Builder:
		f, err := strconv.ParseFloat(string(v), 64)
		b.Append(f)
		return err
	case *array.Decimal128Builder:
		n, err := c.unscaled(v)
		if err == nil {
			b.Append(decimal128.FromBigInt(n))
		}
		return err
	case *array.StringBuilder:
		text, err := c.textOf(v)
		b.BinaryBuilder.Append(text)
		return err
	case *array.Date32Builder:
		days, ok := parseDate(string(v[1 : len(v)-1]))
		if !ok {
			return errValue
		}
		b.Append(arrow.Date32(days))
	case *array.TimestampBuilder:
		t, _, _, ok := parseTime(string(v[1 : len(v)-1]))
		if !ok {
			return errValue
		}
		b.Append(arrow.Timestamp(c.ticks(t)))
	case *array.ListBuilder:
		b.Append(true)
		var failed error
		err := rawjson.EachElement(v, func(e []byte) bool {
			failed = appendArrow(b.ValueBuilder(), *c.elem, e)
			return failed == nil
		})
		return errors.Join(failed, err)
	default:
		return errValue
	}
	return nil
}
