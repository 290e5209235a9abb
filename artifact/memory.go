package artifact

import (
	"container/list"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Defaults of Options.
const (
	DefaultTTL      = time.Hour
	DefaultMaxBytes = 64 << 20
	DefaultMaxCount = 256

	// maxGone bounds how many handles of gone artifacts a principal's space
	// remembers, and goneFor for how long, so that "expired" and "unknown" can
	// be told apart.
	maxGone = 1024
	goneFor = 24 * time.Hour

	maxLabel = 200 // bytes of a label or a media type
)

// Options bounds a store. The zero value takes the defaults.
type Options struct {
	TTL      time.Duration    // age at which an artifact goes; 0 is DefaultTTL
	MaxBytes int64            // bytes a principal may hold; 0 is DefaultMaxBytes
	MaxCount int              // artifacts a principal may hold; 0 is DefaultMaxCount
	Secret   []byte           // from which each principal's secret is derived; empty is a random one for this store
	Now      func() time.Time // the clock; nil is time.Now
}

func (o Options) withDefaults() Options {
	if o.TTL <= 0 {
		o.TTL = DefaultTTL
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxCount <= 0 {
		o.MaxCount = DefaultMaxCount
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if len(o.Secret) == 0 {
		o.Secret = make([]byte, 32)
		rand.Read(o.Secret) // never fails: crypto/rand ends the program instead
	}
	return o
}

// Memory is a Store inside the process.
type Memory struct {
	opts Options
	wake chan struct{} // tells the janitor that the next due time is nearer than it thinks
	stop chan struct{}
	done chan struct{} // closed when the janitor has ended

	mu     sync.Mutex // guards below
	closed bool
	spaces map[string]*space
	byAge  list.List // of *item, the one that expires first in front
	gone   list.List // of *tombstone, the oldest in front
}

var _ Store = (*Memory)(nil)

// space is what one principal holds.
type space struct {
	principal string
	items     map[string]*item
	recent    list.List // of *item, the most recently used in front
	bytes     int64
	gone      map[string]*list.Element // of *tombstone in Memory.gone
	goneOrder list.List                // of *tombstone of this space, the oldest in front
}

type item struct {
	Artifact
	data   []byte
	space  *space
	age    *list.Element
	recent *list.Element
}

type tombstone struct {
	space  *space
	handle string
	kind   error
	at     time.Time
	order  *list.Element
}

// NewMemory opens a store in memory. The caller must Close it.
func NewMemory(opts Options) *Memory {
	m := &Memory{
		opts:   opts.withDefaults(),
		wake:   make(chan struct{}, 1),
		stop:   make(chan struct{}),
		done:   make(chan struct{}),
		spaces: make(map[string]*space),
	}
	go m.janitor()
	return m
}

// handle is the keyed hash of a content's hash under the principal's own secret,
// which is itself a keyed hash of the principal's name under the store's secret.
// Large content is so hashed once.
func (m *Memory) handle(principal string, sum [sha256.Size]byte) string {
	secret := hmac.New(sha256.New, m.opts.Secret)
	secret.Write([]byte("weir artifact principal\x00"))
	secret.Write([]byte(principal))
	mac := hmac.New(sha256.New, secret.Sum(nil))
	mac.Write(sum[:])
	return handlePrefix + handleEncoding.EncodeToString(mac.Sum(nil)[:16])
}

const handlePrefix = "art_"

var handleEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Put implements Store.
func (m *Memory) Put(ctx context.Context, principal, mediaType, label string, data []byte) (Artifact, error) {
	if err := ctx.Err(); err != nil {
		return Artifact{}, err
	}
	if int64(len(data)) > m.opts.MaxBytes {
		return Artifact{}, &Error{Kind: ErrTooLarge, Detail: fmt.Sprintf(
			"a result of %d bytes is larger than the %d bytes kept for one principal; raise artifacts.max_bytes", len(data), m.opts.MaxBytes)}
	}
	mediaType, label = bounded(mediaType), bounded(label)
	sum := sha256.Sum256(data)
	handle := m.handle(principal, sum)

	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return Artifact{}, ErrClosed
	}
	now := m.opts.Now()
	m.expire(now)
	sp := m.space(principal)
	it := sp.items[handle]
	if it == nil {
		it = &item{space: sp, data: append(make([]byte, 0, len(data)), data...)}
		it.Handle, it.SizeBytes, it.ContentHash = handle, int64(len(data)), hex.EncodeToString(sum[:])
		for len(sp.items) >= m.opts.MaxCount || sp.bytes+it.SizeBytes > m.opts.MaxBytes {
			m.remove(sp.recent.Back().Value.(*item), ErrEvicted, now)
		}
		sp.items[handle] = it
		sp.bytes += it.SizeBytes
		it.recent = sp.recent.PushFront(it)
		it.age = m.byAge.PushBack(it)
		if e := sp.gone[handle]; e != nil {
			m.forget(e)
		}
	} else {
		sp.recent.MoveToFront(it.recent)
		m.byAge.MoveToBack(it.age)
	}
	it.MediaType, it.Label = mediaType, label
	it.Created, it.Expires = now, now.Add(m.opts.TTL)
	if m.byAge.Front() == it.age {
		select {
		case m.wake <- struct{}{}:
		default:
		}
	}
	return it.Artifact, nil
}

// bounded copies s, so that nothing larger stays alive for it, and cuts it.
func bounded(s string) string {
	if len(s) > maxLabel {
		return strings.ToValidUTF8(s[:maxLabel], "")
	}
	return strings.Clone(s)
}

// Get implements Store.
func (m *Memory) Get(ctx context.Context, principal, handle string) (Artifact, []byte, error) {
	if err := ctx.Err(); err != nil {
		return Artifact{}, nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return Artifact{}, nil, ErrClosed
	}
	m.expire(m.opts.Now())
	sp := m.spaces[principal]
	if sp == nil {
		return Artifact{}, nil, unknownError(handle)
	}
	if it := sp.items[handle]; it != nil {
		sp.recent.MoveToFront(it.recent)
		return it.Artifact, it.data, nil
	}
	e := sp.gone[handle]
	if e == nil {
		return Artifact{}, nil, unknownError(handle)
	}
	if e.Value.(*tombstone).kind == ErrExpired {
		return Artifact{}, nil, &Error{Kind: ErrExpired, Handle: handle, Detail: fmt.Sprintf(
			"the artifact %s has expired: results are kept for %s (artifacts.ttl); run the tool again to get a new one", handle, m.opts.TTL)}
	}
	return Artifact{}, nil, &Error{Kind: ErrEvicted, Handle: handle, Detail: fmt.Sprintf(
		"the artifact %s made room for newer ones: %d artifacts and %d bytes are kept for a principal (artifacts.max_count, artifacts.max_bytes); run the tool again",
		handle, m.opts.MaxCount, m.opts.MaxBytes)}
}

// Usage implements Store.
func (m *Memory) Usage(principal string) Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.expire(m.opts.Now())
	}
	sp := m.spaces[principal]
	if sp == nil {
		return Usage{}
	}
	return Usage{Count: len(sp.items), Bytes: sp.bytes}
}

