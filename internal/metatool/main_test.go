package metatool

import (
	"testing"

	"github.com/weir-mcp/weir/internal/program"
	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) {
	program.RunWorker() // programs of these tests run in this executable
	leak.Main(m)
}
