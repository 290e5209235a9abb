package dispatch

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/s2sp/plane"
)

// Defaults of CacheOptions.
const (
	defaultCacheTTL     = time.Minute
	defaultCacheEntries = 256
	defaultCacheBytes   = 64 << 20

	// maxCachedArgs is the size of the largest arguments that the cache looks up. Larger ones
	// seldom repeat, and comparing them is expensive.
	maxCachedArgs = 64 << 10
	// cacheOverhead is the size that an entry counts in addition to its result.
	cacheOverhead = 256
)

// CacheOptions switch on and bound the cache of results (spec/gateway §4.5).
// The zero value caches nothing.
type CacheOptions struct {
	// ReadOnly caches results of tools that declare themselves read-only. Weir cannot verify this
	// hint of the upstream: if it is wrong, the tool is not run again and its first result is
	// returned. Use Allow to name the tools if that matters.
	ReadOnly bool
	// Allow, if not empty, lists the only tool_ids whose results are cached.
	Allow []string
	// Never lists servers by name whose results are not cached: each call has a credential that the
	// caller shows with it, and two clients of a principal can have different rights.
	Never []string
	// TTL is how long a result is kept; 0 is defaultCacheTTL.
	TTL time.Duration
	// MaxEntries and MaxBytes bound the cache; 0 means defaultCacheEntries and defaultCacheBytes.
	// The least recently used entry is dropped first.
	MaxEntries int
	MaxBytes   int64
	// Room also counts the cached bytes. A result that does not fit is not cached. Nil sets no
	// bound.
	Room *memory.Account
}

// Cache stores raw results of read-only tools by principal, tool_id and canonical arguments. It
// belongs to one catalog and is emptied when the catalog changes.
type Cache struct {
	opts    CacheOptions
	allow   map[string]struct{}
	current func() *catalog.Catalog

	mu      sync.Mutex // guards below
	of      *catalog.Catalog
	entries map[cacheKey]*list.Element // of *cached
	recent  list.List                  // the most recently used in front
	bytes   int64
	closed  bool

	flights flights
}

type cacheKey struct {
	principal, toolID string
	args              [sha256.Size]byte // of the canonical arguments
	// definition is a hash of the definition of an entry that is not in the catalog of the cache,
	// because its server has listed it only for the principal.
	definition [sha256.Size]byte
}

type cached struct {
	key     cacheKey
	result  json.RawMessage
	label   flow.Label
	expires time.Time
}

func NewCache(opts CacheOptions, current func() *catalog.Catalog) *Cache {
	if opts.TTL <= 0 {
		opts.TTL = defaultCacheTTL
	}
	if opts.MaxEntries <= 0 {
		opts.MaxEntries = defaultCacheEntries
	}
	if opts.MaxBytes <= 0 {
		opts.MaxBytes = defaultCacheBytes
	}
	c := &Cache{opts: opts, current: current, entries: map[cacheKey]*list.Element{}}
	if len(opts.Allow) > 0 {
		c.allow = make(map[string]struct{}, len(opts.Allow))
		for _, id := range opts.Allow {
			c.allow[id] = struct{}{}
		}
	}
	return c
}

// keyOf returns the key of a call, or false if its result must not be cached: the tool may change
// something or is not allowed, or the call carries more than its arguments, such as the answer to a
// question.
func (k *Cache) keyOf(c *Call) (cacheKey, bool) {
	args := c.Args
	if c.Key != nil {
		args = c.Key
	}
	if !c.Entry.ReadOnly || c.Entry.Destructive || len(args) > maxCachedArgs || slices.Contains(k.opts.Never, c.Entry.Upstream) {
		return cacheKey{}, false
	}
	if c.Entry.ResourceTool && rawjson.Get(args, plane.ParamDomains) != nil {
		return cacheKey{}, false // its resource_url works once
	}
	if _, ok := k.allow[c.Entry.ID]; k.allow != nil && !ok {
		return cacheKey{}, false
	}
	if !c.Request.Fields().Plain() {
		return cacheKey{}, false
	}
	canonical, ok := rawjson.AppendCanonical(make([]byte, 0, len(args)), args)
	if !ok {
		return cacheKey{}, false
	}
	key := cacheKey{principal: c.Request.Session.Principal(), toolID: c.Entry.ID, args: sha256.Sum256(canonical)}
	if c.Entry.Own {
		key.definition = c.Entry.Digest()
	}
	return key, true
}

