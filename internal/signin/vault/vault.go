package vault

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Bounds of a store.
const (
	maxData    = 256 << 10 // bytes of one record
	maxText    = 2048      // bytes of a principal, a server or an issuer
	maxRecords = 20_000
)

// Errors of a store.
var (
	// ErrMissing says that there is no record.
	ErrMissing = errors.New("no such credential")
	// ErrChanged says that a record is not the expected one: read it again.
	ErrChanged = errors.New("the credential was changed meanwhile")
	// ErrClosed says that no key opens a record.
	ErrClosed = errors.New("no key of credentials.keys opens it")
)

// Kind is the kind of a record.
type Kind string

// The kinds.
const (
	Token  Kind = "token"  // the grant of a principal at a server
	Text   Kind = "text"   // the credential of a principal under a name, which stands in Server
	Client Kind = "client" // a registration at an issuer, without principal and server
)

// ID names a record.
type ID struct {
	Kind      Kind   `json:"kind"`
	Principal string `json:"principal,omitempty"`
	Server    string `json:"server,omitempty"`
	Issuer    string `json:"issuer,omitempty"` // of a Client; "" for a Token, whose Record has it
}

// Record is the content of a credential. The zero Record stands for none.
type Record struct {
	Issuer string // which issued the data; it is authenticated with them
	Data   []byte
}

// none reports whether the record stands for no record.
func (r Record) none() bool { return r.Issuer == "" && r.Data == nil }

func (r Record) equal(other Record) bool {
	return r.none() == other.none() && r.Issuer == other.Issuer && bytes.Equal(r.Data, other.Data)
}

// String hides the data.
func (r Record) String() string { return "credential of " + r.Issuer }

// GoString hides the data.
func (r Record) GoString() string { return r.String() }

// Entry describes a record without its data.
type Entry struct {
	ID
	IssuedBy string
	Changed  time.Time
}

// Store keeps records. All methods may be called concurrently, also by other processes if the store
// is shared with them. Callers own the data that Get returns; a store does not keep the arguments
// of Swap.
type Store interface {
	// Get returns a record. The error wraps ErrMissing if there is none, and ErrClosed if no key
	// opens it.
	Get(ctx context.Context, id ID) (Record, error)
	// Swap replaces the record old with new. A zero old means that there must be no record. If the
	// record is another one, Swap changes nothing and the error wraps ErrChanged.
	Swap(ctx context.Context, id ID, old, new Record) error
	// Delete removes a record, also one that no key opens. The error wraps ErrMissing if there is
	// none.
	Delete(ctx context.Context, id ID) error
	// List describes all records, ordered by kind, server, principal and issuer.
	List(ctx context.Context) ([]Entry, error)
	// Lock waits until only the caller works on a record, and returns the function that ends that.
	// It does not hinder the other methods.
	Lock(ctx context.Context, id ID) (unlock func(), err error)
}

// check returns the mistake in the id and the record of a Swap.
func check(id ID, r Record) error {
	switch {
	case id.Kind != Token && id.Kind != Text && id.Kind != Client:
		return fmt.Errorf("%q is no kind of credential", id.Kind)
	case len(id.Principal) > maxText, len(id.Server) > maxText, len(id.Issuer) > maxText, len(r.Issuer) > maxText:
		return fmt.Errorf("a principal, a server or an issuer has more than %d bytes", maxText)
	case r.none():
		return errors.New("an empty credential cannot be stored")
	case len(r.Data) > maxData:
		return fmt.Errorf("the credential has %d bytes; at most %d are kept", len(r.Data), maxData)
	}
	return nil
}

// full is the error of a store that takes no further records.
func full() error {
	return fmt.Errorf("the store has %d credentials already; remove some with: weir logout", maxRecords)
}

func compare(a, b Entry) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Server, b.Server), cmp.Compare(a.Principal, b.Principal), cmp.Compare(a.Issuer, b.Issuer))
}
