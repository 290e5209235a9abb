package table

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/weir-mcp/weir/internal/rawjson"
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

// append appends a value of JSON, which fits the column's type.
func (c *arrowColumn) append(v []byte) error {
	if kindOf(v) >= kindNull {
		c.null()
		return nil
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
		return c.string(bytes.ToValidUTF8(v, []byte("\uFFFD")))
	case arrowString:
		if bytes.IndexByte(v, '\\') >= 0 {
			return c.string([]byte(rawjson.Text(v)))
		}
		return c.string(bytes.ToValidUTF8(v[1:len(v)-1], []byte("\uFFFD")))
	default:
		return fmt.Errorf("a column of nulls has the value %.40s", v)
	}
	return nil
}
