// Package weir serves a gateway to MCP servers from a Go program: one address for all of them, at
// the price of three tools. The command weir does the same from a shell.
//
// A Gateway is an http.Handler. This program puts the servers of an .mcp.json behind
// http://127.0.0.1:8088/mcp:
//
//	c, err := weir.Load(".mcp.json")
//	if err != nil {
//		log.Fatal(err)
//	}
//	g, err := weir.New(context.Background(), c, weir.Options{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer g.Shutdown(context.Background())
//	log.Print(http.ListenAndServe(c.Listen(), g))
//
// [Load] reads a configuration and reports everything that is wrong with it; docs/config.md lists
// the keys. [New] starts the servers without waiting for them. The first requests wait a moment for
// servers that are starting; a slow or failed server does not block the others. [Gateway.Ready]
// waits for the servers marked required.
//
// [Gateway.Reload] applies a changed configuration while calls run. [Gateway.Shutdown] waits for
// running calls and stops the server programs. A program that exits without calling it leaves that
// to the operating system.
//
// [Gateway.MCP] returns the gateway without HTTP: an mcp.Handler for standard input, an in-process
// pipe or a custom transport. Package mcp defines the contract.
//
// docs/gateway.md describes the tools that an agent sees at /mcp, and the other paths.
package weir