// Close implements Store.
func (m *Memory) Close() error {
	m.mu.Lock()
	if !m.closed {
		m.closed = true
		m.spaces = nil
		m.byAge.Init()
		m.gone.Init()
		close(m.stop)
	}
	m.mu.Unlock()
	<-m.done
	return nil
}

// janitor removes what is due, whether or not anybody calls. It ends on Close,
// which waits for it.
func (m *Memory) janitor() {
	defer close(m.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		m.mu.Lock()
		var next time.Duration = time.Hour
		if !m.closed {
			now := m.opts.Now()
			m.expire(now)
			if e := m.byAge.Front(); e != nil {
				next = min(next, e.Value.(*item).Expires.Sub(now))
			}
			if e := m.gone.Front(); e != nil {
				next = min(next, e.Value.(*tombstone).at.Add(goneFor).Sub(now))
			}
		}
		m.mu.Unlock()
		timer.Reset(max(next, time.Millisecond))
		select {
		case <-timer.C:
		case <-m.wake:
		case <-m.stop:
			return
		}
	}
}

// expire removes artifacts and tombstones whose time is over. Callers hold mu.
func (m *Memory) expire(now time.Time) {
	for e := m.byAge.Front(); e != nil && !e.Value.(*item).Expires.After(now); e = m.byAge.Front() {
		m.remove(e.Value.(*item), ErrExpired, now)
	}
	for e := m.gone.Front(); e != nil && !e.Value.(*tombstone).at.Add(goneFor).After(now); e = m.gone.Front() {
		m.forget(e)
	}
}

func (m *Memory) space(principal string) *space {
	sp := m.spaces[principal]
	if sp == nil {
		sp = &space{principal: principal, items: make(map[string]*item), gone: make(map[string]*list.Element)}
		m.spaces[principal] = sp
	}
	return sp
}

// remove takes it out and remembers why. Callers hold mu.
func (m *Memory) remove(it *item, kind error, now time.Time) {
	sp := it.space
	delete(sp.items, it.Handle)
	sp.bytes -= it.SizeBytes
	sp.recent.Remove(it.recent)
	m.byAge.Remove(it.age)
	t := &tombstone{space: sp, handle: it.Handle, kind: kind, at: now}
	t.order = sp.goneOrder.PushBack(t)
	sp.gone[it.Handle] = m.gone.PushBack(t)
	for sp.goneOrder.Len() > maxGone {
		m.forget(sp.gone[sp.goneOrder.Front().Value.(*tombstone).handle])
	}
}

// forget drops a tombstone, and its principal's space when nothing is left in
// it. Callers hold mu.
func (m *Memory) forget(e *list.Element) {
	t := m.gone.Remove(e).(*tombstone)
	sp := t.space
	sp.goneOrder.Remove(t.order)
	delete(sp.gone, t.handle)
	if len(sp.gone) == 0 && len(sp.items) == 0 {
		delete(m.spaces, sp.principal)
	}
}
