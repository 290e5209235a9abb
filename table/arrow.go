package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/weir-mcp/weir/rawjson"
)

// ArrowEncoding is the key of the field metadata that marks a column of strings
// whose values are JSON texts; its value is then "json".
const ArrowEncoding = "weir:encoding"

// Bounds of one record batch.
const (
	batchRows  = 8192
	batchBytes = 16 << 20
)

// arrowType is what a column can be without loss. Each value that is seen makes
// it wider or leaves it.
type arrowType uint8

const (
	arrowNull    arrowType = iota // nothing but null and absent values
	arrowBool                     // true and false
	arrowInt                      // integers of 64 bits
	arrowFloat                    // numbers of which integers are exact in 53 bits
	arrowString                   // strings
	arrowJSON                     // everything else, as it is written
	arrowNumbers                  // while looking: integers of 64 bits, some not exact in 53
)

// WriteArrow writes the view as an Arrow IPC stream and returns how many bytes w
// took. The type of a column is the narrowest that holds all its values: bool,
// int64, float64, utf8; null and absent are null. A column with nested values,
// with values of several kinds or with numbers that these types would round is
// utf8 with each value as it is written in JSON, and [ArrowEncoding] says so in
// its metadata.
func (v View) WriteArrow(w io.Writer) (int64, error) {
	var outs []out
	if v.t != nil {
		outs = v.shown()
	}
	types := v.arrowTypes(outs)
	fields := make([]arrow.Field, len(outs))
	for k, o := range outs {
		fields[k] = arrow.Field{Name: o.name, Nullable: true, Type: types[k].dataType()}
		if types[k] == arrowJSON {
			fields[k].Metadata = arrow.NewMetadata([]string{ArrowEncoding}, []string{"json"})
		}
	}
	schema := arrow.NewSchema(fields, nil)
	count := &counter{w: w}
	stream := ipc.NewWriter(count, ipc.WithSchema(schema), ipc.WithAllocator(memory.DefaultAllocator))
	err := v.writeBatches(stream, schema, outs, types)
	// Close writes the end of the stream, and the schema of one without rows.
	err = errors.Join(err, stream.Close())
	return count.n, wrapWrite(err)
}

func (v View) writeBatches(stream *ipc.Writer, schema *arrow.Schema, outs []out, types []arrowType) error {
	if v.Len() == 0 {
		return nil
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	r := v.reader(outs)
	rows, size := 0, 0
	flush := func() error {
		batch := b.NewRecordBatch()
		defer batch.Release()
		rows, size = 0, 0
		return stream.Write(batch)
	}
	for i := range v.Len() {
		for k, value := range r.load(i) {
			if err := appendArrow(b.Field(k), types[k], value); err != nil {
				return fmt.Errorf("column %q, row %d: %w", outs[k].name, v.rowAt(i), err)
			}
			size += len(value)
		}
		if rows++; rows >= batchRows || size >= batchBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if rows > 0 {
		return flush()
	}
	return nil
}

// arrowTypes looks at every value once.
func (v View) arrowTypes(outs []out) []arrowType {
	types := make([]arrowType, len(outs))
	for k, o := range outs {
		if len(o.cols) == 1 && o.cols[0] == rowNumber {
			types[k] = arrowInt // is one, also where there are no rows to tell
		}
	}
	if v.Len() == 0 {
		return types
	}
	r := v.reader(outs)
	for i := range v.Len() {
		for k, value := range r.load(i) {
			if types[k] != arrowJSON {
				types[k] = widen(types[k], value)
			}
		}
	}
	for k := range types {
		if types[k] == arrowNumbers {
			types[k] = arrowInt
		}
	}
	return types
}

// exact is up to where every integer is a float64.
const exact = 1 << 53

func widen(t arrowType, v []byte) arrowType {
	var seen arrowType
	switch kindOf(v) {
	case kindNull, kindAbsent:
		return t
	case kindBoolean:
		seen = arrowBool
	case kindString:
		// A lone surrogate is text in JSON only.
		if bytes.Contains(v, []byte(`\u`)) && bytes.Contains([]byte(rawjson.Text(v)), []byte("\uFFFD")) {
			return arrowJSON
		}
		seen = arrowString
	case kindNested:
		return arrowJSON
	case kindNumber:
		seen = numberType(v)
	}
	switch {
	case t == arrowNull || t == seen:
		return seen
	case t == arrowInt && seen == arrowNumbers || t == arrowNumbers && seen == arrowInt:
		return arrowNumbers
	case t == arrowInt && seen == arrowFloat || t == arrowFloat && seen == arrowInt:
		return arrowFloat
	}
	return arrowJSON
}

func numberType(v []byte) arrowType {
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil && string(v) != "-0" {
		if n > exact || n < -exact {
			return arrowNumbers
		}
		return arrowInt
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f == 0 && CompareNumbers(v, []byte("0")) != 0 {
		return arrowJSON // too large, or too small
	}
	if !bytes.ContainsAny(v, ".eE") && string(v) != "-0" {
		return arrowJSON // an integer of more than 64 bits
	}
	// A fraction with more digits than a float64 has would be rounded.
	if d := parseDecimal(v); d.count > 17 {
		return arrowJSON
	}
	return arrowFloat
}

func (t arrowType) dataType() arrow.DataType {
	switch t {
	case arrowNull:
		return arrow.Null
	case arrowBool:
		return arrow.FixedWidthTypes.Boolean
	case arrowInt:
		return arrow.PrimitiveTypes.Int64
	case arrowFloat:
		return arrow.PrimitiveTypes.Float64
	}
	return arrow.BinaryTypes.String
}

func appendArrow(b array.Builder, t arrowType, v []byte) error {
	if kindOf(v) >= kindNull {
		b.AppendNull()
		return nil
	}
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(v[0] == 't')
	case *array.Int64Builder:
		n, err := strconv.ParseInt(string(v), 10, 64)
		if err != nil {
			return err
		}
		b.Append(n)
	case *array.Float64Builder:
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil {
			return err
		}
		b.Append(f)
	case *array.StringBuilder:
		switch {
		case t == arrowJSON:
			b.BinaryBuilder.Append(v)
		case bytes.IndexByte(v, '\\') < 0:
			b.BinaryBuilder.Append(bytes.ToValidUTF8(v[1:len(v)-1], []byte("\uFFFD")))
		default:
			b.Append(rawjson.Text(v))
		}
	default:
		return fmt.Errorf("no arrow builder %T", b)
	}
	return nil
}

// CountArrow reads an Arrow IPC stream to its end and returns how many rows it
// has. What is cut off is an error.
func CountArrow(r io.Reader) (rows int, err error) {
	stream, err := ipc.NewReader(r, ipc.WithAllocator(memory.DefaultAllocator))
	if err != nil {
		return 0, fmt.Errorf("reading an Arrow stream: %w", err)
	}
	defer stream.Release()
	for stream.Next() {
		rows += int(stream.RecordBatch().NumRows())
	}
	if err := stream.Err(); err != nil && !errors.Is(err, io.EOF) {
		return rows, fmt.Errorf("reading an Arrow stream: %w", err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return rows, fmt.Errorf("reading an Arrow stream: %w", err)
	}
	return rows, nil
}
