package artifact_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/s2sp/table"
)

// The bytes of a table in memory that has several segments are a copy, which the call takes. Readers need none.
func TestBytesOfSegments(t *testing.T) {
	s := artifact.NewMemory(artifact.Options{})
	defer s.Close()
	w := s.NewTable("ann", "rows", table.Options{})
	row := []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`)
	var want []byte
	for range 10 {
		if err := w.Append(row); err != nil {
			t.Fatal(err)
		}
		want = append(append(want, row...), '\n')
	}
	a, err := w.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Open(t.Context(), "ann", a.Handle)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	pool := memory.NewPool(memory.Options{Limit: 32 << 20, Wait: time.Millisecond})
	ctx, scope := memory.WithScope(t.Context())
	defer scope.End()
	scope.Count(pool, "principal ", "ann")
	if data, err := io.ReadAll(l.Reader()); err != nil || !bytes.Equal(data, want) || pool.Usage().Memory != 0 {
		t.Errorf("the reader has %d bytes, %v, and %+v", len(data), err, pool.Usage())
	}
	data, err := l.Bytes(ctx)
	if err != nil || !bytes.Equal(data, want) || pool.Usage().Memory < a.SizeBytes {
		t.Errorf("%d bytes, %v, and %+v", len(data), err, pool.Usage())
	}
	scope.End()
	if u := pool.Usage(); u.Memory != 0 {
		t.Errorf("after the call: %+v", u)
	}
}
