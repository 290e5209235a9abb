// Package identity describes the caller: the principal that everything of a caller belongs to, and
// the claims of its issuer.
//
// A principal is a text: the name of a static token ("ci"), an issuer's name with a subject
// ("corp:8a7f"), or a certificate ("cert:spiffe://example/agent"). Sessions, tasks, results,
// handles and cached answers belong to a principal and not to the bytes of a token, so that a
// refreshed token changes nothing. Groups, roles, scopes and claims may differ from one request of
// a principal to the next; rules look at the groups, roles, scopes and claims of the request.
//
// The package is at the bottom of the house: code that authenticates callers (internal/net/guard and
// its authenticators) stores an [Identity] in the context of a request with [With], and code that
// decides reads it with [From].
package identity
