package fakemcp

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/leak"
)

// asProgram makes the test binary behave as the program, for tests that need a process.
const asProgram = "FAKEMCP_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	leak.Main(m)
}
