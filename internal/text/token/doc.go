// Package token counts and cuts text in tokens of cl100k_base, exactly and offline.
//
// It knows nothing of tools, cards or MCP. Budgets of a model's input are stated in tokens of this
// encoding (spec/gateway §2.3), so every place that keeps a budget asks this package.
//
//	text ──split──▶ pieces ──vocabulary hit? one token──▶ count
//	                  └────────byte-pair merges──────────▶ count
//
// The vocabulary is a table in the binary and is searched in place. It needs no heap and no
// start-up time, and the kernel may drop its pages while it is not used. There is no state, so all
// functions are safe for concurrent use.
package token
