package main

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// The table has a row for each size, with all figures.
func TestTable(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"200", "500"}, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[2], "| 200 |") || !strings.HasPrefix(lines[3], "| 500 |") || strings.Count(lines[3], " ms ") != 6 {
		t.Errorf("%s", out.String())
	}
	if err := run([]string{"many"}, &out); err == nil {
		t.Error("a size that is no number passed")
	}
}

// BenchmarkRefresh measures a change of one server's list, with what the next search needs.
func BenchmarkRefresh(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			s := metatool.NewSnapshot(catalog.Limits{})
			for server := range n / perServer {
				s, _ = s.With(listingOf(server, 0))
			}
			s.Prepare()
			state := metatool.NewState()
			defer state.Close(context.Background())
			state.Refresh(s.Catalog)
			b.ReportAllocs()
			for change := 1; b.Loop(); change++ {
				s = refresh(state, s, listingOf(3, change))
			}
		})
	}
}
