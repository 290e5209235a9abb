// Command fakemcp is an MCP server that misbehaves on demand, for tests and benchmarks. It
// knows nothing of the module except package fakemcp, which says what it can do.
//
//	fakemcp [-http ADDRESS] [-tools N -pages P] [-init hang|exit|junk|…] [-lose-session N] …
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return fakemcp.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}
