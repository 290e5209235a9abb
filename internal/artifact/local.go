package artifact

import (
	"container/heap"
	"container/list"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/s2sp/table"
)

// Local is a store inside the process: in memory, and in files of this process
// where there is no room.
type Local struct {
	opts  Options
	spill *folder       // nil: nowhere
	wake  chan struct{} // tells the janitor that the next due time is nearer than it thinks
	stop  chan struct{}
	done  chan struct{} // closed when the janitor has ended

	room   sync.Mutex // guards the two below; taken last
	memory int64
	disk   int64

	mu     sync.Mutex // guards below; never held while a file is read, written or removed
	closed bool
	spaces map[string]*space
	byAge  dueHeap   // items and tokens, the one that expires first on top
	items  int       // in byAge
	gone   list.List // of *tombstone, the oldest in front
	tokens map[[sha256.Size]byte]*token
	dead   []*content // taken out under mu, let go when it is released
}

var (
	_ Store  = (*Local)(nil)
	_ Tables = (*Local)(nil)
	_ Tokens = (*Local)(nil)
)

// space is what one principal holds.
type space struct {
	principal string
	items     map[string]*item
	recent    list.List                // of those with a handle, the most recently used in front
	bytes     int64                    // of all that are not beyond
	tokens    list.List                // of *token, the oldest in front
	gone      map[string]*list.Element // of *tombstone in Local.gone
	goneOrder list.List                // of *tombstone of this space, the oldest in front
}

func (sp *space) empty() bool { return len(sp.gone) == 0 && len(sp.items) == 0 && sp.tokens.Len() == 0 }

type item struct {
	Artifact
	content *content
	space   *space
	recent  *list.Element // nil: single
	tokens  map[*token]bool
	single  bool             // deposited for one token
	beyond  bool             // in files, and over the principal's bytes
	limited *table.Selection // all that is left of a source's rows; nil is all
	at      int              // in byAge
}

type tombstone struct {
	space  *space
	handle string
	kind   error
	at     time.Time
	order  *list.Element
}

// due is what expires.
type due interface {
	expiry() time.Time
	place() *int // its index in the heap
}

func (it *item) expiry() time.Time { return it.Expires }
func (it *item) place() *int       { return &it.at }

type dueHeap []due

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].expiry().Before(h[j].expiry()) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].place(), *h[j].place() = i, j
}

// Push and Pop are for container/heap.
func (h *dueHeap) Push(x any) {
	d := x.(due)
	*d.place() = len(*h)
	*h = append(*h, d)
}

func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return d
}

// NewMemory opens a store that keeps everything in memory: opts.Dir and
// opts.DefaultDir are not looked at. The caller must Close it.
func NewMemory(opts Options) *Local {
	opts.Dir, opts.DefaultDir = "", nil
	return newLocal(opts, nil)
}

// Open opens a store that spills to opts.Dir, or to opts.DefaultDir when it comes
// to that. What a process that died left there is removed. Without either it is
// NewMemory. The caller must Close it.
func Open(opts Options) (*Local, error) {
	switch {
	case opts.Dir != "":
		spill, err := openSpill(opts.Dir)
		if err != nil {
			return nil, err
		}
		return newLocal(opts, &folder{dir: spill}), nil
	case opts.DefaultDir != nil:
		return newLocal(opts, &folder{parent: opts.DefaultDir}), nil
	}
	return newLocal(opts, nil), nil
}

// Folder returns the private directory of this store, which other files of this
// process may be put into: Close removes it.
func (s *Local) Folder() (string, error) {
	if s.spill == nil {
		return "", errNoFolder
	}
	return s.spill.path()
}

func newLocal(opts Options, spill *folder) *Local {
	s := &Local{
		opts:   opts.withDefaults(),
		spill:  spill,
		wake:   make(chan struct{}, 1),
		stop:   make(chan struct{}),
		done:   make(chan struct{}),
		spaces: make(map[string]*space),
		tokens: make(map[[sha256.Size]byte]*token),
	}
	go s.janitor()
	return s
}

