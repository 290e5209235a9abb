package store

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/seal"
)

// MaxValue bounds the value of one document, unless the store says otherwise.
const MaxValue = 512 << 10

// MinTTL is the shortest life of a document that ends by itself.
const MinTTL = time.Second

// maxKey bounds a key.
const maxKey = 256

// Doc is a document as it was read. A Rev of 0 says that there is none with the key.
type Doc struct {
	Key   string
	Rev   uint64
	Value []byte
}

// Docs keeps documents. All methods may be called concurrently. Values belong to the caller of Set
// until it returns, and to the caller of Get and List for good.
type Docs interface {
	// Get returns the newest state of a document. One that is not there is no error: its Rev is 0.
	Get(ctx context.Context, key string) (Doc, error)
	// Set writes a document over the revision rev, and returns the new one; 0 says that it must not
	// be there. When Set returns nil, the document is kept as the store promises. After ttl the
	// document is gone; 0 keeps it for good, and less than MinTTL counts as that.
	Set(ctx context.Context, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error)
	// Delete removes a document of revision rev.
	Delete(ctx context.Context, key string, rev uint64) error
	// List yields the documents whose keys start with a prefix, which ends with a dot, in no order.
	// It yields documents that change meanwhile once, and ends with the first error.
	List(ctx context.Context, prefix string) iter.Seq2[Doc, error]
	// Follow calls f with the state of a key, or with the documents of a prefix, before it returns,
	// and afterwards with each that has changed. A document without a revision is not there: Follow
	// says so of a key at the beginning, and of every document that goes. f sees newer and newer
	// states of a document and may miss some of them; the last one reaches it, at the latest a minute
	// after a loss. Calls of f do not overlap. f must return at once, must not call methods of the
	// store, and owns the values. f may be running when stop returns, and is not called afterwards.
	Follow(keyOrPrefix string, f func(Doc)) (stop func(), err error)
}

// Store is where a gateway keeps what is more than one request. There is always one. All methods may be called concurrently.
type Store interface {
	Docs
	// Blobs keeps copies of what would end with a process of several. It is NoBlobs where no copies are wanted.
	Blobs() Blobs
	// Bus carries messages between the processes that share the store.
	Bus() Bus
	// Key seals what the gateway gives away. It lasts as long as the documents.
	Key() *seal.Key
	Lasts() Lasts
	// Close ends the store. Changes that were confirmed stay, as Lasts says.
	Close()
}

// Lasts says what a store outlasts. Texts depend on it, and what a gateway does does not.
type Lasts uint8

// The values of Lasts.
const (
	Process Lasts = iota // nothing: documents end with the process
	Machine              // the process, and no other process uses it
	Cluster              // any process of several
)

var (
	// ErrConflict says that the document has another revision than the one that a change named.
	ErrConflict = errors.New("the document has changed")
	// ErrFull says that the store has no room for the document.
	ErrFull = errors.New("the store is full")
	// ErrUnavailable says that the store has not answered. A change may have been applied: its
	// caller reads the document and looks for the change.
	ErrUnavailable = errors.New("the store does not answer")
	// ErrNobody says that no listener exists for the subject of a question.
	ErrNobody = errors.New("no listener for the subject")
)

// Remedy says what mends an error of a store, for a message.
func Remedy(err error) string {
	if errors.Is(err, ErrFull) {
		return "the operator raises store.max_bytes"
	}
	return "try again"
}

var encoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// Hash returns the part of a key that stands for a name, whatever characters the name has. A name
// can be a secret: the hash does not tell it.
func Hash(name string) string {
	sum := sha256.Sum256([]byte(name))
	return strings.ToLower(encoding.EncodeToString(sum[:])[:26])
}

// CheckKey returns an error for what no implementation takes as a key: tokens of letters, digits,
// "-" and "_" with dots in between. A prefix ends with a dot.
func CheckKey(key string, prefix bool) error {
	rest := key
	if prefix {
		var dot bool
		if rest, dot = strings.CutSuffix(key, "."); !dot {
			return fmt.Errorf("store: the prefix %.60q does not end with a dot", key)
		}
	}
	if len(key) > maxKey {
		return fmt.Errorf("store: the key %.60q… has more than %d bytes", key, maxKey)
	}
	for token := range strings.SplitSeq(rest, ".") {
		if token == "" || strings.ContainsFunc(token, wrong) {
			return fmt.Errorf("store: %.60q is no key: tokens of letters, digits, - and _ with dots in between", key)
		}
	}
	return nil
}

func wrong(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
}

// CheckSet returns an error for a change that no implementation makes.
func CheckSet(key string, value []byte) error { return checkSet(key, value, MaxValue) }

func checkSet(key string, value []byte, most int) error {
	if len(value) > most {
		return fmt.Errorf("store: the value of %.60q has %d bytes, more than %d: %w", key, len(value), most, ErrFull)
	}
	return CheckKey(key, false)
}

// CheckFollow returns an error for what cannot be followed: neither key nor prefix.
func CheckFollow(keyOrPrefix string) error {
	return CheckKey(keyOrPrefix, strings.HasSuffix(keyOrPrefix, "."))
}
