// Weir is an MCP gateway: one address for every MCP server, at the price of
// three tools. This package is the command: it reads flags, puts the other
// packages together and talks to people. It knows nothing of JSON-RPC framing,
// ranking, connections or what a result means; each of these is a package.
//
//	main ─▶ run ─▶ cobra ─┬─▶ serve ─────────────────────────▶ engine ─▶ HTTP, or stdin and stdout
//	                      ├─▶ ls search browse call view ─┬──▶ a running gateway over HTTP (--url)
//	                      │   select stats table          └──▶ engine, in this process (--config)
//	                      ├─▶ agent ─▶ agentserver    computer ─▶ smcp/computer    hub ─▶ smcp/hub
//	                      └─▶ config bench demo version
//
//	engine = config ─▶ upstream.Manager ─▶ snapshot ─▶ gateway.Gateway
//
// Each subcommand is a file. What they share: target.go (which gateway is
// asked), client.go (how), output.go and terminal.go (what it looks like),
// exit.go (how a command ends).
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker: -X main.version=v1.2.3.
var version = "devel"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
