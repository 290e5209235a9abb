package codec

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/weir-mcp/weir/internal/columnar"
	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// maxMetadata bounds the metadata of one message.
const maxMetadata = 16 << 20

// Types of messages.
const (
	messageSchema     = 1
	messageDictionary = 2
	messageBatch      = 3
)

// countArrow reads an Arrow IPC stream to its end and returns its number of rows. It holds no rows. A truncated
// stream is an error.
func countArrow(r io.Reader) (rows int, err error) {
	for first := true; ; first = false {
		m, err := nextMessage(r)
		switch {
		case first && err == io.EOF:
			err = io.ErrUnexpectedEOF
		case err == io.EOF:
			_, err = io.Copy(io.Discard, r)
			return rows, counted(err)
		case err == nil && first != (m.kind == messageSchema):
			err = errors.New("it does not begin with its one schema")
		case err == nil:
			_, err = io.CopyN(io.Discard, r, m.body)
		}
		if err != nil {
			return rows, counted(err)
		}
		rows += int(m.rows)
	}
}

func counted(err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		err = fmt.Errorf("reading an Arrow stream: %w", err)
	}
	return err
}

// A message is the metadata of a message.
type message struct {
	kind byte
	body int64 // bytes that follow
	rows int64 // of a batch
}

// nextMessage reads the metadata of a message. At the end of a stream it returns io.EOF.
func nextMessage(r io.Reader) (m message, err error) {
	var size [4]byte
	if _, err = io.ReadFull(r, size[:]); err == nil && bytes.Equal(size[:], columnar.MagicStream) {
		_, err = io.ReadFull(r, size[:])
	}
	n := binary.LittleEndian.Uint32(size[:])
	switch {
	case err != nil:
		return m, counted(err)
	case n == 0:
		return m, io.EOF
	case n > maxMetadata:
		return m, fmt.Errorf("a message claims %d bytes of metadata", n)
	}
	var meta bytes.Buffer
	if _, err := io.CopyN(&meta, r, int64(n)); err != nil {
		return m, counted(err)
	}
	return readMessage(meta.Bytes())
}

// readMessage reads metadata, which is a flatbuffer.
func readMessage(meta []byte) (m message, err error) {
	defer func() {
		if recover() != nil || err == nil && (m.body < 0 || m.rows < 0) {
			err = errors.New("a message's metadata is malformed")
		}
	}()
	root := flat{meta, int(binary.LittleEndian.Uint32(meta))}
	if at := root.field(1); at > 0 {
		m.kind = meta[at]
	}
	if at := root.field(3); at > 0 {
		m.body = int64(binary.LittleEndian.Uint64(meta[at:]))
	}
	header, ok := root.table(2)
	if !ok {
		return m, errors.New("a message has no header")
	}
	switch m.kind {
	case messageSchema:
		left := maxElements
		return m, header.schemaFields(1, 0, &left)
	case messageDictionary:
		if header, ok = header.table(1); !ok {
			return m, errors.New("a dictionary has no values")
		}
		return m, header.batch()
	case messageBatch:
		if at := header.field(0); at > 0 {
			m.rows = int64(binary.LittleEndian.Uint64(meta[at:]))
		}
		return m, header.batch()
	}
	return m, nil
}

// schemaFields checks the lists of a schema or of a field: its fields, which member n lists, and the texts of the
// member behind them. It reads at most left fields.
func (f flat) schemaFields(n, depth int, left *int) error {
	if depth > maxNesting {
		return errors.New("its schema is too deep")
	}
	if _, _, err := f.vector(n+1, 4); err != nil {
		return err
	}
	at, count, err := f.vector(n, 4)
	if err != nil {
		return err
	}
	if *left -= count; *left < 0 {
		return fmt.Errorf("its schema has more than %d fields", maxElements)
	}
	for i := range count {
		place := at + 4*i
		const children = 5 // a member of a field
		if err := (flat{f.data, place + int(binary.LittleEndian.Uint32(f.data[place:]))}).schemaFields(children, depth+1, left); err != nil {
			return err
		}
	}
	return nil
}

