package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/klauspost/compress/gzip"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	pqgzip "github.com/parquet-go/parquet-go/compress/gzip"
	"github.com/parquet-go/parquet-go/compress/snappy"
	"github.com/parquet-go/parquet-go/compress/uncompressed"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/weir-mcp/weir/internal/columnar"
)

var errRoom = errors.New("no room")

// bounded is a Sink with room for some bytes. taken are those that were asked for.
func bounded(most int64) (s columnar.Sink, taken *int64) {
	taken = new(int64)
	take := func(n int64) error {
		if *taken += n; *taken > most {
			return errRoom
		}
		return nil
	}
	return columnar.Sink{Grow: take, Row: func(row []byte) error { return take(int64(len(row))) }}, taken
}

// allocated returns the bytes that f allocates in all.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// samples are files of each form, codec and type.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	rows := rowsOf(t, `{"n":1,"f":0.5,"d":"2026-01-31","t":"2026-01-31T10:20:30Z","s":"x","l":[1,null],"b":true,"x":18446744073709551616,"j":{"a":1}}`, `{"n":2,"s":"x","l":[]}`, `{"s":"y"}`)
	all := map[string][]byte{}
	var out bytes.Buffer
	if _, err := writeArrow(&out, rows); err != nil {
		t.Fatal(err)
	}
	all["arrow"] = bytes.Clone(out.Bytes())
	stream, err := ipc.NewReader(bytes.NewReader(all["arrow"]))
	if err != nil {
		t.Fatal(err)
	}
	out.Reset()
	file, err := ipc.NewFileWriter(&out, ipc.WithSchema(stream.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	for stream.Next() {
		if err := file.Write(stream.RecordBatch()); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	all["arrow file"] = bytes.Clone(out.Bytes())
	out.Reset()
	if _, err := writeParquet(&out, rows, nil); err != nil {
		t.Fatal(err)
	}
	all["parquet"] = bytes.Clone(out.Bytes())
	type row struct {
		N int64   `parquet:"n,delta"`
		S string  `parquet:"s,dict"`
		L []int32 `parquet:"l,list"`
		T string  `parquet:"t,delta"`
		P *int64  `parquet:"p,optional"`
	}
	for name, codec := range map[string]compress.Codec{"plain": &uncompressed.Codec{}, "gzip": &pqgzip.Codec{}, "zstd": &zstd.Codec{}, "snappy": &snappy.Codec{}} {
		for version, page := range map[string]int{"1": 1, "2": 2} {
			out.Reset()
			w := parquet.NewGenericWriter[row](&out, parquet.Compression(codec), parquet.DataPageVersion(page))
			for i := range 100 {
				if _, err := w.Write([]row{{int64(i), "text", []int32{1, int32(i)}, "text", new(int64)}, {S: "other"}}); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			all[name+version] = bytes.Clone(out.Bytes())
		}
	}
	return all
}

// Files of all codecs and page versions that the checks know are read, but not those of one encoding.
func TestSamples(t *testing.T) {
	for name, data := range samples(t) {
		s, _ := bounded(64 << 20)
		rows := 0
		s.Row = func([]byte) error { rows++; return nil }
		if err := read(data, s); err == nil && rows < 3 || err != nil && !strings.Contains(err.Error(), "DELTA_BYTE_ARRAY") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a changed file makes its reader allocate was asked for before, up to a constant.
func TestChangedFilesAskForMemory(t *testing.T) {
	const room, constant = 32 << 20, 24 << 20
	for name, data := range samples(t) {
		step := max(1, len(data)/300)
		for at := 0; at < len(data); at += step {
			for _, bits := range []byte{0x01, 0x40, 0x80, 0xff} {
				changed := bytes.Clone(data)
				changed[at] ^= bits
				s, taken := bounded(room)
				var err error
				if n := allocated(func() { err = read(changed, s) }); int64(n) > constant+4*min(*taken, room) {
					t.Fatalf("%s, byte %d ^ %#x: %d bytes were allocated, and %d asked for: %v", name, at, bits, n, *taken, err)
				}
			}
		}
	}
}

// A page that decompresses to more than it claims is refused before it is decoded.
func TestDecompressionBomb(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write(make([]byte, 32<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	p := page{kind: pageData, size: 100, compressed: int64(z.Len()), values: 10}
	s, _ := bounded(1 << 20)
	var err error
	if n := allocated(func() { err = (&pageChecker{sink: s}).page(p, z.Bytes(), 2, 1) }); !errors.Is(err, errSize) || n > 1<<20 {
		t.Errorf("%v, %d bytes allocated", err, n)
	}
}

// A page of deltas that claims more values than its header is refused.
func TestDeltaClaims(t *testing.T) {
	claim := binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(nil, 128), 4), 1<<40)
	for name, p := range map[string]page{
		"required": {kind: pageData, values: 10, encoding: deltaBinaryPacked},
		"version2": {kind: pageData2, values: 10, encoding: deltaLengthByteArray, plain: true},
	} {
		if err := p.checkDelta(claim, 0); err == nil {
			t.Errorf("%s: 2⁴⁰ values are read", name)
		}
	}
	optional := page{kind: pageData, values: 10, encoding: deltaBinaryPacked}
	if err := optional.checkDelta(append([]byte{2, 0, 0, 0, 1, 1}, claim...), 1); err == nil {
		t.Error("behind levels, 2⁴⁰ values are read")
	}
	if err := optional.checkDelta(append([]byte{2, 0, 0, 0, 1, 1}, 128, 1, 4, 10, 0), 1); err != nil {
		t.Error(err)
	}
}

// columnar.Rows that are short in Arrow and long in JSON are counted as they are made.
func TestShortArrowOfManyRows(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.Null, Nullable: true}}, nil)
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	const rows = 1 << 30
	batch := array.NewRecordBatch(schema, []arrow.Array{array.NewNull(rows)}, rows)
	if err := errors.Join(w.Write(batch), w.Close()); err != nil {
		t.Fatal(err)
	}
	s, taken := bounded(1 << 20)
	if err := read(out.Bytes(), s); !errors.Is(err, errRoom) || *taken > 2<<20 {
		t.Errorf("%v, %d bytes", err, *taken)
	}
}

// The types of other programs are read: times of day, dictionaries, structs, maps, half floats and bytes.
func TestArrowOfOthers(t *testing.T) {
	mem := memory.DefaultAllocator
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "u", Type: arrow.PrimitiveTypes.Uint64},
		{Name: "f", Type: arrow.PrimitiveTypes.Float32},
		{Name: "c", Type: arrow.FixedWidthTypes.Time32ms},
		{Name: "y", Type: arrow.BinaryTypes.Binary},
		{Name: "s", Type: arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int8})},
		{Name: "k", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}},
		{Name: "z", Type: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "Europe/Zurich"}},
	}, nil)
	b := array.NewRecordBuilder(mem, schema)
	b.Field(0).(*array.Uint64Builder).Append(1<<64 - 1)
	b.Field(1).(*array.Float32Builder).Append(0.1)
	b.Field(2).(*array.Time32Builder).Append(3_723_004)
	b.Field(3).(*array.BinaryBuilder).Append([]byte{0, 255})
	b.Field(4).(*array.StructBuilder).Append(true)
	b.Field(4).(*array.StructBuilder).FieldBuilder(0).(*array.Int8Builder).Append(-8)
	if err := b.Field(5).(*array.BinaryDictionaryBuilder).AppendString("word"); err != nil {
		t.Fatal(err)
	}
	b.Field(6).(*array.TimestampBuilder).Append(1_000_001)
	batch := b.NewRecordBatch()
	for name, codec := range map[string]ipc.Option{"zstd": ipc.WithZstd(), "lz4": ipc.WithLZ4()} {
		var out bytes.Buffer
		w := ipc.NewWriter(&out, ipc.WithSchema(schema), codec)
		if err := errors.Join(w.Write(batch), w.Close()); err != nil {
			t.Fatal(err)
		}
		var got string
		err := read(out.Bytes(), columnar.Sink{Row: func(row []byte) error { got = string(row); return nil }})
		const want = `{"u":18446744073709551615,"f":0.1,"c":"01:02:03.004","y":"AP8=","s":{"a":-8},"k":"word","z":"1970-01-01T00:00:01.000001Z"}`
		if err != nil || got != want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, data := range samples(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !columnar.Is(data) {
			return
		}
		s, _ := bounded(4 << 20)
		if err := read(data, s); err != nil && !errors.Is(err, columnar.ErrForm) && !errors.Is(err, errRoom) {
			t.Errorf("%v", err)
		}
	})
}
