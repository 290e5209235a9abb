package codec

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"

	"github.com/weir-mcp/weir/internal/columnar"
)

// Bounds of a Parquet file.
const (
	maxElements = 10_000   // of the schema
	maxNesting  = 64       // of the structs of a footer
	structBytes = 1 << 10  // of memory for a struct of a footer
	valueBytes  = 32       // of memory for a value of a page: the value, its index and its levels
	maxPage     = 64 << 20 // bytes of a page, decompressed; writers make pages of about 1 MB
)

var errThrift = errors.New("its metadata is malformed")

// A compact reads the compact protocol of Thrift, without making anything of it.
type compact struct {
	data    []byte
	at      int
	structs int64 // that were read
	items   int64 // elements of lists
}

// Types of the compact protocol.
const (
	thriftStop = iota
	thriftTrue
	thriftFalse
	thriftByte
	thriftI16
	thriftI32
	thriftI64
	thriftDouble
	thriftBinary
	thriftList
	thriftSet
	thriftMap
	thriftStruct
)

func (c *compact) byte() (byte, error) {
	if c.at >= len(c.data) {
		return 0, errThrift
	}
	c.at++
	return c.data[c.at-1], nil
}

func (c *compact) varint() (uint64, error) {
	n, size := binary.Uvarint(c.data[c.at:])
	if size <= 0 {
		return 0, errThrift
	}
	c.at += size
	return n, nil
}

// number reads an integer.
func (c *compact) number() (int64, error) {
	n, err := c.varint()
	return int64(n>>1) ^ -int64(n&1), err
}

// object calls f for each field of a struct; f reads the value, or returns false and has read nothing.
func (c *compact) object(depth int, f func(id int, kind byte) (read bool, err error)) error {
	if depth > maxNesting {
		return errThrift
	}
	c.structs++
	id := 0
	for {
		head, err := c.byte()
		if err != nil || head == thriftStop {
			return err
		}
		kind := head & 0xf
		if delta := int(head >> 4); delta > 0 {
			id += delta
		} else {
			n, err := c.number()
			if err != nil {
				return err
			}
			id = int(n)
		}
		read, err := f(id, kind)
		if err == nil && !read && kind != thriftTrue && kind != thriftFalse {
			err = c.skip(kind, depth)
		}
		if err != nil {
			return err
		}
	}
}

// nothing reads no field.
func nothing(int, byte) (bool, error) { return false, nil }

// list reads the head of a list.
func (c *compact) list() (n int, kind byte, err error) {
	head, err := c.byte()
	if err != nil {
		return 0, 0, err
	}
	size := uint64(head >> 4)
	if size == 15 {
		if size, err = c.varint(); err != nil {
			return 0, 0, err
		}
	}
	if size > uint64(len(c.data)-c.at) { // an element has a byte at least
		return 0, 0, errThrift
	}
	c.items += int64(size)
	return int(size), head & 0xf, nil
}

// skip reads a value.
func (c *compact) skip(kind byte, depth int) error {
	switch kind {
	case thriftTrue, thriftFalse, thriftByte: // of a list: as a field, a boolean has no value
		_, err := c.byte()
		return err
	case thriftI16, thriftI32, thriftI64:
		_, err := c.varint()
		return err
	case thriftDouble:
		c.at += 8
	case thriftBinary:
		n, err := c.varint()
		if err != nil || n > uint64(len(c.data)-c.at) {
			return errThrift
		}
		c.at += int(n)
	case thriftList, thriftSet:
		n, of, err := c.list()
		for i := 0; i < n && err == nil; i++ {
			err = c.skip(of, depth+1)
		}
		return err
	case thriftStruct:
		return c.object(depth+1, nothing)
	default: // no struct of Parquet has a map
		return errThrift
	}
	if c.at > len(c.data) {
		return errThrift
	}
	return nil
}

