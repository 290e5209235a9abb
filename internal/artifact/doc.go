// Package artifact keeps the bytes that a gateway holds back from a model: a
// long result, a decoded picture, a table. Whoever holds the handle and is the
// principal it was made for can read them until they expire.
//
// The package knows nothing of MCP, of tools or of what the bytes mean; it
// knows principals, bytes, rows and time.
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
// A handle tells nobody else anything: another principal's handle is as unknown
// as one that never was. It works as often as its principal likes.
//
// A token is the other way to bytes: it works for whoever has it, once, and not
// long (spec/tables §4).
//
//	Offer(principal, handle) ──────────┐                    ┌─ Spend ─▶ gone
//	Deposit(principal, table) ─────────┼▶ token ─▶ Claim ───┤
//	DepositSource(principal, source) ──┘             ▲      └─ Close without Spend ─┐
//	                                                 └──────────────────────────────┘
//
// While a token is claimed nobody else can claim it. What was deposited for a
// token goes with it. Whoever has a lease or a claim open reads on, whatever
// expires meanwhile.
//
// A handle can be made again by running the tool again; a token cannot, because
// it has been handed on. So a token that was given out is good until it is spent
// or expires: what waits behind it is never evicted. Both kinds share the bytes
// of a principal. A deposit takes the room of handles that have no token. If
// tokens alone leave no room, it goes to a file, beyond MaxBytes, where there is
// a Dir, and is refused with ErrFull where there is none. Handles have what
// tokens leave them.
//
// The rows of a [Source] are elsewhere until somebody claims the token.
//
// Bytes that do not fit in memory are written to files of mode 0600 in a
// directory of this process, which are mapped into memory while somebody reads.
// They are removed when their artifact goes, and those of a process that died
// when the next one starts.
package artifact
