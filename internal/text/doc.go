// Package text bounds and cleans the texts that weir writes into messages, descriptions and logs.
// It counts characters, not bytes, and knows nothing of the purpose of a text.
//
//	name of a peer, message of an error ─▶ Line  one line, control characters removed, at most n
//	text as it stands                   ─▶ Fit   at most n characters, "…" where it was cut
//	JSON value in an error              ─▶ Value its type and its start
package text