// batch checks the lists of a record batch: nodes, buffers and the numbers of further buffers.
func (f flat) batch() error {
	_, _, nodes := f.vector(1, 16)
	_, _, buffers := f.vector(2, 16)
	_, _, more := f.vector(4, 8)
	return errors.Join(nodes, buffers, more)
}

// A flat is a table of a flatbuffer. It panics where the flatbuffer is malformed.
type flat struct {
	data []byte
	at   int
}

// field returns the place of a field, 0 if there is none.
func (f flat) field(n int) int {
	fields := f.data[f.at-int(int32(binary.LittleEndian.Uint32(f.data[f.at:]))):]
	if 4+2*n >= int(binary.LittleEndian.Uint16(fields)) {
		return 0
	}
	if offset := int(binary.LittleEndian.Uint16(fields[4+2*n:])); offset > 0 {
		return f.at + offset
	}
	return 0
}

// table returns the table that a field refers to.
func (f flat) table(n int) (of flat, ok bool) {
	at := f.field(n)
	if at == 0 {
		return of, false
	}
	return flat{f.data, at + int(binary.LittleEndian.Uint32(f.data[at:]))}, true
}

// vector returns the place and the number of the elements of a field that is a list, none if it is not there.
// Each element has so many bytes.
func (f flat) vector(n, size int) (at, count int, err error) {
	list, ok := f.table(n)
	if !ok {
		return 0, 0, nil
	}
	at, count = list.at+4, int(binary.LittleEndian.Uint32(f.data[list.at:]))
	if count > (len(f.data)-at)/size {
		return 0, 0, fmt.Errorf("a list claims %d elements", count)
	}
	return at, count, nil
}

// An allocator asks a Sink for the memory of a decoder. It panics with the error of the Sink, because the
// decoder cannot do without the memory; Read returns the error.
type allocator struct{ sink columnar.Sink }

// Allocate implements memory.Allocator.
func (a allocator) Allocate(size int) []byte {
	if size < 0 || size > 1<<40 {
		panic(fmt.Sprintf("a buffer of %d bytes", size))
	}
	if err := a.sink.Grow(int64(size)); err != nil {
		panic(err)
	}
	return make([]byte, size, (size+63)/64*64)
}

// Reallocate implements memory.Allocator.
func (a allocator) Reallocate(size int, b []byte) []byte {
	if size <= cap(b) {
		return b[:size]
	}
	out := a.Allocate(size)
	copy(out, b)
	return out
}

// Free implements memory.Allocator.
func (a allocator) Free([]byte) {}

// checkMessages checks that no message of a stream claims more bytes than there are. It takes the memory of
// their metadata.
func checkMessages(data []byte, s columnar.Sink) error {
	for r := bytes.NewReader(data); r.Len() > 0; {
		before := r.Len()
		m, err := nextMessage(r)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = s.Grow(4 * int64(before-r.Len()))
		}
		if err != nil {
			return err
		}
		if m.body > int64(r.Len()) {
			return fmt.Errorf("a message claims a body of %d bytes, and %d follow", m.body, r.Len())
		}
		if _, err := r.Seek(m.body, io.SeekCurrent); err != nil {
			return err
		}
	}
	return nil
}

