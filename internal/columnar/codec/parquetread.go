package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/weir-mcp/weir/internal/columnar"
	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// readBuffer is the buffer with which a column is read.
const readBuffer = 4 << 10

// readParquet reads a Parquet file.
func readParquet(data []byte, s columnar.Sink) error {
	if err := checkFooter(data, s); err != nil {
		return err
	}
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)),
		parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(readBuffer))
	if err != nil {
		return err
	}
	r := reading{fields: nodes(file.Root())}
	if err := checkPages(data, file.Metadata(), levels(r.fields, false, false), s); err != nil {
		return err
	}
	for _, g := range file.RowGroups() {
		if err := r.group(g, s); err != nil {
			return err
		}
	}
	return nil
}

// group reads the rows of a row group.
func (r *reading) group(g parquet.RowGroup, s columnar.Sink) error {
	rows := g.Rows()
	defer func() { _ = rows.Close() }() // what was wanted of it was read
	batch := make([]parquet.Row, 64)
	for {
		n, err := rows.ReadRows(batch)
		for _, row := range batch[:n] {
			r.split(row)
			if err := s.Row(r.object(r.buf[:0])); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrNoProgress
		}
	}
}

// A reading assembles rows of a file from the values of its columns.
type reading struct {
	fields []node
	buf    []byte
	values [][]parquet.Value // of a row, by column
}

// A node is a node of the schema.
type node struct {
	name     []byte // as JSON
	leaf     parquet.Type
	fields   []node
	optional bool
	repeated bool
	list     bool // its one field is the elements, whose one field is the element
	columns  int  // leaves in it
}

// nodes returns the fields of a node.
func nodes(of parquet.Node) []node {
	var all []node
	for _, f := range of.Fields() {
		n := node{name: rawjson.Quote(f.Name()), optional: f.Optional(), repeated: f.Repeated(), columns: 1}
		if f.Leaf() {
			n.leaf = f.Type()
		} else {
			n.columns = 0
			n.fields = nodes(f)
			for _, inner := range n.fields {
				n.columns += inner.columns
			}
			logical := f.Type().LogicalType()
			n.list = logical != nil && isList(logical.Value) && len(n.fields) == 1 && n.fields[0].repeated
		}
		all = append(all, n)
	}
	return all
}

// levels returns how many kinds of levels the leaves in some nodes have: 1 if values may be null, 2 if they may
// be repeated.
func levels(of []node, optional, repeated bool) (all []int) {
	for i := range of {
		optional, repeated := optional || of[i].optional || of[i].repeated, repeated || of[i].repeated
		switch {
		case of[i].leaf == nil:
			all = append(all, levels(of[i].fields, optional, repeated)...)
		case repeated:
			all = append(all, 2)
		case optional:
			all = append(all, 1)
		default:
			all = append(all, 0)
		}
	}
	return all
}

// isList reports whether a node is a list, or a map, which is a list of pairs.
func isList(t any) bool {
	switch t.(type) {
	case *format.ListType, *format.MapType:
		return true
	}
	return false
}

// split sorts the values of a row by their columns.
func (r *reading) split(row parquet.Row) {
	for k := range r.values {
		r.values[k] = r.values[k][:0]
	}
	for _, v := range row {
		for v.Column() >= len(r.values) {
			r.values = append(r.values, nil)
		}
		r.values[v.Column()] = append(r.values[v.Column()], v)
	}
}

// object appends the row.
func (r *reading) object(dst []byte) []byte {
	r.buf = appendFields(dst, r.fields, r.values, 0, 0)
	return r.buf
}

// appendFields appends an object of fields, whose values have at least the levels.
func appendFields(dst []byte, fields []node, values [][]parquet.Value, defined, repeated int) []byte {
	dst = append(dst, '{')
	for i := range fields {
		f := &fields[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, f.name...), ':')
		dst = f.append(dst, values[:f.columns], defined, repeated)
		values = values[f.columns:]
	}
	return append(dst, '}')
}

// append appends the value of a node.
func (n *node) append(dst []byte, values [][]parquet.Value, defined, repeated int) []byte {
	if n.repeated {
		return n.elements(dst, values, defined, repeated, func(dst []byte, values [][]parquet.Value) []byte {
			return n.one(dst, values, defined+1, repeated+1)
		})
	}
	if n.optional {
		defined++
		if len(values) == 0 || len(values[0]) == 0 || values[0][0].DefinitionLevel() < defined {
			return append(dst, "null"...)
		}
	}
	if n.list {
		inner := &n.fields[0]
		return inner.elements(dst, values, defined, repeated, func(dst []byte, values [][]parquet.Value) []byte {
			if inner.leaf == nil && len(inner.fields) == 1 {
				return inner.fields[0].append(dst, values, defined+1, repeated+1)
			}
			return inner.one(dst, values, defined+1, repeated+1)
		})
	}
	return n.one(dst, values, defined, repeated)
}

// one appends one value of a node that is there.
func (n *node) one(dst []byte, values [][]parquet.Value, defined, repeated int) []byte {
	if n.leaf == nil {
		return appendFields(dst, n.fields, values, defined, repeated)
	}
	if len(values) == 0 || len(values[0]) == 0 || values[0][0].IsNull() {
		return append(dst, "null"...)
	}
	return appendLeaf(dst, n.leaf, values[0][0])
}

