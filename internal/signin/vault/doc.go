// Package vault keeps the credentials that principals have at servers: a record for each, sealed
// with a key that only this gateway has.
//
//	record = {principal, server, issuer, key id} in the clear ─┬─▶ one file, 0600
//	         AES-256-GCM(HKDF(key), data, AAD = all of these) ─┘
//
// The clear part is authenticated with the data, so a record that is copied to another principal or
// another server does not open. The first key seals, and every key opens; [File.Rekey] seals all
// records with the first one.
//
// [Store] is the contract, and [Memory] and [File] keep it. A Swap compares and replaces, also across
// processes that share a folder. Lock lets one process at a time ask an issuer for a new token.
//
// The package knows nothing of OAuth and of HTTP: the data of a record are bytes.
package vault