// handleOf is the handle of content: its hash, hashed once more under the
// principal's own secret, which is itself a keyed hash of the principal's name.
func (s *Local) handleOf(principal string, sum []byte) string {
	secret := hmac.New(sha256.New, s.opts.Secret)
	secret.Write([]byte("weir artifact principal\x00"))
	secret.Write([]byte(principal))
	mac := hmac.New(sha256.New, secret.Sum(nil))
	mac.Write(sum)
	return handlePrefix + handleEncoding.EncodeToString(mac.Sum(nil)[:16])
}

const handlePrefix = "art_"

var handleEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// unlock releases mu and then lets go of what was taken out.
func (s *Local) unlock() {
	dead := s.dead
	s.dead = nil
	s.mu.Unlock()
	for _, c := range dead {
		c.unlink()
		c.drop()
	}
}

func (s *Local) tooLarge(size int64) error {
	return &Error{Kind: ErrTooLarge, Detail: fmt.Sprintf(
		"no room for a result of %d bytes: at most %d are kept for one principal; raise %s", size, s.opts.MaxBytes, s.opts.Setting("max_bytes"))}
}

// Put implements Store.
func (s *Local) Put(ctx context.Context, principal, mediaType, label string, data []byte) (Artifact, error) {
	if err := ctx.Err(); err != nil {
		return Artifact{}, err
	}
	if int64(len(data)) > s.opts.MaxBytes {
		return Artifact{}, s.tooLarge(int64(len(data)))
	}
	sum := sha256.Sum256(data)
	a := Artifact{Handle: s.handleOf(principal, sum[:]), MediaType: bounded(mediaType), Label: bounded(label), SizeBytes: int64(len(data)), ContentHash: hex.EncodeToString(sum[:])}
	if known, ok, err := s.renew(principal, a); ok || err != nil {
		return known, err
	}
	c, err := s.newContent(data)
	if err != nil {
		return Artifact{}, err
	}
	return s.insert(principal, a, c)
}

// renew makes an artifact young again if it is there.
func (s *Local) renew(principal string, a Artifact) (Artifact, bool, error) {
	s.mu.Lock()
	defer s.unlock()
	if s.closed {
		return Artifact{}, false, ErrClosed
	}
	now := s.opts.Now()
	s.expire(now)
	sp := s.spaces[principal]
	if sp == nil || sp.items[a.Handle] == nil {
		return Artifact{}, false, nil
	}
	return s.touch(sp.items[a.Handle], a, now), true, nil
}

// touch starts an item's age anew. Callers hold mu.
func (s *Local) touch(it *item, a Artifact, now time.Time) Artifact {
	it.space.recent.MoveToFront(it.recent)
	it.MediaType, it.Label = a.MediaType, a.Label
	it.Created, it.Expires = now, now.Add(s.opts.TTL)
	heap.Fix(&s.byAge, it.at)
	return it.Artifact
}

// insert takes the caller's reference to c over.
func (s *Local) insert(principal string, a Artifact, c *content) (Artifact, error) {
	s.mu.Lock()
	defer s.unlock()
	now := s.opts.Now()
	if s.closed {
		s.dead = append(s.dead, c)
		return Artifact{}, ErrClosed
	}
	s.expire(now)
	sp := s.space(principal)
	if it := sp.items[a.Handle]; it != nil { // somebody was faster
		s.dead = append(s.dead, c)
		return s.touch(it, a, now), nil
	}
	if err := s.makeRoom(sp, a.SizeBytes, now); err != nil {
		s.dead = append(s.dead, c)
		s.release(sp)
		return Artifact{}, err
	}
	a.Created, a.Expires = now, now.Add(s.opts.TTL)
	it := &item{Artifact: a, content: c}
	it.recent = sp.recent.PushFront(it)
	s.add(sp, it)
	return it.Artifact, nil
}

