package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Constants of the Arrow columnar format, from Message.fbs and Schema.fbs.
const (
	arrowV5          = 4          // MetadataVersion.V5
	arrowSchema      = 1          // MessageHeader.Schema
	arrowRecordBatch = 3          // MessageHeader.RecordBatch
	arrowDouble      = 2          // Precision.DOUBLE
	arrowContinue    = 0xFFFFFFFF // starts every message
	arrowAlign       = 8          // of metadata and of each buffer

	arrowTypeNull  = 1 // Type.Null, and so on
	arrowTypeInt   = 2
	arrowTypeFloat = 3
	arrowTypeUTF8  = 5
	arrowTypeBool  = 6
)

// An arrowField is a column in the schema of a stream.
type arrowField struct {
	name string
	typ  arrowType
}

// An arrowStream writes the IPC streaming format: the schema, record batches and
// the end. A message is its metadata, a flatbuffer, and a body of buffers.
type arrowStream struct {
	w      io.Writer
	fields []arrowField
	cols   []arrowColumn
	rows   int // rows in the current batch
	meta   *flatbuffers.Builder
}

// newArrowStream writes the schema to w.
func newArrowStream(w io.Writer, fields []arrowField) (*arrowStream, error) {
	s := &arrowStream{w: w, fields: fields, cols: make([]arrowColumn, len(fields)), meta: flatbuffers.NewBuilder(1024)}
	for k, f := range fields {
		s.cols[k].typ = f.typ
	}
	return s, s.message(arrowSchema, s.schema(), 0)
}

// close writes the unfinished batch and the end of the stream.
func (s *arrowStream) close() error {
	if err := s.flush(); err != nil {
		return err
	}
	var end [8]byte
	binary.LittleEndian.PutUint32(end[:], arrowContinue)
	_, err := s.w.Write(end[:])
	return err
}

// flush writes the collected rows as a batch, if there are any.
func (s *arrowStream) flush() error {
	if s.rows == 0 {
		return nil
	}
	var nodes, buffers []int64 // pairs of rows and nulls, and of offset and length
	var size int64
	for k := range s.cols {
		c := &s.cols[k]
		nodes = append(nodes, int64(s.rows), int64(c.nulls))
		for _, b := range c.buffers() {
			buffers = append(buffers, size, b.size())
			size += padded(b.size())
		}
	}
	if err := s.message(arrowRecordBatch, s.recordBatch(nodes, buffers), size); err != nil {
		return err
	}
	for k := range s.cols {
		for _, b := range s.cols[k].buffers() {
			if err := b.write(s.w); err != nil {
				return err
			}
			if err := s.pad(b.size()); err != nil {
				return err
			}
		}
		s.cols[k].reset()
	}
	s.rows = 0
	return nil
}

// body writes a buffer and its padding.
func (s *arrowStream) body(b []byte) error {
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	return s.pad(int64(len(b)))
}

// pad writes the padding of a buffer of n bytes.
func (s *arrowStream) pad(n int64) error {
	var zeros [arrowAlign]byte
	_, err := s.w.Write(zeros[:padded(n)-n])
	return err
}

// message writes the metadata in s.meta as a Message with a header of the given kind. size is the
// size of the body that the caller writes next.
func (s *arrowStream) message(kind byte, header flatbuffers.UOffsetT, size int64) error {
	b := s.meta
	b.StartObject(5)
	b.PrependInt16Slot(0, arrowV5, 0)
	b.PrependByteSlot(1, kind, 0)
	b.PrependUOffsetTSlot(2, header, 0)
	b.PrependInt64Slot(3, size, 0)
	b.Finish(b.EndObject())
	meta := b.FinishedBytes()

	var prefix [8]byte
	binary.LittleEndian.PutUint32(prefix[:4], arrowContinue)
	binary.LittleEndian.PutUint32(prefix[4:], uint32(padded(int64(len(meta)))))
	_, err := s.w.Write(prefix[:])
	if err == nil {
		err = s.body(meta)
	}
	b.Reset()
	return err
}

func (s *arrowStream) schema() flatbuffers.UOffsetT {
	b := s.meta
	fields := make([]flatbuffers.UOffsetT, len(s.fields))
	for k, f := range s.fields {
		fields[k] = s.field(f)
	}
	list := offsets(b, fields)
	b.StartObject(4)
	b.PrependUOffsetTSlot(1, list, 0)
	return b.EndObject()
}