// checkFile checks the index of a file, which is at its end, and the messages to which it leads. It takes the memory
// of their metadata.
func checkFile(data []byte, s columnar.Sink) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("its index is malformed")
		}
	}()
	end := len(data) - len("....ARROW1")
	size := int(binary.LittleEndian.Uint32(data[end:]))
	if size > maxMetadata || size > end {
		return fmt.Errorf("its index claims %d bytes", size)
	}
	index := data[end-size : end]
	if err := s.Grow(4 * int64(size)); err != nil {
		return err
	}
	root := flat{index, int(binary.LittleEndian.Uint32(index))}
	left := maxElements
	if schema, ok := root.table(1); !ok {
		return errors.New("its index has no schema")
	} else if err := schema.schemaFields(1, 0, &left); err != nil {
		return err
	}
	const block = 24 // bytes of the place of a message
	for _, list := range []int{2, 3} {
		at, count, err := root.vector(list, block)
		if err != nil {
			return err
		}
		for ; count > 0; count-- {
			start, meta := int64(binary.LittleEndian.Uint64(index[at:])), int64(binary.LittleEndian.Uint32(index[at+8:]))
			body := int64(binary.LittleEndian.Uint64(index[at+16:]))
			at += block
			if start < 0 || start > int64(end) || meta > int64(end)-start || body < 0 || body > int64(end)-start-meta {
				return errors.New("its index leads to bytes that are not there")
			}
			if err := s.Grow(4 * meta); err != nil {
				return err
			}
			m, err := nextMessage(bytes.NewReader(data[start : start+meta]))
			if err == nil && m.body > body {
				err = fmt.Errorf("a message claims a body of %d bytes, and its index %d", m.body, body)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// readArrow reads an Arrow stream or file.
func readArrow(data []byte, s columnar.Sink) error {
	if bytes.HasPrefix(data, columnar.MagicArrow) {
		return readArrowFile(data, s)
	}
	if err := checkMessages(data, s); err != nil {
		return err
	}
	in, err := ipc.NewReader(bytes.NewReader(data), ipc.WithAllocator(allocator{s}), ipc.WithMetadataSizeLimit(maxMetadata))
	if err != nil {
		return err
	}
	defer in.Release()
	b := batches{sink: s}
	b.begin(in.Schema())
	for in.Next() {
		if err := b.add(in.RecordBatch()); err != nil {
			return err
		}
	}
	if err := in.Err(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// readArrowFile reads an Arrow file by its index: not every writer starts it as a stream.
func readArrowFile(data []byte, s columnar.Sink) error {
	if err := checkFile(data, s); err != nil {
		return err
	}
	in, err := ipc.NewFileReader(bytes.NewReader(data), ipc.WithAllocator(allocator{s}))
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	b := batches{sink: s}
	b.begin(in.Schema())
	for i := range in.NumRecords() {
		batch, err := in.RecordBatch(i)
		if err != nil {
			return err
		}
		if err := b.add(batch); err != nil {
			return err
		}
	}
	return nil
}

// batches gives the rows of record batches to a Sink.
type batches struct {
	sink   columnar.Sink
	names  [][]byte // as JSON
	isJSON []bool
	row    []byte
}

// begin starts a reading with the schema.
func (b *batches) begin(schema *arrow.Schema) {
	for _, f := range schema.Fields() {
		value, _ := f.Metadata.GetValue(columnar.Encoding)
		b.names, b.isJSON = append(b.names, rawjson.Quote(f.Name)), append(b.isJSON, value == "json")
	}
}

// add reads the rows of a batch.
func (b *batches) add(batch arrow.RecordBatch) (err error) {
	for i := range int(batch.NumRows()) {
		b.row = append(b.row[:0], '{')
		for k := range b.names {
			if k > 0 {
				b.row = append(b.row, ',')
			}
			b.row = append(append(b.row, b.names[k]...), ':')
			if b.row, err = appendValue(b.row, batch.Column(k), i, b.isJSON[k]); err != nil {
				return err
			}
		}
		if err := b.sink.Row(append(b.row, '}')); err != nil {
			return err
		}
	}
	return nil
}

// appendValue appends value i of a column as JSON.
func appendValue(dst []byte, from arrow.Array, i int, isJSON bool) ([]byte, error) {
	if from.IsNull(i) {
		return append(dst, "null"...), nil
	}
	switch a := from.(type) {
	case *array.Null:
		return append(dst, "null"...), nil
	case *array.String:
		return appendText(dst, []byte(a.Value(i)), isJSON), nil
	case *array.LargeString:
		return appendText(dst, []byte(a.Value(i)), isJSON), nil
	case *array.StringView:
		return appendText(dst, []byte(a.Value(i)), isJSON), nil
	case *array.Binary:
		return appendBytes(dst, a.Value(i)), nil
	case *array.LargeBinary:
		return appendBytes(dst, a.Value(i)), nil
	case *array.BinaryView:
		return appendBytes(dst, a.Value(i)), nil
	case *array.FixedSizeBinary:
		return appendBytes(dst, a.Value(i)), nil
	case *array.Float16:
		return appendFloat(dst, float64(a.Value(i).Float32()), 32), nil
	case *array.Float32:
		return appendFloat(dst, float64(a.Value(i)), 32), nil
	case *array.Float64:
		return appendFloat(dst, a.Value(i), 64), nil
	case *array.Date32:
		return appendDate(dst, int64(a.Value(i))), nil
	case *array.Date64:
		return appendDate(dst, int64(a.Value(i))/86_400_000), nil
	case *array.Timestamp:
		t := a.DataType().(*arrow.TimestampType)
		unit := digitsOf(t.Unit)
		return appendTime(dst, ticked(int64(a.Value(i)), unit), unit, t.TimeZone != ""), nil
	case *array.Time32:
		unit := digitsOf(a.DataType().(*arrow.Time32Type).Unit)
		return appendClock(dst, ticked(int64(a.Value(i)), unit).UnixNano(), unit), nil
	case *array.Time64:
		unit := digitsOf(a.DataType().(*arrow.Time64Type).Unit)
		return appendClock(dst, ticked(int64(a.Value(i)), unit).UnixNano(), unit), nil
	case *array.Duration:
		return appendInt(dst, int64(a.Value(i))), nil
	case *array.Decimal32:
		return appendDecimal(dst, big.NewInt(int64(a.Value(i))), int(a.DataType().(arrow.DecimalType).GetScale())), nil
	case *array.Decimal64:
		return appendDecimal(dst, big.NewInt(int64(a.Value(i))), int(a.DataType().(arrow.DecimalType).GetScale())), nil
	case *array.Decimal128:
		return appendDecimal(dst, a.Value(i).BigInt(), int(a.DataType().(arrow.DecimalType).GetScale())), nil
	case *array.Decimal256:
		return appendDecimal(dst, a.Value(i).BigInt(), int(a.DataType().(arrow.DecimalType).GetScale())), nil
	case *array.Dictionary:
		return appendValue(dst, a.Dictionary(), a.GetValueIndex(i), isJSON)
	case *array.Struct:
		return appendStruct(dst, a, i)
	case array.ListLike:
		start, end := a.ValueOffsets(i)
		dst = append(dst, '[')
		for n := start; n < end; n++ {
			if n > start {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = appendValue(dst, a.ListValues(), int(n), false); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	}
	value, err := json.Marshal(from.GetOneForMarshal(i)) // integers, booleans and rare types
	return append(dst, value...), err
}

func appendStruct(dst []byte, a *array.Struct, i int) (_ []byte, err error) {
	dst = append(dst, '{')
	for k, f := range a.DataType().(*arrow.StructType).Fields() {
		if k > 0 {
			dst = append(dst, ',')
		}
		dst = append(rawjson.AppendString(dst, f.Name), ':')
		if dst, err = appendValue(dst, a.Field(k), i, false); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// digitsOf returns the digits of a second of a unit.
func digitsOf(unit arrow.TimeUnit) int {
	switch unit {
	case arrow.Second:
		return 0
	case arrow.Millisecond:
		return 3
	case arrow.Microsecond:
		return 6
	}
	return 9
}
