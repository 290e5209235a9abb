package lockfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/mcp"
)

// Mode is the treatment of definitions that differ from the lock.
type Mode string

// The modes. In mode off the lock does not know the server.
const (
	off    Mode = ""
	warn   Mode = "warn"   // they are served, and operators are notified
	hold   Mode = "hold"   // they are hidden until they are accepted
	refuse Mode = "refuse" // nothing of the server is served until they are accepted
)

// Sink takes listings, as the Sink of upstreams does.
type Sink interface {
	Update(l primitive.Listing)
	Remove(upstream string)
}

// Options is the configuration of a Keeper, by its gateway. Mode, Endpoint and Sink must be set.
type Options struct {
	// Path is the path of the file; "" keeps the lock in memory.
	Path string
	// Mode returns the mode of a server. It is called for each message at /mcps and must be fast.
	Mode func(server string) Mode
	// Endpoint returns where a server is reached.
	Endpoint func(server string) Endpoint
	// Conceal removes texts that clients may not see, such as credentials; nil removes nothing. The
	// lock has the remaining text.
	Conceal func(primitive.Listing) primitive.Listing
	// Sink gets the listings that may be served.
	Sink Sink
	// Own has the listings that go through Judge; nil if no server lists for each principal.
	Own OwnLists
	// First returns the first listing that the gateways of a store got from a server that the lock does not know,
	// without secrets; nil if there is none, so the listing of this gateway counts. A nil First returns nil for each
	// server.
	First func(server string) *primitive.Listing
	// Neighbours returns the tools of all servers, for findings; nil finds no shadowing.
	Neighbours func() []Neighbour
	// Changed is called with new differences; nil discards them. It must not block.
	Changed func(server string, fresh []Difference)
	// Logger gets differences; nil discards them.
	Logger *slog.Logger
	// Now is the clock; nil is the system's.
	Now func() time.Time
}

// A Keeper stands between upstreams and the catalog. It writes the first listing of a server, and
// compares each later listing with it. It is safe for concurrent use.
type Keeper struct {
	opts Options

	writing sync.Mutex // held while the file is read and written; taken before mu

	mu      sync.Mutex // guards below
	file    *lock
	data    []byte                   // of the file as it was read or written last
	broken  error                    // why there is no file
	memory  map[string]*lockedServer // servers that could not be written
	servers map[string]*watched      // those that are there, and those that are being judged
}

// watched is one server. In mode off it has no more than the listing of a server that was found at
// run time: no restart brings a new one when the mode changes.
type watched struct {
	name string
	turn sync.Mutex // held while a listing is judged and handed on, so that the newest one stays

	mu      sync.Mutex         // guards below
	listing *primitive.Listing // the last one, with bytes of its own; nil before
	now     *observedServer
	locked  *lockedServer
	verdict verdict
	own     *ownRecord // of a server that lists for each principal, which has none of the above
}

// New returns a Keeper with the file as it is now. A file that cannot be used is logged; servers in
// modes hold and refuse are then hidden.
func New(o Options) *Keeper {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.First == nil {
		o.First = func(string) *primitive.Listing { return nil }
	}
	if o.Conceal == nil {
		o.Conceal = func(l primitive.Listing) primitive.Listing { return l }
	}
	k := &Keeper{opts: o, file: newFile(), memory: map[string]*lockedServer{}, servers: map[string]*watched{}}
	if o.Path != "" {
		f, data, err := readFile(o.Path)
		if k.broken = err; err == nil {
			k.file, k.data = f, data
		}
	}
	return k
}

var _ Sink = (*Keeper)(nil)

// Update judges a listing and passes on the definitions that may be served.
func (k *Keeper) Update(l primitive.Listing) {
	w := k.turnOf(l.Upstream)
	defer w.turn.Unlock()
	if k.opts.Mode(l.Upstream) == off && !l.Found {
		k.forget(w)
		k.opts.Sink.Update(l)
		return // it starts again when its mode changes
	}
	kept := cloned(k.opts.Conceal(l))
	w.mu.Lock()
	w.listing, w.own = &kept, nil
	w.mu.Unlock()
	k.hand(w)
}

// Remove hands the removal of an upstream on. The lock keeps the server.
func (k *Keeper) Remove(upstream string) {
	w := k.turnOf(upstream)
	defer w.turn.Unlock()
	k.forget(w)
	k.opts.Sink.Remove(upstream)
}

// watch returns the record of a server.
func (k *Keeper) watch(server string) *watched {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.servers[server]
	if w == nil {
		w = &watched{name: server}
		k.servers[server] = w
	}
	return w
}

// turnOf returns the record of a server with its turn, which the caller gives back.
func (k *Keeper) turnOf(server string) *watched {
	for {
		w := k.watch(server)
		w.turn.Lock()
		if k.known(server) == w {
			return w
		}
		w.turn.Unlock() // it was forgotten meanwhile
	}
}

// known returns the record of a server, or nil.
func (k *Keeper) known(server string) *watched {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.servers[server]
}