// checkFooter checks the sizes in the footer of a file, and takes the memory of its structs.
func checkFooter(data []byte, s columnar.Sink) error {
	size := int64(binary.LittleEndian.Uint32(data[len(data)-8:]))
	if size > int64(len(data)-12) {
		return errors.New("its footer claims more bytes than there are")
	}
	c := compact{data: data[int64(len(data)-8)-size : len(data)-8]}
	elements := 0
	err := c.object(0, func(id int, kind byte) (bool, error) {
		if id != 2 || kind != thriftList {
			return false, nil
		}
		n, of, err := c.list()
		elements = n
		for i := 0; i < n && err == nil && n <= maxElements; i++ {
			err = c.skip(of, 1)
		}
		if n > maxElements {
			err = fmt.Errorf("its schema has %d elements, and at most %d are read", n, maxElements)
		}
		return true, err
	})
	if err != nil {
		return err
	}
	return s.Grow(size + structBytes*c.structs + 64*c.items + 2*readBuffer*int64(elements))
}

// checkPages checks the sizes of all pages, and takes the memory of the largest ones. levels are
// how many kinds of levels each column has.
func checkPages(data []byte, meta *format.FileMetaData, levels []int, s columnar.Sink) error {
	most, check := int64(0), pageChecker{sink: s}
	for _, g := range meta.RowGroups {
		need := int64(0)
		if len(g.Columns) != len(levels) {
			return errThrift
		}
		for i := range g.Columns {
			m := &g.Columns[i].MetaData
			start := m.DataPageOffset
			if at := m.DictionaryPageOffset; at > 0 && at < start {
				start = at
			}
			if start < 4 || m.TotalCompressedSize < 0 || start > int64(len(data)) || m.TotalCompressedSize > int64(len(data))-start {
				return errors.New("a column claims bytes that are not there")
			}
			n, err := check.chunk(data[start:start+m.TotalCompressedSize], m.Codec, levels[i])
			if err != nil {
				return fmt.Errorf("column %q: %w", m.PathInSchema, err)
			}
			need += n
		}
		most = max(most, need)
	}
	return s.Grow(most)
}

// A pageChecker checks pages with memory that it uses again.
type pageChecker struct {
	sink   columnar.Sink
	values []byte // of a page of deltas
	window bool   // the memory to decompress zstd is taken
}

// chunk checks the pages of a column. It returns the memory that reading them one by one takes.
func (k *pageChecker) chunk(chunk []byte, codec format.CompressionCodec, levels int) (need int64, err error) {
	dictionary, largest := int64(0), int64(0)
	for len(chunk) > 0 {
		p, err := readPage(chunk)
		if err != nil {
			return 0, err
		}
		body := chunk[p.head : p.head+int(p.compressed)]
		chunk = chunk[p.head+int(p.compressed):]
		if err := k.page(p, body, codec, levels); err != nil {
			return 0, err
		}
		bytes := p.compressed + 2*p.size + valueBytes*p.values
		if p.kind == pageDictionary {
			dictionary += bytes
		} else {
			largest = max(largest, bytes)
		}
	}
	return dictionary + 2*largest, nil
}

// Types of pages.
const (
	pageData       = 0
	pageIndex      = 1
	pageDictionary = 2
	pageData2      = 3
)

// A page is the header of a page.
type page struct {
	kind             int64
	head             int // bytes of the header
	size, compressed int64
	values           int64
	encoding         int64
	levels           int64 // bytes of levels before the values, of pageData2
	plain            bool  // of pageData2: it is not compressed
}

// readPage reads the header of the page at the start of data.
func readPage(data []byte) (p page, err error) {
	c := compact{data: data}
	p.size, p.compressed = -1, -1
	err = c.object(0, func(id int, kind byte) (bool, error) {
		var to *int64
		switch {
		case id == 1:
			to = &p.kind
		case id == 2:
			to = &p.size
		case id == 3:
			to = &p.compressed
		case (id == 5 || id == 7 || id == 8) && kind == thriftStruct:
			return true, p.inner(&c, id)
		}
		if to == nil || kind != thriftI32 {
			return false, nil
		}
		*to, err = c.number()
		return true, err
	})
	p.head = c.at
	if err == nil && (p.size < 0 || p.size > maxPage || p.compressed < 0 || p.compressed > int64(len(data)-p.head) || p.values < 0 || p.levels < 0) {
		err = fmt.Errorf("a page of %d bytes, of which %d are there, has %d when decompressed, and at most %d are read", p.compressed, len(data)-p.head, p.size, maxPage)
	}
	return p, err
}

