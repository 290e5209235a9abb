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
