package codec

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"

	"github.com/weir-mcp/weir/internal/columnar"
)

// The types of other programs are read from Parquet: structs, maps, lists of structs, times, decimals in integers,
// unsigned integers, UUIDs and plain bytes.
func TestParquetOfOthers(t *testing.T) {
	type point struct {
		X float32  `parquet:"x"`
		Y *float64 `parquet:"y,optional"`
	}
	type row struct {
		U32    uint32           `parquet:"u32"`
		U64    uint64           `parquet:"u64"`
		Small  int32            `parquet:"small,decimal(2:9)"`
		Large  int64            `parquet:"large,decimal(3:18)"`
		ID     [16]byte         `parquet:"id,uuid"`
		Raw    []byte           `parquet:"raw"`
		Old    deprecated.Int96 `parquet:"old"`
		Clock  int64            `parquet:"clock,time(microsecond)"`
		When   time.Time        `parquet:"when,timestamp(microsecond)"`
		On     bool             `parquet:"on"`
		At     point            `parquet:"at"`
		Points []point          `parquet:"points,list"`
		Flat   []int32          `parquet:"flat"`
		Map    map[string]int32 `parquet:"map"`
		Maybe  *point           `parquet:"maybe,optional"`
	}
	y := 2.5
	var out bytes.Buffer
	w := parquet.NewGenericWriter[row](&out)
	day := uint32(2_440_589) // 1970-01-02 as a Julian day
	if _, err := w.Write([]row{
		{
			U32: 1<<32 - 1, U64: 1<<64 - 1, Small: -5, Large: 123456, ID: [16]byte{0: 0xab, 15: 1}, Raw: []byte{1, 2},
			Old: deprecated.Int96{1, 0, day}, Clock: 3*3600*1e6 + 1, When: time.UnixMicro(1),
			On: true, At: point{X: 0.5, Y: &y}, Points: []point{{X: 1}, {X: 2, Y: &y}}, Flat: []int32{1, 2, 3}, Map: map[string]int32{"k": 7}, Maybe: &point{},
		},
		{},
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := read(out.Bytes(), columnar.Sink{Row: func(row []byte) error { got = append(got, string(row)); return nil }}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"u32":4294967295,"u64":18446744073709551615,"small":-0.05,"large":123.456,"id":"ab000000-0000-0000-0000-000000000001","raw":"AQI=",` +
			`"old":"1970-01-02T00:00:00.000000001","clock":"03:00:00.000001","when":"1970-01-01T00:00:00.000001Z","on":true,"at":{"x":0.5,"y":2.5},` +
			`"points":[{"x":1.0,"y":null},{"x":2.0,"y":2.5}],"flat":[1,2,3],"map":[{"key":"k","value":7}],"maybe":{"x":0.0,"y":null}}`,
	}
	if len(got) != 2 || got[0] != want[0] {
		t.Errorf("\n got %s\nwant %s", strings.Join(got, "\n"), want[0])
	}
	for _, part := range []string{`"points":[]`, `"flat":[]`, `"map":[]`, `"maybe":null`, `"at":{"x":0.0,"y":null}`, `"raw":""`} {
		if !strings.Contains(got[1], part) {
			t.Errorf("no %s in %s", part, got[1])
		}
	}
}

// Halves of all kinds have their values.
func TestHalf(t *testing.T) {
	for bits, want := range map[uint16]string{0x3c00: "1.0", 0xc000: "-2.0", 0x0001: "5.9604645e-08", 0x7c00: "Infinity", 0xfc00: "-Infinity", 0x7e00: "NaN", 0x8000: "-0.0"} {
		got := string(appendFloat(nil, half(bits), 32))
		if got != want {
			t.Errorf("%#x: %s, want %s", bits, got, want)
		}
	}
}

// A writer of Parquet asks for the memory of its largest row group before it writes, and takes no for an answer.
func TestParquetAsksForMemory(t *testing.T) {
	var lines []string
	for range 300 {
		lines = append(lines, `{"s":"`+strings.Repeat("x", 100<<10)+`"}`)
	}
	rows := rowsOf(t, lines...)
	var asked int64
	var out bytes.Buffer
	n, err := writeParquet(&out, rows, func(n int64) error { asked = n; return errRoom })
	if !errors.Is(err, errRoom) || n != 0 || out.Len() != 0 || asked < groupCopies*groupBytes || asked > 2*groupCopies*groupBytes {
		t.Errorf("%d bytes written, %d asked for: %v", n, asked, err)
	}
	if _, err := writeParquet(&out, rows, nil); err != nil {
		t.Fatal(err)
	}
	file, err := parquet.OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil || len(file.RowGroups()) != 4 {
		t.Errorf("%d row groups, %v", len(file.RowGroups()), err)
	}
}

// What is no table of this kind is refused with a reason.
func TestUnreadable(t *testing.T) {
	sample := samples(t)
	for name, data := range map[string][]byte{
		"an empty stream":       append(bytes.Clone(columnar.MagicStream), make([]byte, 12)...),
		"half a stream":         sample["arrow"][:len(sample["arrow"])/2],
		"a footer of no length": append([]byte("PAR1\x15\x00\x15\x00"), "\xff\xff\xff\x7fPAR1"...),
		"no footer":             append([]byte("PAR1"), "\x00\x00\x00\x00PAR1"...),
		"a file of garbage":     append(append(bytes.Clone(columnar.MagicArrow), bytes.Repeat([]byte{7}, 64)...), "ARROW1"...),
	} {
		if !columnar.Is(data) {
			t.Errorf("%s is not recognized", name)
		}
		err := read(data, columnar.Sink{Row: func([]byte) error { return nil }})
		if err != nil && !errors.Is(err, columnar.ErrForm) || err == nil && name != "an empty stream" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"", "PAR1", `{"a":1}`, "ARROW1", "PAR1 is a text that does not end so"} {
		if columnar.Is([]byte(text)) {
			t.Errorf("%q is taken for a file", text)
		}
	}
}