// forget drops the state of a server. The caller holds w.turn.
func (k *Keeper) forget(w *watched) {
	w.mu.Lock()
	w.listing, w.now, w.locked, w.verdict, w.own = nil, nil, nil, verdict{}, nil
	w.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.servers, w.name)
}

// all returns the records of all servers, sorted by name.
func (k *Keeper) all() []*watched {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.SortedFunc(maps.Values(k.servers), func(a, b *watched) int { return cmp.Compare(a.name, b.name) })
}

// hand judges the last listing of a server and hands it on. The caller holds w.turn.
func (k *Keeper) hand(w *watched) {
	w.mu.Lock()
	listing, before := w.listing, w.verdict
	w.mu.Unlock()
	if listing == nil {
		return
	}
	mode := k.opts.Mode(w.name)
	if mode == off {
		w.mu.Lock()
		w.now, w.locked, w.verdict = nil, nil, verdict{}
		w.mu.Unlock()
		k.opts.Sink.Update(*listing)
		return
	}
	now := observe(listing, k.opts.Endpoint(w.name))
	locked, err := k.locked(now)
	v := judge(mode, locked, now, err)
	w.mu.Lock()
	w.now, w.locked, w.verdict = now, locked, v
	w.mu.Unlock()
	k.opts.Sink.Update(v.filter(*listing))
	k.tell(w.name, v.fresh(before), v, before.err)
}

// locked returns a server as the lock has it. A server that the lock does not know is written to it
// as it is now, or as the first node of the cluster saw it: trust on first use.
func (k *Keeper) locked(now *observedServer) (*lockedServer, error) {
	k.mu.Lock()
	s, broken := k.lookup(now.Server), k.broken
	k.mu.Unlock()
	switch {
	case s != nil:
		return s, nil // also while the file is broken
	case broken != nil:
		return nil, broken
	}
	seen := now
	if first := k.opts.First(now.Server); first != nil {
		seen = observe(first, k.opts.Endpoint(now.Server))
	}
	date := k.date()
	err := k.change(context.Background(), func(f *lock) error {
		if f.Servers[now.Server] != nil {
			return nil // another process was first
		}
		if len(f.Servers) >= maxServers {
			return fmt.Errorf("it has %d servers, which is the bound", maxServers)
		}
		f.Servers[now.Server] = seen.lock(nil, date)
		return nil
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		if k.broken != nil {
			return nil, k.broken
		}
		if len(k.memory) < maxServers {
			k.memory[now.Server] = seen.lock(nil, date)
		}
		k.opts.Logger.Warn("weir.lock cannot be written: changes of this server are noticed until weir stops", "upstream", now.Server, "err", err)
	}
	if s = k.lookup(now.Server); s == nil {
		return nil, errFull
	}
	return s, nil
}

var errFull = errors.New("the lock has no room for the server")

// lookup returns the entry of a server in the lock. The caller holds mu.
func (k *Keeper) lookup(server string) *lockedServer {
	if s := k.file.Servers[server]; s != nil {
		return s
	}
	return k.memory[server]
}

func (k *Keeper) date() string { return k.opts.Now().UTC().Format(time.DateOnly) }

// change changes the lock.
func (k *Keeper) change(ctx context.Context, fn func(*lock) error) error {
	k.writing.Lock()
	defer k.writing.Unlock()
	if k.opts.Path == "" {
		k.mu.Lock()
		defer k.mu.Unlock()
		return fn(k.file)
	}
	k.mu.Lock()
	kept := k.file.clone()
	k.mu.Unlock()
	f, data, err := changeFile(ctx, k.opts.Path, kept, fn)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case errors.Is(err, errBroken):
		k.broken = err
	case err == nil:
		k.file, k.data, k.broken = f, data, nil
	}
	return err
}

// Follow judges the servers again when the file may have changed: an operator has accepted
// differences, or a branch was checked out. Call it from filewatch. A file that is gone or cannot be
// used leaves the lock as it was, because a running gateway must not start to trust by accident.
func (k *Keeper) Follow() {
	if k.opts.Path == "" {
		return
	}
	k.writing.Lock()
	f, data, err := readFile(k.opts.Path)
	k.mu.Lock()
	changed := false
	switch {
	case err != nil:
		k.opts.Logger.Error("weir.lock has changed and is not used; the old one stays", "err", err)
	case data == nil && k.data != nil:
		k.opts.Logger.Warn("weir.lock is gone; the old one stays until weir is started again", "path", k.opts.Path)
		k.broken, changed = nil, k.broken != nil // the next write makes it again
	case string(data) != string(k.data) || k.broken != nil:
		k.file, k.data, k.broken, changed = f, data, nil, true
	}
	k.mu.Unlock()
	k.writing.Unlock()
	if changed {
		k.opts.Logger.Info("weir.lock has changed and is applied")
		k.Again()
	}
}

// Again judges all servers again, because the lock or their modes have changed.
func (k *Keeper) Again() {
	for _, w := range k.all() {
		w.turn.Lock()
		w.mu.Lock()
		own := w.own != nil
		w.mu.Unlock()
		k.hand(w)
		w.turn.Unlock()
		if own {
			k.opts.Own.JudgeOwnLists(w.name)
		}
	}
}

// Acceptance names the definitions that an operator accepts.
type Acceptance struct {
	Server string `json:"server"`
	// Kind and Name are the kind and the name of one difference. An empty Kind means everything of
	// the server.
	Kind primitive.Kind `json:"kind,omitempty"`
	Name string         `json:"name,omitempty"`
	// Hash is the hash of the difference, or the digest of the server, that the operator has seen.
	Hash string `json:"hash,omitempty"`
}

// among returns the differences that have the kind and the name.
func (a Acceptance) among(all []Difference) ([]Difference, error) {
	found := slices.DeleteFunc(slices.Clone(all), func(d Difference) bool { return d.Key() != (Key{a.Kind, a.Name}) })
	if len(found) == 0 {
		return nil, mcp.Errorf(mcp.KindNotFound, "%s %s of server %q does not differ from weir.lock", a.Kind, shownName(a.Name), a.Server)
	}
	return found, nil
}

// Accept writes the present definitions of a server to the lock and serves them. It returns the
// accepted differences. It fails if the operator has not seen these definitions.
func (k *Keeper) Accept(ctx context.Context, a Acceptance) ([]Difference, error) {
	k.mu.Lock()
	w, broken := k.servers[a.Server], k.broken
	k.mu.Unlock()
	if broken != nil {
		return nil, mcp.Errorf(mcp.KindInvalidRequest, "%w", broken)
	}
	if w == nil {
		return nil, unknown(a.Server)
	}
	w.turn.Lock()
	defer w.turn.Unlock()
	w.mu.Lock()
	now, locked, all, own := w.now, w.locked, w.verdict.differences, w.own != nil
	w.mu.Unlock()
	if own {
		return k.acceptOwn(ctx, w, a)
	}
	if now == nil {
		return nil, unknown(a.Server)
	}
	accepted := all
	if a.Kind == "" {
		if a.Hash != now.Digest() {
			return nil, moot(a.Server)
		}
	} else {
		var err error
		if accepted, err = a.among(all); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(accepted, func(d Difference) bool { return d.Hash == a.Hash }) {
			return nil, moot(a.Server)
		}
	}
	date := k.date()
	err := k.change(ctx, func(f *lock) error {
		before := f.Servers[a.Server]
		if a.Kind == "" {
			f.Servers[a.Server] = now.lock(before, date)
			return nil
		}
		if before == nil {
			before = locked // it could not be written until now
		}
		s := &lockedServer{FirstSeen: date}
		if before != nil {
			s = before.clone()
		}
		f.Servers[a.Server] = s
		for _, d := range accepted {
			if d.Notice {
				now.identify(s)
			} else if seen, there := now.definitions[d.Key()]; there {
				s.put(d.Key(), seen.lock(before.get(d.Key()), date))
			} else {
				s.put(d.Key(), nil)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("the differences of server %q are not accepted: %w", a.Server, err)
	}
	k.mu.Lock()
	delete(k.memory, a.Server)
	k.mu.Unlock()
	k.hand(w)
	return accepted, nil
}

func unknown(server string) error {
	return mcp.Errorf(mcp.KindNotFound, "server %q has not been listed, or its trust is not set: weir ls shows its state, and mcpServers.NAME.trust sets the mode", server)
}

func moot(server string) error {
	return mcp.Errorf(mcp.KindInvalidRequest, "server %q has changed again since you looked: weir trust diff %s shows what it offers now", server, server)
}

// fresh returns the differences that a verdict before did not have.
func (v *verdict) fresh(before verdict) (fresh []Difference) {
	known := map[reportedDiff]bool{}
	for _, d := range before.differences {
		known[reportedDiff{d.Key(), d.Hash, d.Notice}] = true
	}
	for _, d := range v.differences {
		if !known[reportedDiff{d.Key(), d.Hash, d.Notice}] {
			fresh = append(fresh, d)
		}
	}
	return fresh
}

// tell logs the differences that are new, and why the lock cannot be used unless failed says the same.
func (k *Keeper) tell(server string, fresh []Difference, now verdict, failed error) {
	if now.err != nil && (failed == nil || failed.Error() != now.err.Error()) {
		k.opts.Logger.Error("weir.lock cannot be used"+now.consequence(), "upstream", server, "err", now.err)
	}
	for i, d := range fresh {
		if i == maxLogged {
			k.opts.Logger.Warn("more differs from weir.lock", "upstream", server, "differences", len(fresh))
			break
		}
		level := slog.LevelWarn
		if d.Notice {
			level = slog.LevelInfo
		}
		k.opts.Logger.Log(context.Background(), level, "differs from weir.lock: "+d.String(), "upstream", server, "held", d.Held, "fix", fixFor(server))
	}
	if len(fresh) > 0 && k.opts.Changed != nil {
		k.opts.Changed(server, fresh)
	}
}

// maxLogged bounds the differences that are logged per listing.
const maxLogged = 20

// fixFor returns the commands for the differences of a server.
func fixFor(server string) string {
	return "weir trust diff " + server + ", then weir trust accept " + server
}