func (s *arrowStream) field(f arrowField) flatbuffers.UOffsetT {
	b := s.meta
	name := b.CreateString(f.name)
	children := offsets(b, nil) // some readers require a list
	var metadata flatbuffers.UOffsetT
	if f.typ == arrowJSON {
		key, value := b.CreateString(ArrowEncoding), b.CreateString("json")
		b.StartObject(2)
		b.PrependUOffsetTSlot(0, key, 0)
		b.PrependUOffsetTSlot(1, value, 0)
		metadata = offsets(b, []flatbuffers.UOffsetT{b.EndObject()})
	}
	b.StartObject(2)
	code := byte(arrowTypeUTF8)
	switch f.typ {
	case arrowNull:
		code = arrowTypeNull
	case arrowBool:
		code = arrowTypeBool
	case arrowInt:
		code = arrowTypeInt
		b.PrependInt32Slot(0, 64, 0)
		b.PrependBoolSlot(1, true, false)
	case arrowFloat:
		code = arrowTypeFloat
		b.PrependInt16Slot(0, arrowDouble, 0)
	}
	typ := b.EndObject()
	b.StartObject(7)
	b.PrependUOffsetTSlot(0, name, 0)
	b.PrependBoolSlot(1, true, false) // nullable
	b.PrependByteSlot(2, code, 0)
	b.PrependUOffsetTSlot(3, typ, 0)
	b.PrependUOffsetTSlot(5, children, 0)
	b.PrependUOffsetTSlot(6, metadata, 0)
	return b.EndObject()
}

func (s *arrowStream) recordBatch(nodes, buffers []int64) flatbuffers.UOffsetT {
	b := s.meta
	nodeList, bufferList := pairs(b, nodes), pairs(b, buffers)
	b.StartObject(5)
	b.PrependInt64Slot(0, int64(s.rows), 0)
	b.PrependUOffsetTSlot(1, nodeList, 0)
	b.PrependUOffsetTSlot(2, bufferList, 0)
	return b.EndObject()
}

// offsets writes a vector of tables.
func offsets(b *flatbuffers.Builder, list []flatbuffers.UOffsetT) flatbuffers.UOffsetT {
	b.StartVector(4, len(list), 4)
	for i := len(list) - 1; i >= 0; i-- {
		b.PrependUOffsetT(list[i])
	}
	return b.EndVector(len(list))
}

// pairs writes a vector of structs of two 64-bit numbers: FieldNode or Buffer.
func pairs(b *flatbuffers.Builder, list []int64) flatbuffers.UOffsetT {
	b.StartVector(16, len(list)/2, 8)
	for i := len(list) - 1; i >= 0; i-- {
		b.PrependInt64(list[i])
	}
	return b.EndVector(len(list) / 2)
}

func padded(n int64) int64 { return (n + arrowAlign - 1) &^ (arrowAlign - 1) }

// An arrowColumn collects the values of a column for one record batch.
type arrowColumn struct {
	typ   arrowType
	rows  int
	nulls int
	valid []byte // one bit per row: the value is not null
	bits  []byte // for arrowBool: one bit per row
	ends  []byte // for text: 0, then the end of each value in data; int32
	data  []byte // numbers, or concatenated texts
	long  []longText
	longs int // bytes of long
}

// A longText is a text of a column that is not copied: it stands before data[at:].
type longText struct {
	at    int
	value []byte // of the table: a JSON string, or JSON as it is
	plain bool
}

// write writes the text and returns its size.
func (t *longText) write(w io.Writer) (int64, error) {
	if t.plain {
		n, err := w.Write(t.value)
		return int64(n), err
	}
	out := counter{w: w}
	err := rawjson.WriteText(&out, t.value)
	return out.n, err
}

// An arrowBuffer is a buffer of a message.
type arrowBuffer struct {
	data  []byte
	long  []longText
	longs int
}

func (b *arrowBuffer) size() int64 { return int64(len(b.data) + b.longs) }

func (b *arrowBuffer) write(w io.Writer) error {
	from := 0
	for i := range b.long {
		if _, err := w.Write(b.data[from:b.long[i].at]); err != nil {
			return err
		}
		from = b.long[i].at
		if _, err := b.long[i].write(w); err != nil {
			return err
		}
	}
	_, err := w.Write(b.data[from:])
	return err
}

// reset discards the values and keeps the memory.
func (c *arrowColumn) reset() {
	c.rows, c.nulls, c.longs = 0, 0, 0
	clear(c.long)
	c.long = c.long[:0]
	c.valid, c.bits, c.ends, c.data = c.valid[:0], c.bits[:0], c.ends[:0], c.data[:0]
}

// buffers returns the column's buffers in the order that its type requires.
func (c *arrowColumn) buffers() []arrowBuffer {
	valid := arrowBuffer{data: c.valid}
	if c.nulls == 0 {
		valid.data = nil
	}
	switch c.typ {
	case arrowNull:
		return nil
	case arrowBool:
		return []arrowBuffer{valid, {data: c.bits}}
	case arrowInt, arrowFloat:
		return []arrowBuffer{valid, {data: c.data}}
	}
	return []arrowBuffer{valid, {data: c.ends}, {data: c.data, long: c.long, longs: c.longs}}
}

// text reports whether the column's values are texts.
func (c *arrowColumn) text() bool { return c.typ == arrowString || c.typ == arrowJSON }

func (c *arrowColumn) null() {
	c.nulls++
	c.row(false, false)
	if c.typ == arrowInt || c.typ == arrowFloat {
		c.data = append(c.data, 0, 0, 0, 0, 0, 0, 0, 0)
	}
}

func (c *arrowColumn) bool(v bool) { c.row(true, v) }

// word appends the 64 bits of a number.
func (c *arrowColumn) word(v uint64) {
	c.row(true, false)
	c.data = binary.LittleEndian.AppendUint64(c.data, v)
}

// string appends a text, which must be UTF-8.
func (c *arrowColumn) string(v []byte) error {
	if err := c.fits(len(v)); err != nil {
		return err
	}
	c.data = append(c.data, v...)
	c.row(true, false)
	return nil
}

func (c *arrowColumn) fits(n int) error {
	if len(c.data)+c.longs+n > math.MaxInt32 {
		return fmt.Errorf("a value of %d bytes is too long for an Arrow column", n)
	}
	return nil
}

// longString appends a text without a copy of it. value is UTF-8, and stays as it is until the batch is written.
func (c *arrowColumn) longString(value []byte, plain bool) error {
	t := longText{at: len(c.data), value: value, plain: plain}
	n, err := t.write(io.Discard)
	if err == nil {
		err = c.fits(int(n))
	}
	if err != nil {
		return err
	}
	c.long = append(c.long, t)
	c.longs += int(n)
	c.row(true, false)
	return nil
}

// row ends a row: it records whether there is a value, the bit of a bool, and the end of a text.
func (c *arrowColumn) row(valid, bit bool) {
	at := c.rows & 7
	if at == 0 {
		c.valid = append(c.valid, 0)
		if c.typ == arrowBool {
			c.bits = append(c.bits, 0)
		}
	}
	if valid {
		c.valid[c.rows>>3] |= 1 << at
	}
	if bit {
		c.bits[c.rows>>3] |= 1 << at
	}
	if c.text() {
		if c.rows == 0 {
			c.ends = append(c.ends, 0, 0, 0, 0)
		}
		c.ends = binary.LittleEndian.AppendUint32(c.ends, uint32(len(c.data)+c.longs))
	}
	c.rows++
}

// maxArrowMetadata bounds the metadata of one message when reading.
const maxArrowMetadata = 16 << 20

// CountArrow reads an Arrow IPC stream to its end and returns its number of rows. A truncated
// stream is an error.
func CountArrow(r io.Reader) (rows int, err error) {
	for first := true; ; first = false {
		kind, n, err := skipArrow(r)
		switch {
		case err == io.EOF && first:
			err = io.ErrUnexpectedEOF
			fallthrough
		case err != nil && err != io.EOF:
			return rows, fmt.Errorf("reading an Arrow stream: %w", err)
		case err == io.EOF:
			if _, err := io.Copy(io.Discard, r); err != nil {
				return rows, fmt.Errorf("reading an Arrow stream: %w", err)
			}
			return rows, nil
		case first != (kind == arrowSchema):
			return rows, errors.New("reading an Arrow stream: it does not begin with its one schema")
		}
		rows += int(n)
	}
}

// skipArrow reads one message with its body. It returns the message's kind and, for a record batch,
// the number of rows. At the end of the stream it returns io.EOF.
func skipArrow(r io.Reader) (kind byte, rows int64, err error) {
	// The flatbuffers reader panics on invalid offsets.
	defer func() {
		if recover() != nil {
			err = errors.New("a message's metadata is malformed")
		}
	}()
	var prefix [8]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return 0, 0, unexpected(err)
	}
	size := binary.LittleEndian.Uint32(prefix[4:])
	switch {
	case binary.LittleEndian.Uint32(prefix[:4]) != arrowContinue:
		return 0, 0, errors.New("a message does not begin as one")
	case size == 0:
		return 0, 0, io.EOF
	case size > maxArrowMetadata:
		return 0, 0, fmt.Errorf("a message has %d bytes of metadata, the most is %d", size, maxArrowMetadata)
	}
	meta := make([]byte, size)
	if _, err := io.ReadFull(r, meta); err != nil {
		return 0, 0, unexpected(err)
	}
	m := flatbuffers.Table{Bytes: meta, Pos: flatbuffers.GetUOffsetT(meta)}
	body := int64(0)
	if o := flatbuffers.UOffsetT(m.Offset(4 + 2*3)); o != 0 {
		body = m.GetInt64(o + m.Pos)
	}
	if o := flatbuffers.UOffsetT(m.Offset(4 + 2*1)); o != 0 {
		kind = m.GetByte(o + m.Pos)
	}
	if o := flatbuffers.UOffsetT(m.Offset(4 + 2*2)); o != 0 && kind == arrowRecordBatch {
		var batch flatbuffers.Table
		m.Union(&batch, o)
		if o := flatbuffers.UOffsetT(batch.Offset(4)); o != 0 {
			rows = batch.GetInt64(o + batch.Pos)
		}
	}
	if body < 0 || rows < 0 {
		return 0, 0, errors.New("a message's metadata is malformed")
	}
	if _, err := io.CopyN(io.Discard, r, body); err != nil {
		return 0, 0, unexpected(err)
	}
	return kind, rows, nil
}

// unexpected converts io.EOF to io.ErrUnexpectedEOF inside a message.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
