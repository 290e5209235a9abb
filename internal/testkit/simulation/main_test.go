package simulation_test

import (
	"runtime/debug"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // a world is garbage as a whole
	leak.Main(m)
}