// elements appends the elements of a repeated node as an array. The values of each element after the first
// one start with the repetition level of the node.
func (n *node) elements(dst []byte, values [][]parquet.Value, defined, repeated int, one func([]byte, [][]parquet.Value) []byte) []byte {
	dst = append(dst, '[')
	if len(values) == 0 || len(values[0]) == 0 || values[0][0].DefinitionLevel() <= defined {
		return append(dst, ']')
	}
	rest := make([][]parquet.Value, len(values))
	copy(rest, values)
	part := make([][]parquet.Value, len(values))
	for first := true; len(rest[0]) > 0; first = false {
		for k := range rest {
			end := min(1, len(rest[k]))
			for end < len(rest[k]) && rest[k][end].RepetitionLevel() > repeated+1 {
				end++
			}
			part[k], rest[k] = rest[k][:end], rest[k][end:]
		}
		if !first {
			dst = append(dst, ',')
		}
		dst = one(dst, part)
	}
	return append(dst, ']')
}

// appendLeaf appends a value.
func appendLeaf(dst []byte, t parquet.Type, v parquet.Value) []byte {
	if logical := t.LogicalType(); logical != nil {
		if out, ok := appendLogical(dst, logical.Value, v); ok {
			return out
		}
	}
	switch v.Kind() {
	case parquet.Boolean:
		if v.Boolean() {
			return append(dst, "true"...)
		}
		return append(dst, "false"...)
	case parquet.Int32:
		return appendInt(dst, int64(v.Int32()))
	case parquet.Int64:
		return appendInt(dst, v.Int64())
	case parquet.Int96: // a time in nanoseconds, of older programs
		n := v.Int96()
		const julian = 2_440_588 // the day of the Unix epoch
		return appendTime(dst, time.Unix((int64(n[2])-julian)*86400, int64(n[1])<<32|int64(n[0])), 9, false)
	case parquet.Float:
		return appendFloat(dst, float64(v.Float()), 32)
	case parquet.Double:
		return appendFloat(dst, v.Double(), 64)
	}
	return appendBytes(dst, v.ByteArray())
}

// appendLogical appends a value of an annotated type. ok is false if the annotation says nothing of it.
func appendLogical(dst []byte, t any, v parquet.Value) (_ []byte, ok bool) {
	number := func() int64 {
		if v.Kind() == parquet.Int32 {
			return int64(v.Int32())
		}
		return v.Int64()
	}
	switch t := t.(type) {
	case *format.StringType, *format.EnumType:
		return appendText(dst, v.ByteArray(), false), true
	case *format.JsonType:
		return appendText(dst, v.ByteArray(), true), true
	case *format.DateType:
		return appendDate(dst, number()), true
	case *format.TimestampType:
		unit := unitOf(t.Unit)
		return appendTime(dst, ticked(number(), unit), unit, t.IsAdjustedToUTC), true
	case *format.TimeType:
		unit := unitOf(t.Unit)
		return appendClock(dst, ticked(number(), unit).UnixNano(), unit), true
	case *format.DecimalType:
		return appendDecimal(dst, integerOf(v), int(t.Scale)), true
	case *format.IntType:
		if !t.IsSigned && v.Kind() == parquet.Int32 {
			return appendInt(dst, int64(uint32(v.Int32()))), true
		}
		if !t.IsSigned {
			return new(big.Int).SetUint64(uint64(v.Int64())).Append(dst, 10), true
		}
	case *format.UUIDType:
		b := v.ByteArray()
		if len(b) != 16 {
			return dst, false
		}
		return fmt.Appendf(dst, `"%x-%x-%x-%x-%x"`, b[:4], b[4:6], b[6:8], b[8:10], b[10:]), true
	case *format.Float16Type:
		if b := v.ByteArray(); len(b) == 2 {
			return appendFloat(dst, half(uint16(b[0])|uint16(b[1])<<8), 32), true
		}
	}
	return dst, false
}

// unitOf returns the digits of a second of a unit.
func unitOf(u format.TimeUnit) int {
	switch u.Value.(type) {
	case *format.MilliSeconds:
		return 3
	case *format.MicroSeconds:
		return 6
	}
	return 9
}

// integerOf returns the integer of a decimal: big-endian bytes in two's complement, or a number.
func integerOf(v parquet.Value) *big.Int {
	switch v.Kind() {
	case parquet.Int32:
		return big.NewInt(int64(v.Int32()))
	case parquet.Int64:
		return big.NewInt(v.Int64())
	}
	b := v.ByteArray()
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return n
}

// half returns the value of a float of 16 bits.
func half(bits uint16) float64 {
	sign, exponent, fraction := 1.0, int(bits>>10&0x1f), float64(bits&0x3ff)
	if bits&0x8000 != 0 {
		sign = -1
	}
	switch exponent {
	case 0:
		return sign * math.Ldexp(fraction, -24)
	case 0x1f:
		if fraction != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}
