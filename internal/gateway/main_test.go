package gateway_test

import (
	"os"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
)

func TestMain(m *testing.M) {
	if os.Getenv(gatewaytest.AsProgram) != "" {
		gatewaytest.ServeProgram()
		os.Exit(0)
	}
	os.Exit(m.Run())
}
