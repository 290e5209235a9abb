// Package jsonrpc reads and writes the raw JSON-RPC 2.0 envelope. It finds the bytes of the id, the
// params and the result of a message without decoding them.
//
//	{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{…}}
//	                      └─ ID  "1.5"                     └─ Params, a slice of the input
//
// Keys are case-sensitive. A duplicate key is refused. So is a key of a request that differs from a
// key of the envelope in case only: readers that ignore case would read another request. Ids keep
// their bytes: 9007199254740993, 1.5 and "1" are written as they were read. Parsed parts are slices
// of the input and valid as long as it is; to keep one longer, clone it. The package knows nothing
// of MCP and does no I/O.
package jsonrpc
