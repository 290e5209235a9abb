// Package demo holds four small MCP servers to put behind a gateway: the quickstart starts them,
// and a newcomer searches and calls them first. They need no network, no account and no other
// program, and the same call gives the same answer on every machine.
//
//	notes      stdio            notes kept in memory; tools, resources note://{id} and a prompt
//	inventory  streamable HTTP  products, stock, orders and price history of a small shop
//	weather    stdio            weather alerts as a large table of 31 columns (S2SP), forecasts, stations
//	chart      stdio            draws a bar chart of rows that come from another server (S2SP)
//
// Each server is one product in files of its own, on package mcp, as an author without a framework
// would write it:
//
//	Run(name) ─▶ build the server (tools, resources, prompts) ─▶ serveStdio │ serveHTTP ─▶ context ends ─▶ sessions closed
//
// The package knows nothing of the gateway: whatever works with these servers works with
// other people's. Their state lives in one call of Run and is gone when it returns.
package demo
