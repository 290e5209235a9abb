// Package weir serves a gateway to MCP servers from a program of your own: one address for all of
// them, at the price of three tools. The command weir does the same from a shell.
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
// [Load] reads a configuration and lists everything that is wrong with it; docs/config.md has the
// keys. [New] starts the servers and does not wait for them: the first requests wait for a moment,
// and a server that is slow or fails keeps no other from being called. [Gateway.Ready] waits for the
// servers that are marked required.
//
// [Gateway.Reload] applies a changed configuration while calls run. [Gateway.Shutdown] lets running
// calls finish, and ends the programs of servers; a program that ends without it leaves that to the
// system.
//
// [Gateway.MCP] is the gateway without HTTP: an mcp.Handler for standard input, for a pipe in this
// process or for a transport of your own. Package mcp has the contract.
//
// What an agent sees at /mcp, and the other paths, are described in docs/gateway.md.
package weir
