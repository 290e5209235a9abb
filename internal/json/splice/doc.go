// Package splice edits configuration files of other programs: it sets or removes one value and keeps
// every other byte. It is pure functions over bytes and knows no files, no clients and no MCP.
//
//	doc ──parse──▶ tree with byte ranges ──plan──▶ patches ──apply──▶ new doc ──prove──▶ returned
//	                                       cut, insert                  decode both: exactly the
//	                                                                    planned keys differ, or *Unproven
//
// The formats are JSON (with comments and trailing commas), TOML and YAML. The libraries of the
// formats only say where values are; none of them writes. New bytes follow the file: its indentation,
// its line ends, its byte order mark, its final newline, and a trailing comma where commas trail.
//
// A [Path] names keys from the root. In a list, the segment "name=NAME" selects the item with that
// name. An empty document counts as an empty object. Numbers are compared as text, so a number of any
// length keeps its digits.
//
// Remove returns a [Cut]. Restore puts it back: at its old place, to the byte, if the document is as
// Remove left it; otherwise next to what stood around it; otherwise at the end of its parent.
//
// An edit is refused, and nothing is returned, if a key on its path occurs twice, if YAML has a merge
// key, a tag, an anchor or an alias on its path, or if the result cannot be proved.
package splice
