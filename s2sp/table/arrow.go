package table

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// ArrowEncoding is the metadata key of a string field whose values are JSON texts. Its value is
// then "json".
const ArrowEncoding = "weir:encoding"

// Limits of one record batch.
const (
	batchRows  = 8192
	batchBytes = maxChunk
)

// arrowType is the narrowest column type that holds all values seen so far without loss. Each value
// may widen it.
type arrowType uint8

const (
	arrowNull    arrowType = iota // only null and absent values
	arrowBool                     // true and false
	arrowInt                      // integers of 64 bits
	arrowFloat                    // numbers; integers have at most 53 bits
	arrowString                   // strings
	arrowJSON                     // all other values, as JSON text
	arrowNumbers                  // used while scanning: 64-bit integers, some with more than 53 bits
)

// WriteArrow writes the view as an Arrow IPC stream and returns the number of bytes written. A
// column has the narrowest type that holds all its values: bool, int64, float64 or utf8. Null and
// absent values are null. A column with nested values, mixed kinds, or numbers that these types
// would round is utf8; each value is then JSON text, and the field metadata has [ArrowEncoding].
func (v View) WriteArrow(w io.Writer) (int64, error) {
	var outs []out
	if v.t != nil {
		outs = v.shown()
	}
	types := v.arrowTypes(outs)
	fields := make([]arrowField, len(outs))
	for k, o := range outs {
		fields[k] = arrowField{name: o.name, typ: types[k]}
	}
	count := &counter{w: w}
	stream, err := newArrowStream(count, fields)
	if err == nil {
		err = v.writeBatches(stream, outs)
	}
	return count.n, wrapWrite(err)
}

// writeBatches writes the rows and the end of the stream.
func (v View) writeBatches(stream *arrowStream, outs []out) error {
	if v.Len() == 0 {
		return stream.close()
	}
	r := v.reader(outs)
	size := 0
	for i := range v.Len() {
		for k, value := range r.load(i) {
			if err := stream.cols[k].append(value); err != nil {
				return fmt.Errorf("column %q, row %d: %w", outs[k].name, v.rowAt(i), err)
			}
			size += len(value)
		}
		stream.rows++
		if stream.rows >= batchRows || size >= batchBytes {
			if err := stream.flush(); err != nil {
				return err
			}
			size = 0
		}
	}
	return stream.close()
}

// arrowTypes scans all values once and returns the columns' types.
func (v View) arrowTypes(outs []out) []arrowType {
	types := make([]arrowType, len(outs))
	for k, o := range outs {
		if len(o.cols) == 1 && o.cols[0] == rowNumber {
			types[k] = arrowInt // always an integer, even if there are no rows
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

// exact is the limit below which every integer is a float64.
const exact = 1 << 53

func widen(t arrowType, v []byte) arrowType {
	var seen arrowType
	switch kindOf(v) {
	case kindNull, kindAbsent:
		return t
	case kindBoolean:
		seen = arrowBool
	case kindString:
		// A lone surrogate can be written in JSON only.
		if rawjson.HalfPair(v, 0) >= 0 {
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
	if len(v) > firstChunk {
		return arrowJSON // no program computes with so many digits
	}
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
	// A float64 would round a fraction with more digits.
	if d := parseDecimal(v); d.count > 17 {
		return arrowJSON
	}
	return arrowFloat
}

// append adds a JSON value that fits the column's type.
func (c *arrowColumn) append(v []byte) error {
	if kindOf(v) >= kindNull {
		c.null()
		return nil
	}
	if len(v) > firstChunk && utf8.Valid(v) {
		return c.longString(v, c.typ == arrowJSON)
	}
	switch c.typ {
	case arrowBool:
		c.bool(v[0] == 't')
	case arrowInt:
		n, err := strconv.ParseInt(string(v), 10, 64)
		if err != nil {
			return err
		}
		c.word(uint64(n))
	case arrowFloat:
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil {
			return err
		}
		c.word(math.Float64bits(f))
	case arrowJSON:
		return c.string(validText(v))
	case arrowString:
		if bytes.IndexByte(v, '\\') >= 0 {
			return c.string(plainText(v))
		}
		return c.string(validText(v[1 : len(v)-1]))
	default:
		return fmt.Errorf("a column of nulls has the value %.40s", v)
	}
	return nil
}

// validText returns a text as UTF-8, which Arrow requires.
func validText(v []byte) []byte {
	if utf8.Valid(v) {
		return v
	}
	return bytes.ToValidUTF8(v, []byte("\uFFFD"))
}
