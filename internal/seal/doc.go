// Package seal encrypts small texts that weir gives away and gets back, such as ids of sessions.
//
//	key (32 bytes) ──HKDF-SHA256, purpose──▶ AES-256-GCM ──▶ nonce | ciphertext | tag, base64url
//
// Each purpose has a key of its own, so that a text of one purpose never opens as one of another. The
// package knows none of the contents.
package seal
