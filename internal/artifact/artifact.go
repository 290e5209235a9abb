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

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-mcp/weir/s2sp/table"
)

// Artifact describes what is stored under a handle. Its JSON is the form in
// which a result envelope lists it.
type Artifact struct {
	Handle      string    `json:"handle"`
	MediaType   string    `json:"media_type"`
	SizeBytes   int64     `json:"size_bytes"`
	Label       string    `json:"label"`
	ContentHash string    `json:"content_hash"` // SHA-256 of the bytes, hexadecimal
	Created     time.Time `json:"-"`
	Expires     time.Time `json:"-"`
}

// Usage is what one principal holds at a moment. Bytes is the exact sum of
// SizeBytes over its artifacts.
type Usage struct {
	Count int
	Bytes int64
}

// Store keeps artifacts. All methods may be called concurrently.
type Store interface {
	// Put stores a copy of data for principal and returns its description. The
	// caller keeps data. Putting bytes that are there already gives the same
	// handle, takes over the media type and the label, and starts the age
	// anew. It fails with ErrTooLarge where data alone is over the principal's
	// bound, with ErrFull where unspent tokens leave no room for it, and with
	// ErrClosed after Close.
	Put(ctx context.Context, principal, mediaType, label string, data []byte) (Artifact, error)

	// Get returns what principal stored under handle. The bytes are shared and
	// must not be changed. The error is an *Error of kind ErrExpired,
	// ErrEvicted or ErrUnknown, or ErrClosed after Close.
	Get(ctx context.Context, principal, handle string) (Artifact, []byte, error)

	// Usage says what principal holds now, expired artifacts not counted.
	Usage(principal string) Usage

	// Close drops everything and waits until the store's own goroutine has
	// ended. It may be called more than once.
	Close() error
}

// Tables is what a store that holds tables adds to Store. All methods may be
// called concurrently.
type Tables interface {
	// Open gives access to an artifact without copying it. The caller must Close
	// the lease. Errors are those of Get.
	Open(ctx context.Context, principal, handle string) (*Lease, error)

	// NewTable begins an artifact of rows that come one after the other. The
	// caller must end it with Commit, Deposit or Abort.
	NewTable(principal, label string, opts table.Options) *TableWriter
}

// Tokens gives bytes to whoever has a token. All methods may be called
// concurrently.
type Tokens interface {
	// Deposit keeps t for one token and nothing else, until the token is spent or
	// expires. The store takes t over: its segments must not change any more. A
	// ttl of 0 is Options.TokenTTL. It fails with ErrFull where there is no room
	// that may be taken, and with ErrTooLarge where there can never be any.
	Deposit(ctx context.Context, principal, label string, t *table.Table, ttl time.Duration) (Token, error)

	// Offer makes a token for an artifact that principal holds. The artifact stays
	// at least as long as the token, and stays when it is spent. Errors are those
	// of Get, and ErrFull where the principal has too many tokens.
	Offer(ctx context.Context, principal, handle string, ttl time.Duration) (Token, error)

	// Check returns the error that Claim would return now, nil where it would
	// find the token. It takes nothing, so that a caller can refuse a stranger
	// before it reads what the stranger sends.
	Check(token string) error

	// Claim takes a token for the caller alone. It fails with ErrToken if there
	// is no such token, whether it never was, was spent, has expired or is
	// claimed now. The caller must Close the claim.
	Claim(ctx context.Context, token string) (*Claim, error)
}

// Token lets its holder fetch an artifact once. Value has 256 random bits.
type Token struct {
	Value   string
	Expires time.Time
}

// Totals is what a store holds of all principals. The sums are exact: bytes of
// artifacts and of the indexes over tables, where they are.
type Totals struct {
	Count       int
	Tokens      int
	MemoryBytes int64
	DiskBytes   int64
}

// Kinds of errors a Store returns. Compare with errors.Is.
var (
	// ErrUnknown: this principal never had the handle, or had it too long ago
	// to remember.
	ErrUnknown = errors.New("unknown artifact")
	// ErrExpired: the artifact was there and its time is over.
	ErrExpired = errors.New("expired artifact")
	// ErrEvicted: the artifact was there and made room for newer ones.
	ErrEvicted = errors.New("evicted artifact")
	// ErrTooLarge: one artifact is larger than all a principal may keep.
	ErrTooLarge = errors.New("artifact too large")
	// ErrFull: there is no room for an artifact or a token that could be taken.
	ErrFull = errors.New("artifact store is full")
	// ErrToken: a token that cannot be claimed, for whatever reason.
	ErrToken = errors.New("unknown or expired token")
	// ErrClosed: the store is closed.
	ErrClosed = errors.New("artifact store is closed")
)

// Error says which artifact a call was about, what became of it and what to do.
type Error struct {
	Kind   error  // one of the Err values of this package
	Handle string // empty for ErrTooLarge
	Detail string // the sentence a user reads
}

// Error returns the sentence a user reads.
func (e *Error) Error() string { return e.Detail }

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

func unknownError(handle string) error {
	return &Error{Kind: ErrUnknown, Handle: handle,
		Detail: fmt.Sprintf("no artifact has the handle %q here; a handle works only for the principal whose call made it", handle)}
}