// inner reads the header of one type of page.
func (p *page) inner(c *compact, of int) error {
	return c.object(1, func(id int, kind byte) (read bool, err error) {
		n := int64(0)
		if kind == thriftI32 {
			n, err = c.number()
			read = true
		}
		switch {
		case id == 1:
			p.values = n
		case id == 2 && of != 8, id == 4 && of == 8:
			p.encoding = n
		case (id == 5 || id == 6) && of == 8:
			p.levels += n
		case id == 7 && of == 8:
			p.plain = kind == thriftFalse
		}
		return read, err
	})
}

// Encodings with which a page may claim more values than it has, or repeat them.
const (
	deltaBinaryPacked    = 5
	deltaLengthByteArray = 6
	deltaByteArray       = 7
)

// page checks that a page has the size that it claims.
func (k *pageChecker) page(p page, body []byte, codec format.CompressionCodec, levels int) error {
	if p.kind == pageData2 && !p.plain {
		if p.levels > int64(len(body)) {
			return errThrift
		}
		body = body[p.levels:]
	}
	most := p.size
	if p.kind == pageData2 && !p.plain {
		most, p.levels = most-p.levels, 0
	}
	switch {
	case p.kind == pageIndex:
		return nil
	case p.encoding == deltaByteArray:
		return errors.New("a page has the encoding DELTA_BYTE_ARRAY, which is not read because it has no bound")
	case p.kind == pageData2 && p.plain:
		codec = format.Uncompressed
	case most < 0:
		return errThrift
	}
	if codec == format.Uncompressed {
		return p.checkDelta(body, levels)
	}
	if p.encoding != deltaBinaryPacked && p.encoding != deltaLengthByteArray {
		return k.compressed(body, codec, most, io.Discard)
	}
	if most > int64(cap(k.values)) {
		if err := k.sink.Grow(most); err != nil {
			return err
		}
		k.values = make([]byte, 0, most)
	}
	values := bytes.NewBuffer(k.values[:0])
	if err := k.compressed(body, codec, most, values); err != nil {
		return err
	}
	return p.checkDelta(values.Bytes(), levels)
}

// checkDelta checks the number of values that a page of deltas claims behind its levels.
func (p *page) checkDelta(body []byte, levels int) error {
	if p.encoding != deltaBinaryPacked && p.encoding != deltaLengthByteArray {
		return nil
	}
	c := compact{data: body}
	switch p.kind {
	case pageData2:
		c.at = min(int(p.levels), len(body)) // of a plain page; others start behind them
	case pageData: // each kind of levels has its length before it
		for range levels {
			if len(body)-c.at < 4 || int64(binary.LittleEndian.Uint32(body[c.at:])) > int64(len(body)-c.at-4) {
				return errThrift
			}
			c.at += 4 + int(binary.LittleEndian.Uint32(body[c.at:]))
		}
	}
	for i := range 3 { // values in a block, parts of a block, values
		n, err := c.varint()
		if err != nil {
			return err
		}
		if i == 2 && n > uint64(p.values) {
			return errors.New("a page claims more values than its header")
		}
	}
	return nil
}

var errSize = errors.New("a page has more bytes than its header claims, when it is decompressed")

// maxWindow is how far back pages of zstd may refer: as far as any level of compression does.
const maxWindow = 8 << 20

// compressed decompresses a page into to, and checks that it has at most so many bytes.
func (k *pageChecker) compressed(body []byte, codec format.CompressionCodec, most int64, to io.Writer) error {
	var in io.Reader
	switch codec {
	case format.Snappy:
		n, err := snappy.DecodedLen(body)
		if err != nil {
			return err
		}
		if int64(n) > most {
			return errSize
		}
		if to == io.Discard {
			return nil // it decodes to this length, or not at all
		}
		out, err := snappy.Decode(nil, body)
		in = bytes.NewReader(out)
		if err != nil {
			return err
		}
	case format.Gzip:
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return err
		}
		in = z
	case format.Zstd:
		if !k.window {
			if err := k.sink.Grow(2 * maxWindow); err != nil {
				return err
			}
			k.window = true
		}
		z, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return err
		}
		defer z.Close()
		in = z
	default:
		return fmt.Errorf("its pages are compressed with %s, which is not read; write it with snappy, gzip or zstd", codec)
	}
	n, err := io.Copy(to, io.LimitReader(in, most+1))
	if err == nil && n > most {
		err = errSize
	}
	return err
}
