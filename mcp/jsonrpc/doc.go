// Package jsonrpc is the raw JSON-RPC 2.0 envelope: it says what a message is
// and which bytes of it are the id, the params and the result, without decoding
// any of them.
//
//	{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{…}}
//	                      └─ ID  "1.5"                     └─ Params, a slice of the input
//
// Keys are case-sensitive. A key that stands twice is refused, and so is one of a
// request that differs from a key of the envelope in case only: readers that
// ignore case would read another request. Ids keep their bytes:
// 9007199254740993, 1.5 and "1" come back as they went. Parsed
// parts are slices of the input and live as long as it does; whoever keeps one
// longer than the message clones it. The package knows nothing of MCP and does
// no I/O.
package jsonrpc
