// Package usage counts what agents read in tokens, and what they would have read without the gateway.
// It knows no session and no catalog but the definitions in it.
//
//	answer ─▶ [Account.Tally] ─▶ small: counted now  ─┐
//	                │                                 ├─▶ [Counters] of the session and of all ─▶ [Usage]
//	                └─▶ large: a queue, one goroutine ┘
package usage
