// Package usage counts the tokens that agents read, and the tokens that they would have read
// without the gateway.
//
//	answer ─▶ [Account.Tally] ─▶ small: counted now  ─┐
//	                │                                 ├─▶ [Counters] of the session and of all ─▶ [Usage]
//	                └─▶ large: a queue, one goroutine ┘
package usage