// Step answers calls from the cache and caches other results. Equal concurrent calls are made once
// (see flights).
func (k *Cache) Step() Step {
	return Step{Phase: PhaseReuse, Name: "cache", Before: k.before, After: k.after}
}

func (k *Cache) before(ctx context.Context, c *Call) error {
	key, ok := k.keyOf(c)
	if !ok {
		return nil
	}
	at := flightKey{key, c.Catalog.Base()}
	for {
		if k.get(c, key, at.of) {
			c.Provenance.CacheHit = true
			return ErrAnswered
		}
		f, mine := k.flights.join(at)
		if mine {
			if k.get(c, key, at.of) { // it was stored just before
				k.flights.land(f, c.Reply, c.Label, false)
				c.Provenance.CacheHit = true
				return ErrAnswered
			}
			c.flight, c.OnAsk = f, func() { k.flights.land(f, nil, flow.Label{}, false) }
			return nil
		}
		result, again, err := f.wait(ctx, c)
		if err != nil {
			return err
		}
		if result != nil {
			c.Label = c.Label.Join(f.label)
			c.Reply, c.Provenance.CacheHit = result, true
			return ErrAnswered
		}
		if !again {
			return nil
		}
	}
}

// after lands the flight of a call that other callers may wait for.
func (k *Cache) after(ctx context.Context, c *Call, err error) error {
	f := c.flight
	if f == nil {
		return err
	}
	var shared json.RawMessage
	defer func() { k.flights.land(f, shared, c.Label, ctx.Err() != nil) }()
	if err == nil && !c.Asked && c.Task == "" && Cacheable(c.Reply) {
		if shared = k.put(f.key.cacheKey, f.key.of, c.Reply, c.Label); shared == nil && k.flights.awaited(f) {
			shared = slices.Clone(c.Reply)
		}
	}
	return err
}

// Cacheable reports whether a result is complete and not an error.
func Cacheable(result json.RawMessage) bool {
	var fields [2][]byte
	if len(result) == 0 || rawjson.Fields(result, []string{"isError", "resultType"}, fields[:]) != nil {
		return false
	}
	isError, kind := string(fields[0]), string(fields[1])
	return (isError == "" || isError == "false" || isError == "null") && (kind == "" || kind == `"complete"`)
}

// followLocked empties the cache if the catalog has changed, and reports whether a call that
// started with catalog of may use the cache.
func (k *Cache) followLocked(of *catalog.Catalog) bool {
	now := k.current()
	if k.of != now {
		k.of = now
		k.emptyLocked()
	}
	return of == now && !k.closed
}

func (k *Cache) emptyLocked() {
	clear(k.entries)
	k.recent.Init()
	k.opts.Room.Drop(k.bytes)
	k.bytes = 0
}

// Close empties the cache. It stores nothing afterwards.
func (k *Cache) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.emptyLocked()
}

// get gives a call the result of a key with its label, and reports whether there is one. It is shared and must not be
// changed.
func (k *Cache) get(c *Call, key cacheKey, of *catalog.Catalog) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.followLocked(of) {
		return false
	}
	el := k.entries[key]
	if el == nil {
		return false
	}
	e := el.Value.(*cached)
	if !time.Now().Before(e.expires) {
		k.dropLocked(el)
		return false
	}
	k.recent.MoveToFront(el)
	c.Reply, c.Label = e.result, c.Label.Join(e.label)
	return true
}

// put stores a copy of result and returns it, or nil if it is not stored.
func (k *Cache) put(key cacheKey, of *catalog.Catalog, result json.RawMessage, label flow.Label) json.RawMessage {
	size := int64(len(result)) + cacheOverhead
	if size > k.opts.MaxBytes {
		return nil
	}
	result = slices.Clip(slices.Clone(result))
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.followLocked(of) {
		return nil
	}
	if el := k.entries[key]; el != nil {
		k.dropLocked(el)
	}
	if !k.opts.Room.Keep(size) {
		return result // for the callers that wait
	}
	k.entries[key] = k.recent.PushFront(&cached{key, result, label, time.Now().Add(k.opts.TTL)})
	k.bytes += size
	for k.recent.Len() > k.opts.MaxEntries || k.bytes > k.opts.MaxBytes {
		k.dropLocked(k.recent.Back())
	}
	return result
}

func (k *Cache) dropLocked(el *list.Element) {
	e := el.Value.(*cached)
	k.recent.Remove(el)
	delete(k.entries, e.key)
	size := int64(len(e.result)) + cacheOverhead
	k.bytes -= size
	k.opts.Room.Drop(size)
}
