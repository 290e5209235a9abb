// Package authz decides whether a rule's conditions about the caller and the request hold.
//
// A [Condition] is the part of a rule that looks at the caller (groups, principals, roles, scopes)
// and at the request (an expression in CEL). Its value is one of five, because a part may
// not be known yet, and an expression may fail:
//
//	condition ─▶ Yes      the rule matches
//	             No       it does not
//	             Unknown  a part that it looks at is not known, such as arguments while a list is made
//	             Failed   an expression failed: a key is missing, a type is wrong, it costs too much
//	             NotYes   one part is unknown and another failed
//
// The caller decides the effect of a rule with the value Unknown or Failed. Where a call is
// admitted, it matches if it denies or asks, and never if it allows. Where a list is made, Unknown
// is the other way round, so that all entries are listed that some arguments could call.
//
// Package dispatch has the rules, their order and the names of tools. This package knows neither
// rules nor the catalog, does no I/O and holds no state but compiled expressions.
package authz
