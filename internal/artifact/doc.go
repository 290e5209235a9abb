// Package artifact keeps the bytes that a gateway holds back from a model: a
// long result, a decoded picture, a table. A principal can read its own artifacts by handle until
// they expire.
//
// The package knows nothing of MCP, of tools or of the meaning of the bytes; it knows principals,
// bytes, rows and time.
//
//	Put(principal, bytes) ─▶ handle = "art_" + base32(HMAC-SHA256(secret of the principal, SHA-256(bytes)))
//	NewTable … Commit        │ same bytes, same principal: the same handle, its age starts anew
//	                         ▼
//	     per principal: handles ≤ MaxCount, bytes ≤ MaxBytes (the least recently used goes first)
//	     every artifact: age ≤ TTL                           (a janitor removes it, asked or not)
//	     all of them:    memory ≤ MemoryBytes, then files ≤ DiskBytes
//	                         │
//	Get, Open(principal, handle) ─▶ bytes, table | ErrExpired | ErrEvicted | ErrUnknown
//
// A handle works as often as its principal likes. To another principal it is as unknown as one that
// never existed.
//
// With [Local.At] a principal's artifacts belong to places, such as the profiles of a gateway: at a
// place, artifacts of other places are unknown.
//
// A token is the other way to bytes: it works for any holder, once, and for a short time
// (spec/tables §4).
//
//	Offer(principal, handle) ──────────┐                    ┌─ Spend ─▶ gone
//	Deposit(principal, table) ─────────┼▶ token ─▶ Claim ───┤
//	DepositSource(principal, source) ──┘             ▲      └─ Close without Spend ─┐
//	                                                 └──────────────────────────────┘
//
// A claimed token cannot be claimed again. A deposit is removed with its token. Open leases and claims
// stay readable, even if the artifact expires meanwhile.
//
// A handle can be made again by running the tool again; a token cannot, because it has been handed on.
// So a token is valid until it is spent or expires, and its artifact is never evicted. Both kinds share
// the bytes of a principal. A deposit takes the room of handles without tokens. If unspent tokens leave
// no room, the deposit goes to a file, beyond MaxBytes, if there is a Dir, and is refused with ErrFull
// otherwise. Handles have the room that tokens leave.
//
// The rows of a [Source] are elsewhere until a token is claimed.
//
// Bytes that do not fit in memory are written to files of mode 0600 in a directory of this process,
// which are mapped into memory while leases read them. They are removed with their artifact. The next
// process removes the files of a process that died.
//
// With a [Shelf], handles outlast the process. Put returns one when its bytes and its document are kept:
//
//	write the file, fsync ─▶ write the document, which names the file ─▶ handle
//	open: each document with a whole file ─▶ handle, owner, age; other files are removed
//
// Tokens and deposits end with the process: that a token works once has one arbiter, in memory.
package artifact
