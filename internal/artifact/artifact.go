package artifact

import (
	"context"
	"errors"
	"time"

	"github.com/weir-mcp/weir/s2sp/table"
)

// Artifact describes the bytes stored under a handle. A result envelope lists it as JSON.
type Artifact struct {
	Handle      string `json:"handle"`
	MediaType   string `json:"media_type"`
	SizeBytes   int64  `json:"size_bytes"`
	Label       string `json:"label"`
	ContentHash string `json:"content_hash"` // SHA-256 of the bytes, hexadecimal
	// Mark says where the bytes come from; the store does not look into it. The same bytes with another mark are
	// another artifact.
	Mark    string    `json:"-"`
	Created time.Time `json:"-"`
	Expires time.Time `json:"-"`
}

// Usage is the current use of one principal. Bytes is the exact sum of SizeBytes over its
// artifacts.
type Usage struct {
	Count int
	Bytes int64
}

// Tokens gives access to bytes by token, regardless of the principal. All methods may be called
// concurrently.
type Tokens interface {
	// Deposit stores t for one token and nothing else, until the token is spent or expires. The
	// store takes t over: its segments must not change any more. A ttl of 0 means Options.TokenTTL.
	// Deposit fails with ErrFull if there is no room, and with ErrTooLarge if there can never be
	// any.
	Deposit(ctx context.Context, principal, label string, t *table.Table, ttl time.Duration) (Token, error)

	// Offer makes a token for an artifact of principal. The artifact is kept at least as long as
	// the token, and also after the token is spent. It returns the errors of Get, and ErrFull if
	// the principal has too many tokens.
	Offer(ctx context.Context, principal, handle string, ttl time.Duration) (Token, error)

	// Check returns the error that Claim would return now, or nil. It does not claim the token, so
	// that a caller can refuse a request before it reads the body.
	Check(token string) error

	// Claim takes a token for only this caller. It fails with ErrToken if the token never existed,
	// was spent, has expired or is claimed now. The caller must Close the claim.
	Claim(ctx context.Context, token string) (*Claim, error)
}

// Token lets its holder fetch an artifact once. Value has 256 random bits.
type Token struct {
	Value   string
	Expires time.Time
}

// Totals is the use of all principals together. The sums are exact: bytes of artifacts and of the
// indexes over tables, in memory and in files.
type Totals struct {
	Count       int
	Tokens      int
	MemoryBytes int64
	DiskBytes   int64
}

// Kinds of errors a Store returns. Compare with errors.Is.
var (
	// ErrUnknown: this principal never had the handle, or had it too long ago.
	ErrUnknown = errors.New("unknown artifact")
	// ErrExpired: the artifact existed and has expired.
	ErrExpired = errors.New("expired artifact")
	// ErrEvicted: the artifact existed and was removed for newer ones.
	ErrEvicted = errors.New("evicted artifact")
	// ErrTooLarge: one artifact exceeds the bound of a principal.
	ErrTooLarge = errors.New("artifact too large")
	// ErrFull: there is no room for an artifact or a token.
	ErrFull = errors.New("artifact store is full")
	// ErrToken: a token cannot be claimed, for any reason.
	ErrToken = errors.New("unknown or expired token")
	// ErrClosed: the store is closed.
	ErrClosed = errors.New("artifact store is closed")
)

// Error names the artifact of a call, the reason and the fix.
type Error struct {
	Kind   error  // one of the Err values of this package
	Handle string // empty for ErrTooLarge
	Detail string // the sentence a user reads
}

// Error returns the sentence a user reads.
func (e *Error) Error() string { return e.Detail }

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }
