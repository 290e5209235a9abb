// Package rawjson reads and edits JSON without decoding it: it finds members, replaces them and
// skips values, always as slices of the input. By it, weir can look into a message and still
// forward every byte as it came: unknown members, key order and twenty-digit integers survive.
//
// Keys are compared case-sensitively after unescaping, and a looked-up key that
// stands twice is an error, because two readers of one message would disagree
// about which of them counts. The package knows nothing of JSON-RPC or MCP.
//
//	input  {"name":"search","arguments":{…100 KB…},"_meta":{"progressToken":7}}
//	        Fields("name", "_meta") ─▶ "search" · {"progressToken":7}   (two slices, one pass)
//	        Set("_meta", …)         ─▶ a copy with that member's bytes replaced
package rawjson
