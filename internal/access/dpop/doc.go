// Package dpop binds tokens to keys (RFC 9449): a client shows with each request that it has the key of its token, so
// that a stolen token opens nothing.
//
//	client                                        server
//	Key.Proof ──DPoP: JWT of method, URL, ath──▶  Verifier.Check ─▶ thumbprint of the key
//	          ◀──401 use_dpop_nonce, DPoP-Nonce──  no moment that counts
//
// A proof counts at its moment: the time of the nonce that it carries, and without a nonce its iat. A moment that is too
// long ago, in the future, or from before the process knew which proofs were used, is answered with a nonce, which has a
// new one. So clients with wrong clocks get through, and what is remembered about used proofs has a bound.
package dpop
