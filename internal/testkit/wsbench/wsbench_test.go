package wsbench_test

import (
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/internal/testkit/wsbench"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestRoundTrip(t *testing.T) {
	ws := wsbench.Dial(t, wsbench.Echo(t))
	for _, frame := range []string{"2probe", ""} {
		if got := wsbench.RoundTrip(t, ws, []byte(frame)); string(got) != frame {
			t.Errorf("sent %q, got %q", frame, got)
		}
	}
}
