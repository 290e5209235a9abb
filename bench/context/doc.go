// Command context counts the cost of tools for a model in tokens (cl100k_base, exact): the servers'
// own definitions, proxy mode, and gateway mode.
//
//	definitions ─┐                        ┌─ native   every definition, raw results
//	             ├─▶ the same two tasks ──┼─ proxy    stripped definitions, tool_hydrate, tool_execute
//	results ─────┘   of a made-up agent   └─ gateway  three definitions, tool_browse, tool_execute, tool_view
//
// The agent (agent.go) finds a tool, calls it, reads the needed parts of the result, and does so
// with a second one. Everything it sends and reads is counted, nothing is estimated; the gateway is
// the one that weir serves, in this process. It knows nothing of models: its words between calls
// are the same in all modes and left out.
//
//	go run ./bench/context                      a made-up catalogue of 4,086 tools
//	go run ./bench/context -data DIR            the tools of DIR/*/tools.jsonl
//	go run ./bench/context -servers FILE.json   real servers and a task: interop/context.mjs writes such a file
package main
