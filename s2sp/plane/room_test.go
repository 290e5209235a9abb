package plane_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/s2sp/plane"
)

// A row that is passed on has a bound. What its buffers take is counted before they grow, and given back when
// the answer has ended.
func TestRelayCountsARow(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		size, limit, status int
		says                string
	}{
		{17 * mb, 256 * mb, 502, "a row of it has more than 16777216 bytes"},
		{8 * mb, 256 * mb, 200, ""},
		{8 * mb, 16 * mb, 503, "limits.memory"},
	} {
		for _, accept := range []string{plane.TypeJSON, plane.TypeNDJSON} {
			pool := memory.NewPool(memory.Options{Limit: int64(c.limit), Wait: time.Millisecond})
			var most atomic.Int64
			b := relaying(t, artifact.Options{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, "{\"body\":[{\"_row_id\":0,\n\"a\":\"")
				piece := strings.Repeat("x", mb/4)
				for range c.size / len(piece) {
					if _, err := io.WriteString(w, piece); err != nil {
						return
					}
					most.Store(max(most.Load(), pool.Usage().Memory))
				}
				fmt.Fprintf(w, `"}]}`)
			}))
			next := b.Config.Handler
			b.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ctx, scope := memory.WithScope(r.Context())
				defer scope.End()
				scope.Count(pool, "", "s2sp")
				next.ServeHTTP(w, r.WithContext(ctx))
			})
			resp, got := post(t, b.Client(), b.url(t, "x"), `{}`, accept)
			if resp.StatusCode != c.status || !strings.Contains(got, c.says) {
				t.Errorf("%d bytes of %d: %s %.300s, want %d with %q", c.size, c.limit, resp.Status, got, c.status, c.says)
			}
			if c.status == 200 && (len(got) < c.size || strings.Contains(got, "\n\"a\"") == (accept == plane.TypeNDJSON)) {
				t.Errorf("%s: %d bytes, %.40q", accept, len(got), got)
			}
			if most := most.Load(); most < mb {
				t.Errorf("%d bytes are counted of a row of %d", most, c.size)
			}
			if u := pool.Usage(); u.Memory != 0 {
				t.Errorf("after the answer: %+v", u)
			}
		}
	}
}
