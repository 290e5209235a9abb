// Package password makes and compares hashes of passwords: Argon2id (RFC 9106) in the PHC form, which stand in the
// configuration. It knows no accounts.
package password
