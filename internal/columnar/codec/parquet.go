package codec

import (
	"errors"
	"io"
	"reflect"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/snappy"

	"github.com/weir-mcp/weir/internal/columnar"
	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// groupBytes is about how many bytes of rows a row group has.
const groupBytes = 8 << 20

// groupCopies is how often a row group is there while it is written: its values, its pages, and these compressed.
const groupCopies = 4

// decimalBytes is the length of a decimal: 128 bits.
const decimalBytes = 16

// writeParquet writes rows as a Parquet file and returns the number of bytes written. It holds a row group at
// a time. Before it writes anything it asks grow for this memory; nil allows all.
func writeParquet(w io.Writer, rows columnar.Rows, grow func(bytes int64) error) (n int64, err error) {
	types := typesOf(rows)
	if grow != nil {
		if err := grow(groupCopies * largestGroup(rows)); err != nil {
			return 0, err
		}
	}
	root := group{parquet.Group{}, nil}
	leaves := make([]leaf, len(types))
	for k, c := range types {
		root.fields = append(root.fields, field{parquet.Optional(c.parquet()), rows.Columns[k]})
		leaves[k] = leaf{c, k}
	}
	out := &count{w: w}
	file := parquet.NewWriter(out, parquet.NewSchema("rows", root), parquet.Compression(&snappy.Codec{}), parquet.CreatedBy("weir", "", ""))
	var row parquet.Row
	size, at := int64(0), 0
	rows.Each(func(values [][]byte) bool {
		row = row[:0]
		for k, v := range values {
			if row, err = leaves[k].append(row, v); err != nil {
				err = failed(rows.Columns[k], at, err)
				return false
			}
		}
		size += bytesOf(values)
		if _, err = file.WriteRows([]parquet.Row{row}); err == nil && size >= groupBytes {
			size, err = 0, file.Flush()
		}
		at++
		return err == nil
	})
	return out.n, errors.Join(err, file.Close())
}

// largestGroup returns the bytes of rows in the largest row group.
func largestGroup(r columnar.Rows) (most int64) {
	size := int64(0)
	r.Each(func(values [][]byte) bool {
		size += bytesOf(values)
		if most = max(most, size); size >= groupBytes {
			size = 0
		}
		return true
	})
	return most
}

// bytesOf returns the bytes of a row, as groups are counted.
func bytesOf(values [][]byte) (n int64) {
	for _, v := range values {
		n += int64(len(v)) + valueBytes
	}
	return n
}

// A group is a node with its fields in their order. That of the library sorts them by name.
type group struct {
	parquet.Group
	fields []field
}

// String implements parquet.Node.
func (g group) String() string { return "group of " + strconv.Itoa(len(g.fields)) }

// Fields implements parquet.Node.
func (g group) Fields() []parquet.Field {
	all := make([]parquet.Field, len(g.fields))
	for i := range g.fields {
		all[i] = &g.fields[i]
	}
	return all
}

// GoType implements parquet.Node. No value of the type is made: rows are written as values of the columns.
func (group) GoType() reflect.Type { return reflect.TypeFor[struct{}]() }

// A field is a named node.
type field struct {
	parquet.Node
	name string
}

// Name implements parquet.Field.
func (f *field) Name() string { return f.name }

// Value implements parquet.Field.
func (f *field) Value(base reflect.Value) reflect.Value { return base }

// parquet returns the type in Parquet.
func (c column) parquet() parquet.Node {
	switch c.kind {
	case kindBool:
		return parquet.Leaf(parquet.BooleanType)
	case kindInt:
		return parquet.Int(64)
	case kindFloat:
		return parquet.Leaf(parquet.DoubleType)
	case kindDecimal:
		return parquet.Decimal(c.scale, c.precision, parquet.FixedLenByteArrayType(decimalBytes))
	case kindDate:
		return parquet.Date()
	case kindTime:
		return parquet.TimestampAdjusted([...]parquet.TimeUnit{parquet.Millisecond, parquet.Millisecond, parquet.Microsecond, parquet.Nanosecond}[c.unit/3], c.utc)
	case kindJSON:
		return parquet.JSON()
	case kindList:
		return parquet.List(parquet.Optional(c.elem.parquet()))
	}
	return parquet.String()
}

// A leaf is a column of a file: each of ours has one.
type leaf struct {
	column
	at int
}

// append appends a value, or the elements of a list, with their levels: of a list, 0 is no list, 1 an empty
// one, 2 a null in it and 3 a value; of others, 0 is null.
func (l leaf) append(row parquet.Row, v []byte) (parquet.Row, error) {
	if none(v) {
		return append(row, parquet.NullValue().Level(0, 0, l.at)), nil
	}
	if l.kind != kindList {
		value, err := l.value(v)
		return append(row, value.Level(0, 1, l.at)), err
	}
	elem := leaf{*l.elem, l.at}
	before := len(row)
	var failed error
	err := rawjson.EachElement(v, func(e []byte) bool {
		again := min(len(row)-before, 1)
		if none(e) {
			row = append(row, parquet.NullValue().Level(again, 2, l.at))
			return true
		}
		var value parquet.Value
		value, failed = elem.value(e)
		row = append(row, value.Level(again, 3, l.at))
		return failed == nil
	})
	if len(row) == before {
		row = append(row, parquet.NullValue().Level(0, 1, l.at))
	}
	return row, errors.Join(failed, err)
}

// value returns a value that is not null.
func (l leaf) value(v []byte) (parquet.Value, error) {
	switch l.kind {
	case kindBool:
		return parquet.BooleanValue(v[0] == 't'), nil
	case kindInt:
		n, err := strconv.ParseInt(string(v), 10, 64)
		return parquet.Int64Value(n), err
	case kindFloat:
		f, err := strconv.ParseFloat(string(v), 64)
		return parquet.DoubleValue(f), err
	case kindDecimal:
		n, err := l.unscaled(v)
		if err != nil {
			return parquet.Value{}, err
		}
		var b [decimalBytes]byte
		if n.Sign() < 0 { // two's complement: n = -(m+1), whose bits are the other ones of m
			m := n.Not(n)
			m.FillBytes(b[:])
			for i := range b {
				b[i] = ^b[i]
			}
		} else {
			n.FillBytes(b[:])
		}
		return parquet.FixedLenByteArrayValue(b[:]), nil
	case kindString, kindJSON:
		text, err := l.textOf(v)
		return parquet.ByteArrayValue(text), err
	case kindDate:
		days, ok := parseDate(string(v[1 : len(v)-1]))
		if !ok {
			return parquet.Value{}, errValue
		}
		return parquet.Int32Value(int32(days)), nil
	case kindTime:
		t, _, _, ok := parseTime(string(v[1 : len(v)-1]))
		if !ok {
			return parquet.Value{}, errValue
		}
		return parquet.Int64Value(column{unit: max(l.unit, 3)}.ticks(t)), nil
	}
	return parquet.Value{}, errValue
}
