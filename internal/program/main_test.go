package program_test

import (
	"testing"

	"github.com/weir-mcp/weir/internal/program"
	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) {
	program.RunWorker() // the workers of these tests are this executable
	leak.Main(m)
}
