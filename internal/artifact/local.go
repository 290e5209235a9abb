package artifact

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/weir-mcp/weir/s2sp/table"
)

// Local is a store inside the process: in memory, and in files where memory is taken. All methods
// may be called concurrently.
type Local struct {
	opts   *Options
	budget *budget
	ledger *ledger
	stop   chan struct{} // ends the janitor
	done   chan struct{} // closed when the janitor has ended
	// bringing bounds the artifacts that are brought from other nodes at a time.
	bringing chan struct{}
}

var _ Tokens = (*Local)(nil)

// NewMemory opens a store that keeps everything in memory. It ignores opts.Dir, opts.DefaultDir and
// opts.Shelf. The caller must Close it.
func NewMemory(opts Options) *Local {
	opts.Dir, opts.DefaultDir, opts.Shelf = "", nil, nil
	return newLocal(opts, nil)
}

// Open opens a store that spills to opts.Dir, or to opts.DefaultDir as soon as memory is taken. It
// removes the files of processes that died, and restores the artifacts that opts.Shelf has of an
// earlier one. Without any of them it is NewMemory. The caller must Close the store.
func Open(opts Options) (*Local, error) {
	switch {
	case opts.Dir != "":
		spill, err := openSpill(opts.Dir)
		if err != nil {
			return nil, err
		}
		return open(opts, &folder{dir: spill})
	case opts.DefaultDir != nil:
		return open(opts, &folder{parent: opts.DefaultDir})
	}
	return open(opts, nil)
}

