package gateway_test

import (
	"os"
	"testing"

	"github.com/weir-mcp/weir/internal/program"
	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
)

func TestMain(m *testing.M) {
	program.RunWorker()
	if os.Getenv(gatewaytest.AsProgram) != "" {
		gatewaytest.ServeProgram()
		os.Exit(0)
	}
	os.Exit(m.Run())
}
