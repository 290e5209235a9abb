// Package a2c is the common part of the three roles of A2C-SMCP on the wire: how dialects differ,
// versions, signatures, and errors with exact texts.
//
//	a peer's words ─▶ CheckVersion, Dialect.Hear ─▶ Dialect ─▶ the events, names and acks it reads
//
// Package smcp has the payloads, which programs of others use. This package knows no transport and
// keeps no state.
package a2c