// add keeps an item, for which there is room. Callers hold mu.
func (s *Local) add(sp *space, it *item) {
	s.spaces[sp.principal] = sp // making room may have taken it out
	it.space = sp
	sp.items[it.Handle] = it
	if !it.beyond {
		sp.bytes += it.SizeBytes
	}
	s.items++
	s.push(it)
	if e := sp.gone[it.Handle]; e != nil {
		s.forget(e)
	}
}

// push adds what will expire, and wakes the janitor if that is next. Callers
// hold mu.
func (s *Local) push(d due) {
	heap.Push(&s.byAge, d)
	if *d.place() == 0 {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// bounded copies s, so that nothing larger stays alive for it, and cuts it.
func bounded(s string) string {
	if len(s) > maxLabel {
		return strings.ToValidUTF8(s[:maxLabel], "")
	}
	return strings.Clone(s)
}

// Get implements Store. Bytes in a file are copied; Open does without.
func (s *Local) Get(ctx context.Context, principal, handle string) (Artifact, []byte, error) {
	l, err := s.Open(ctx, principal, handle)
	if err != nil {
		return Artifact{}, nil, err
	}
	defer l.Close()
	data := l.Bytes()
	if l.c.file != "" {
		data = append(make([]byte, 0, len(data)), data...)
	}
	return l.Artifact, data, nil
}

// Open implements Tables.
func (s *Local) Open(ctx context.Context, principal, handle string) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a, c, err := s.find(principal, handle)
	if err != nil {
		return nil, err
	}
	return newLease(a, c)
}

// find returns an artifact's content, held for the caller.
func (s *Local) find(principal, handle string) (Artifact, *content, error) {
	s.mu.Lock()
	defer s.unlock()
	it, err := s.lookup(principal, handle)
	if err != nil {
		return Artifact{}, nil, err
	}
	it.space.recent.MoveToFront(it.recent)
	it.content.hold()
	return it.Artifact, it.content, nil
}

// lookup finds an item, or says what became of it. Callers hold mu.
func (s *Local) lookup(principal, handle string) (*item, error) {
	if s.closed {
		return nil, ErrClosed
	}
	s.expire(s.opts.Now())
	sp := s.spaces[principal]
	if sp == nil {
		return nil, unknownError(handle)
	}
	if it := sp.items[handle]; it != nil && !it.single {
		return it, nil
	}
	e := sp.gone[handle]
	if e == nil {
		return nil, unknownError(handle)
	}
	if e.Value.(*tombstone).kind == ErrExpired {
		return nil, &Error{Kind: ErrExpired, Handle: handle, Detail: fmt.Sprintf(
			"the artifact %s has expired: results are kept for %s (%s); run the tool again to get a new one", handle, s.opts.TTL, s.opts.Setting("ttl"))}
	}
	return nil, &Error{Kind: ErrEvicted, Handle: handle, Detail: fmt.Sprintf(
		"the artifact %s made room for newer ones: %d artifacts and %d bytes are kept for a principal (%s, %s); run the tool again",
		handle, s.opts.MaxCount, s.opts.MaxBytes, s.opts.Setting("max_count"), s.opts.Setting("max_bytes"))}
}

// Usage implements Store.
func (s *Local) Usage(principal string) Usage {
	s.mu.Lock()
	defer s.unlock()
	if !s.closed {
		s.expire(s.opts.Now())
	}
	sp := s.spaces[principal]
	if sp == nil {
		return Usage{}
	}
	return Usage{Count: len(sp.items), Bytes: sp.bytes}
}

// Totals says what the store holds now. What expired or was evicted counts for
// as long as somebody reads it.
func (s *Local) Totals() Totals {
	s.mu.Lock()
	if !s.closed {
		s.expire(s.opts.Now())
	}
	t := Totals{Count: s.items, Tokens: len(s.tokens)}
	s.unlock()
	s.room.Lock()
	defer s.room.Unlock()
	t.MemoryBytes, t.DiskBytes = s.memory, s.disk
	return t
}

// Close implements Store. Leases that are open may be read on.
func (s *Local) Close() error {
	s.mu.Lock()
	first := !s.closed
	if first {
		s.closed = true
		for _, sp := range s.spaces {
			for _, it := range sp.items {
				s.dead = append(s.dead, it.content)
			}
		}
		s.spaces, s.tokens, s.byAge, s.items = nil, nil, nil, 0
		s.gone.Init()
		close(s.stop)
	}
	s.unlock()
	<-s.done
	if first && s.spill != nil {
		return s.spill.close()
	}
	return nil
}

// janitor removes what is due, whether or not anybody calls. It ends on Close,
// which waits for it.
func (s *Local) janitor() {
	defer close(s.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.mu.Lock()
		next := time.Hour
		if !s.closed {
			now := s.opts.Now()
			s.expire(now)
			if len(s.byAge) > 0 {
				next = min(next, s.byAge[0].expiry().Sub(now))
			}
			if e := s.gone.Front(); e != nil {
				next = min(next, e.Value.(*tombstone).at.Add(goneFor).Sub(now))
			}
		}
		s.unlock()
		timer.Reset(max(next, time.Millisecond))
		select {
		case <-timer.C:
		case <-s.wake:
		case <-s.stop:
			return
		}
	}
}

// expire removes artifacts, tokens and tombstones whose time is over. Callers
// hold mu.
func (s *Local) expire(now time.Time) {
	for len(s.byAge) > 0 && !s.byAge[0].expiry().After(now) {
		switch d := s.byAge[0].(type) {
		case *item:
			s.remove(d, ErrExpired, now)
		case *token:
			s.revoke(d, now)
		}
	}
	for e := s.gone.Front(); e != nil && !e.Value.(*tombstone).at.Add(goneFor).After(now); e = s.gone.Front() {
		s.forget(e)
	}
}

func (s *Local) space(principal string) *space {
	sp := s.spaces[principal]
	if sp == nil {
		sp = &space{principal: strings.Clone(principal), items: make(map[string]*item), gone: make(map[string]*list.Element)}
		s.spaces[sp.principal] = sp
	}
	return sp
}

// remove takes it out, with its tokens, and remembers why. Callers hold mu.
func (s *Local) remove(it *item, kind error, now time.Time) {
	sp := it.space
	if sp.items[it.Handle] != it {
		return // removed with its last token
	}
	delete(sp.items, it.Handle)
	if !it.beyond {
		sp.bytes -= it.SizeBytes
	}
	if it.recent != nil {
		sp.recent.Remove(it.recent)
	}
	heap.Remove(&s.byAge, it.at)
	s.items--
	s.dead = append(s.dead, it.content)
	if !it.single { // of those nobody knows the handle
		t := &tombstone{space: sp, handle: it.Handle, kind: kind, at: now}
		t.order = sp.goneOrder.PushBack(t)
		sp.gone[it.Handle] = s.gone.PushBack(t)
	}
	for t := range it.tokens {
		s.revoke(t, now)
	}
	s.release(sp)
	for sp.goneOrder.Len() > maxGone {
		s.forget(sp.gone[sp.goneOrder.Front().Value.(*tombstone).handle])
	}
}

// forget drops a tombstone. Callers hold mu.
func (s *Local) forget(e *list.Element) {
	t := s.gone.Remove(e).(*tombstone)
	sp := t.space
	sp.goneOrder.Remove(t.order)
	delete(sp.gone, t.handle)
	s.release(sp)
}

// release drops a principal's space when nothing is left in it. Callers hold mu.
func (s *Local) release(sp *space) {
	if sp.empty() && s.spaces[sp.principal] == sp {
		delete(s.spaces, sp.principal)
	}
}
