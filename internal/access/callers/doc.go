// Package callers says who may call a gateway by a configuration: tokens, issuers, roles, and the checks
// of Host and Origin.
//
//	config.Auth, config.TLS ─▶ Policy ─▶ access.Authenticator
//	config.HTTP ─▶ Guard ─▶ guard.Guard
//	config.Auth.Server ─▶ Server ─▶ authserver.Server
//
// It only converts; only Proofs asks the store.
package callers
