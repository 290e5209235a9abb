// Weir is an MCP gateway: one address for every MCP server, at the price of three tools. The
// program is in internal/cli; a Go program that serves a gateway of its own imports the package
// weir of the module's root.
package main

import (
	"os"

	"github.com/weir-mcp/weir/internal/cli"
	"github.com/weir-mcp/weir/internal/host/sandbox"
	"github.com/weir-mcp/weir/internal/program"
	"github.com/weir-mcp/weir/internal/version"
)

func main() {
	sandbox.Run()
	program.RunWorker()
	os.Exit(cli.Main(version.Linked))
}
