package artifact_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/s2sp/table"
)

// TestList: a principal's own artifacts, the newest first, with what is known of
// them as tables; looking is no use and keeps nothing alive.
func TestList(t *testing.T) {
	for _, dir := range []bool{false, true} {
		t.Run(fmt.Sprintf("files %t", dir), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := artifact.Options{TTL: time.Hour, MaxCount: 3}
				if dir {
					opts.Dir, opts.MemoryBytes = t.TempDir(), 1
				}
				s := openLocal(t, opts)
				put := func(principal, text string) artifact.Artifact {
					t.Helper()
					a, err := s.Put(t.Context(), principal, "application/json", "label", []byte(text))
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
					return a
				}
				text := put("ann", `"no table"`)
				rows := put("ann", threeRows)
				put("bob", `"of bob"`)
				w := s.NewTable("ann", "rows", table.Options{})
				if err := w.Append([]byte(`{"a":1}`)); err != nil {
					t.Fatal(err)
				}
				written, err := w.Commit(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Deposit(t.Context(), "ann", "behind a token", rowsOf(t, threeRows), 0); err != nil {
					t.Fatal(err)
				}
				handles := func() (out []string) {
					for _, h := range s.List("ann") {
						out = append(out, h.Handle)
					}
					return out
				}
				// MaxCount counts handles: what waits behind the token is none.
				if got, want := handles(), []string{written.Handle, rows.Handle, text.Handle}; !slices.Equal(got, want) {
					t.Fatalf("ann holds %q, want %q", got, want)
				}
				first, second := s.List("ann")[0], s.List("ann")[1]
				if !first.Table || first.Rows != 1 || !slices.Equal(first.Columns, []string{"a"}) || first.SizeBytes != written.SizeBytes {
					t.Errorf("the table is told as %+v", first)
				}
				if second.Table || second.Rows != 0 || second.Columns != nil {
					t.Errorf("what nobody has asked by rows is told as %+v", second)
				}
				lease, err := s.Open(t.Context(), "ann", rows.Handle)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := lease.Table(table.DetectOptions{}); err != nil {
					t.Fatal(err)
				}
				// An index finds no room where a byte of memory is all there is.
				if got := s.List("ann")[1]; !dir && (!got.Table || got.Rows != 3) {
					t.Errorf("once asked by rows it is told as %+v", got)
				}
				lease.Close()
				if got := s.List("nobody"); len(got) != 0 {
					t.Errorf("a stranger is told %+v", got)
				}
				before := s.Totals()
				for range 10 {
					s.List("ann")
				}
				if got := s.Totals(); got != before {
					t.Errorf("looking changed the store from %+v to %+v", before, got)
				}
				time.Sleep(2 * time.Hour)
				if got := s.List("ann"); len(got) != 0 {
					t.Errorf("what has expired is still told: %+v", got)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if got := s.List("ann"); got != nil {
					t.Errorf("a closed store tells %+v", got)
				}
			})
		})
	}
}
