package table_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/weir-mcp/weir/s2sp/table"
)

// wide makes rows × 30 columns like the alerts of a weather service, about 600
// bytes a row.
func wide(rows int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	words := []string{"wind", "flood", "advisory", "severe", "north", "coast", "until", "evening", "gusts", "expected"}
	b := make([]byte, 0, rows*620)
	b = append(b, '[')
	for row := range rows {
		if row > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":"urn:`...)
		b = strconv.AppendInt(b, int64(row), 10)
		b = append(b, '"')
		for col := 1; col < 30; col++ {
			b = fmt.Appendf(b, `,"column_%d":`, col)
			switch col % 5 {
			case 0:
				b = strconv.AppendInt(b, r.Int64N(1e6), 10)
			case 1:
				b = strconv.AppendFloat(b, float64(r.IntN(1e6))/100, 'f', -1, 64)
			case 2:
				b = strconv.AppendBool(b, r.IntN(2) == 0)
			default:
				b = append(b, '"')
				for n := range 1 + r.IntN(2) {
					if n > 0 {
						b = append(b, ' ')
					}
					b = append(b, words[r.IntN(len(words))]...)
				}
				b = append(b, '"')
			}
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

const benchRows = 100_000

func BenchmarkIndex(b *testing.B) {
	data := wide(benchRows)
	runtime.GC()
	start := time.Now()
	var decoded []map[string]any
	if err := json.Unmarshal(data, &decoded); err != nil {
		b.Fatal(err)
	}
	baseline := time.Since(start)
	decoded = nil
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var t *table.Table
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		var err error
		if t, err = table.Index(data, table.Options{}); err != nil {
			b.Fatal(err)
		}
	}
	elapsed := b.Elapsed() / time.Duration(b.N)
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := float64(len(data)) + float64(after.HeapAlloc) - float64(before.HeapAlloc)
	runtime.KeepAlive(t)
	b.ReportMetric(float64(baseline)/float64(elapsed), "x_baseline")
	b.ReportMetric(held/float64(len(data)), "x_input_bytes")
}

// A fetch of a tenth of the rows and five columns, next to decoding, filtering
// and encoding the same bytes, and next to the last two alone.
func BenchmarkSelect(b *testing.B) {
	data := wide(benchRows)
	t, err := table.Index(data, table.Options{})
	if err != nil {
		b.Fatal(err)
	}
	columns := []string{"id", "column_3", "column_10", "column_16", "column_24"}
	var ids []int
	for id := 0; id < benchRows; id += 10 {
		ids = append(ids, id)
	}
	start := time.Now()
	var decoded []map[string]any
	if err := json.Unmarshal(data, &decoded); err != nil {
		b.Fatal(err)
	}
	decode := time.Since(start)
	start = time.Now()
	var picked []map[string]any
	for _, id := range ids {
		row := map[string]any{"_row_id": id}
		for _, c := range columns {
			row[c] = decoded[id][c]
		}
		picked = append(picked, row)
	}
	if err := json.NewEncoder(io.Discard).Encode(picked); err != nil {
		b.Fatal(err)
	}
	rest := time.Since(start)
	decoded, picked = nil, nil
	runtime.GC()
	for b.Loop() {
		if _, err := t.View().SelectRows(ids).Project(columns).WithRowID().WriteJSON(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
	elapsed := b.Elapsed() / time.Duration(b.N)
	b.ReportMetric(float64(decode+rest)/float64(elapsed), "x_baseline")
	b.ReportMetric(float64(rest)/float64(elapsed), "x_decoded_baseline")
}

func BenchmarkWriteJSON(b *testing.B) {
	data := wide(benchRows)
	t, err := table.Index(data, table.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var out bytes.Buffer
	out.Grow(2 * len(data))
	start := time.Now()
	out.Write(data)
	baseline := time.Since(start)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := t.View().WithRowID().WriteJSON(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(baseline)*float64(b.N)/float64(b.Elapsed()), "x_memcpy")
}
