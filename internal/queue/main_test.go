package queue

import (
	"os"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) {
	if os.Getenv(crashDir) != "" {
		crashChild() // never returns
	}
	leak.Main(m)
}