// open returns a store with the artifacts that an earlier process has kept.
func open(opts Options, spill *folder) (*Local, error) {
	s := newLocal(opts, spill)
	if s.opts.Shelf == nil {
		return s, nil
	}
	if err := s.restore(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func newLocal(o Options, spill *folder) *Local {
	opts := o.withDefaults()
	s := &Local{
		opts:   &opts,
		budget: &budget{opts: &opts, spill: spill},
		ledger: newLedger(&opts),
		stop:   make(chan struct{}),
		done:   make(chan struct{}),

		bringing: make(chan struct{}, maxBringing),
	}
	go func() {
		defer close(s.done)
		s.ledger.janitor(s.stop)
	}()
	return s
}

// maxBringing is how many artifacts are brought from other nodes at a time. Each is in memory whole.
const maxBringing = 4

// Folder returns the private directory of this store. The caller may put other files of this process
// there: Close removes it.
func (s *Local) Folder() (string, error) {
	if s.budget.spill == nil {
		return "", errNoFolder
	}
	return s.budget.spill.path()
}

// handleOf returns the handle of content: its hash, hashed once more under the principal's own
// secret, which is itself a keyed hash of the principal's name. A place other than "" is in the hash.
// In a cluster the INC of the node is in front.
func (o *Options) handleOf(by owner, mark string, sum []byte) string {
	secret := hmac.New(sha256.New, o.Secret)
	secret.Write([]byte("weir artifact principal\x00"))
	secret.Write([]byte(by.principal))
	mac := hmac.New(sha256.New, secret.Sum(nil))
	mac.Write(sum) // of a fixed length
	mac.Write([]byte(by.place))
	if mark != "" {
		mac.Write([]byte{0})
		mac.Write([]byte(mark))
	}
	inc := o.Nodes.Inc()
	return handlePrefix + inc + handleEncoding.EncodeToString(mac.Sum(nil))[:handleChars]
}

// A handle has 60 bits behind its prefix: models copy it, so it is short. It opens nothing outside
// the space of its principal. That two contents of one principal share a handle is an error of Put.
const (
	handlePrefix = "art_"
	handleChars  = 12
)

// handleTaken is the error for a content whose handle stands for another one.
func handleTaken(handle string) error {
	return fmt.Errorf("another artifact has the handle %s; this content cannot be kept", handle)
}

var handleEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Put stores a copy of data for principal and returns its description. The caller keeps data. If
// the bytes are there already, the handle is the same, the media type and the label are replaced,
// and the age starts again.
//
// It fails with ErrTooLarge if data by itself is over the principal's bound, with ErrFull if
// unspent tokens leave no room, and with ErrClosed after Close.
func (s *Local) Put(ctx context.Context, principal, mediaType, label string, data []byte) (Artifact, error) {
	return s.put(ctx, owner{principal: principal}, "", mediaType, label, data, nil)
}

// put is Put for an owner. digest is the digest of data; nil if it has not started.
func (s *Local) put(ctx context.Context, by owner, mark, mediaType, label string, data []byte, digest *Digest) (Artifact, error) {
	if err := ctx.Err(); err != nil {
		return Artifact{}, err
	}
	if int64(len(data)) > s.opts.MaxBytes {
		return Artifact{}, s.opts.tooLarge(int64(len(data)))
	}
	var sum [sha256.Size]byte
	if digest != nil {
		sum = digest.Sum()
	} else {
		sum = sha256.Sum256(data)
	}
	a := Artifact{Handle: s.opts.handleOf(by, mark, sum[:]), Mark: mark, MediaType: bounded(mediaType), Label: bounded(label), SizeBytes: int64(len(data)), ContentHash: hex.EncodeToString(sum[:])}
	known, it, err := s.renew(by.principal, a)
	if err != nil {
		return Artifact{}, err
	}
	if it != nil && s.sound(it) {
		s.back(it)
		return known, s.confirm(it)
	}
	c, err := s.budget.newContent(data, digest != nil && digest.Lasts)
	if err != nil {
		return Artifact{}, err
	}
	if digest != nil {
		c.counted = digest.Rows
	}
	return s.keep(by, a, c)
}

// keep adds an artifact with a handle, so that it lasts as the store promises. It takes over the
// caller's reference to c.
func (s *Local) keep(by owner, a Artifact, c *content) (Artifact, error) {
	a, it, err := s.insert(by, a, c)
	if err == nil {
		err = s.confirm(it)
	}
	if err != nil {
		return Artifact{}, err
	}
	s.back(it)
	return a, nil
}

// renew starts the age of an artifact again. The item is nil if there is no such artifact.
func (s *Local) renew(principal string, a Artifact) (Artifact, *item, error) {
	now, err := s.ledger.lock()
	defer s.ledger.unlock()
	if err != nil {
		return Artifact{}, nil, err
	}
	sp := s.ledger.spaces[principal]
	if sp == nil || sp.items[a.Handle] == nil {
		return Artifact{}, nil, nil
	}
	it := sp.items[a.Handle]
	if it.ContentHash != a.ContentHash {
		return Artifact{}, nil, handleTaken(a.Handle)
	}
	return s.ledger.touch(it, a, now), it, nil
}

// insert adds an artifact to the ledger. It takes over the caller's reference to c.
func (s *Local) insert(by owner, a Artifact, c *content) (Artifact, *item, error) {
	l := s.ledger
	now, err := l.lock()
	defer l.unlock()
	if err != nil {
		l.dead = append(l.dead, c)
		return Artifact{}, nil, err
	}
	sp := l.space(by.principal)
	if it := sp.items[a.Handle]; it != nil { // another call has put the same bytes meanwhile
		l.dead = append(l.dead, c)
		if it.ContentHash != a.ContentHash {
			return Artifact{}, nil, handleTaken(a.Handle)
		}
		return l.touch(it, a, now), it, nil
	}
	if err := l.makeRoom(sp, a.SizeBytes, now); err != nil {
		l.dead = append(l.dead, c)
		l.release(sp)
		return Artifact{}, nil, err
	}
	a.Created, a.Expires = now, now.Add(s.opts.TTL)
	it := &item{Artifact: a, content: c, home: strings.Clone(by.place)}
	it.recent = sp.recent.PushFront(it)
	l.add(sp, it)
	return it.Artifact, it, nil
}

// bounded cuts s to maxLabel bytes and copies it, so that no larger string stays in memory for it.
func bounded(s string) string {
	if len(s) > maxLabel {
		return strings.ToValidUTF8(s[:maxLabel], "")
	}
	return strings.Clone(s)
}

// Get returns the artifact that principal stored under handle. The bytes are shared and must not be
// changed. Those in a file are copied; Open does not copy them. The error is an *Error of kind
// ErrExpired, ErrEvicted or ErrUnknown, or ErrClosed after Close.
func (s *Local) Get(ctx context.Context, principal, handle string) (Artifact, []byte, error) {
	l, err := s.Open(ctx, principal, handle)
	if err != nil {
		return Artifact{}, nil, err
	}
	defer l.Close()
	data, err := l.Bytes(ctx)
	if l.c.file != "" {
		data = append(make([]byte, 0, len(data)), data...)
	}
	return l.Artifact, data, err
}

// Open gives access to an artifact without copying it. The caller must Close the lease. It returns
// the errors of Get.
func (s *Local) Open(ctx context.Context, principal, handle string) (*Lease, error) {
	return s.open(ctx, owner{principal: principal}, handle)
}

func (s *Local) open(ctx context.Context, by owner, handle string) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	it, a, c, err := s.find(by, handle)
	if inc := s.opts.Nodes.foreign(handle, err); inc != "" {
		if err := s.bring(ctx, by, inc, handle); err != nil {
			return nil, err
		}
		it, a, c, err = s.find(by, handle)
	}
	if err != nil {
		return nil, err
	}
	l, err := newLease(a, c)
	if lost(err) {
		s.discard(it)
		err = damaged(handle)
	}
	return l, err
}

// find returns an artifact and its content with a reference for the caller.
func (s *Local) find(by owner, handle string) (*item, Artifact, *content, error) {
	_, err := s.ledger.lock()
	defer s.ledger.unlock()
	if err != nil {
		return nil, Artifact{}, nil, err
	}
	it, err := s.ledger.lookup(by, handle)
	if err != nil {
		return nil, Artifact{}, nil, err
	}
	it.space.recent.MoveToFront(it.recent)
	it.content.hold()
	return it, it.Artifact, it.content, nil
}

// NewTable starts an artifact of rows that come one after the other. The caller must end it with
// Commit, Deposit or Abort.
func (s *Local) NewTable(principal, label string, opts table.Options) *TableWriter {
	w := &TableWriter{s: s, principal: principal, label: bounded(label), sum: sha256.New()}
	w.b = table.NewBuilder(opts, w.keep)
	return w
}

// Usage returns the present usage of a principal, without expired artifacts.
func (s *Local) Usage(principal string) Usage {
	_, _ = s.ledger.lock() // a closed store holds nothing
	defer s.ledger.unlock()
	sp := s.ledger.spaces[principal]
	if sp == nil {
		return Usage{}
	}
	return Usage{Count: len(sp.items), Bytes: sp.bytes}
}

// UsageOfAll returns the present usage of all principals together, without expired artifacts.
func (s *Local) UsageOfAll() (all Usage) {
	_, _ = s.ledger.lock() // a closed store holds nothing
	defer s.ledger.unlock()
	for _, sp := range s.ledger.spaces {
		all.Count += len(sp.items)
		all.Bytes += sp.bytes
	}
	return all
}

// Totals returns the present totals of the store. Expired and evicted artifacts count as long as a
// lease or a claim of them is open.
func (s *Local) Totals() Totals {
	_, _ = s.ledger.lock() // a closed store holds nothing
	t := Totals{Count: s.ledger.items, Tokens: len(s.ledger.tokens)}
	s.ledger.unlock()
	t.MemoryBytes, t.DiskBytes = s.budget.totals()
	return t
}

// Close removes everything that is not for the next process, and waits until the store's own goroutine has ended. Open leases stay
// readable. It may be called more than once.
func (s *Local) Close() error {
	first := s.ledger.close()
	if first {
		close(s.stop)
	}
	<-s.done
	if first && s.budget.spill != nil {
		return s.budget.spill.close()
	}
	return nil
}
