package lockfile

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/bounded"
)

// A server may list for each of its principals. Each listing is judged by itself, and the lock has up to
// maxVariants definitions of one key. A definition that a listing lacks is no difference there, because
// another principal may have it. Operators see the differences of all listings together.

// OwnLists are the listings of servers that list for each principal. Both methods may be called
// concurrently.
type OwnLists interface {
	// OwnListings returns the different listings of a server. They are immutable, and equal definitions
	// share their bytes.
	OwnListings(server string) []*primitive.Listing
	// JudgeOwnLists makes Judge be called again for each of them. It does not wait.
	JudgeOwnLists(server string)
}

// ownRecord is the state of a Keeper for a server that lists for each principal.
type ownRecord struct {
	verdicts *bounded.Map[*primitive.Listing, verdict] // those used last
	told     *bounded.Map[reportedDiff, struct{}]      // differences that have been reported
}

// reportedDiff identifies a difference that has been reported.
type reportedDiff struct {
	Key
	hash   string
	notice bool
}

func newOwnRecord() *ownRecord {
	return &ownRecord{
		verdicts: bounded.New(bounded.Options[*primitive.Listing, verdict]{MaxCount: 64, KeepUsed: true}),
		told:     bounded.New(bounded.Options[reportedDiff, struct{}]{MaxCount: 4096, KeepUsed: true}),
	}
}

// ownRecord returns the record of a server that lists for each principal.
func (w *watched) ownRecord() *ownRecord {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.own == nil {
		w.own = newOwnRecord()
	}
	return w.own
}

// Judge returns the part of a server's listing for one principal that may be served. It does not
// change the listing, which must be concealed already. The first listing of a server is written to
// the lock.
func (k *Keeper) Judge(l *primitive.Listing) primitive.Listing {
	w := k.turnOf(l.Upstream)
	defer w.turn.Unlock()
	if k.opts.Mode(w.name) == off {
		k.forget(w)
		return *l
	}
	own := w.ownRecord()
	v := k.judgeOwn(own, w.name, l)
	var fresh []Difference
	for _, d := range v.differences {
		id := reportedDiff{d.Key(), d.Hash, d.Notice}
		if d.Notice {
			id.hash = fmt.Sprint(d.Members) // the hash covers the whole listing
		}
		if _, known := own.told.Get(id); !known {
			own.told.Put(id, struct{}{}, 0)
			fresh = append(fresh, d)
		}
	}
	k.tell(w.name, fresh, v, nil)
	return v.filter(*l)
}

// judgeOwn returns the verdict of a listing of one principal.
func (k *Keeper) judgeOwn(own *ownRecord, server string, l *primitive.Listing) verdict {
	mode := k.opts.Mode(server)
	k.mu.Lock()
	locked, broken := k.lookup(server), k.broken
	k.mu.Unlock()
	if v, known := own.verdicts.Get(l); known && v.mode == mode && v.locked == locked && v.err == broken {
		return v
	}
	now := observe(l, k.opts.Endpoint(server))
	locked, err := k.locked(now)
	v := judge(mode, locked, now, err)
	v.own = now
	v.differences = slices.DeleteFunc(v.differences, func(d Difference) bool { return d.Change == catalog.EntryRemoved })
	own.verdicts.Put(l, v, 0)
	return v
}

// GateOf returns the gate of a server that lists for each principal, for the principal with a listing.
// A nil listing is not known yet. In modes other than hold and refuse it returns nil.
func (k *Keeper) GateOf(server string, l *primitive.Listing) *Gate {
	if mode := k.opts.Mode(server); mode != hold && mode != refuse {
		return nil
	}
	if l == nil {
		return &Gate{server: server, conceal: k.opts.Conceal}
	}
	return &Gate{v: k.judgeOwn(k.watch(server).ownRecord(), server, l), server: server, listed: true, listing: l, conceal: k.opts.Conceal}
}

// offers are the listings of a server for all of its principals together.
type offers struct {
	server      string
	endpoint    Endpoint
	definitions map[Key][]observed // different ones
	servers     []*observedServer  // different names and versions, without definitions
}

// gather returns the listings of a server for all of its principals.
func (k *Keeper) gather(server string) *offers {
	o := &offers{server: server, endpoint: k.opts.Endpoint(server), definitions: map[Key][]observed{}}
	seen := map[*byte]bool{} // equal definitions share their bytes
	note := func(key Key, raw []byte) {
		hash := hashOf(raw)
		if !slices.ContainsFunc(o.definitions[key], func(d observed) bool { return d.hash == hash }) {
			o.definitions[key] = append(o.definitions[key], observed{hash, raw})
		}
	}
	for _, l := range k.opts.Own.OwnListings(server) {
		for kind, list := range definitionsOf(l) {
			for _, raw := range *list {
				if len(raw) == 0 || seen[&raw[0]] {
					continue
				}
				seen[&raw[0]] = true
				if key, ok := keyOf(kind, raw); ok {
					note(key, raw)
				}
			}
		}
		if about := aboutOf(&l.Greeting); about != nil {
			note(Key{Kind: KindServer}, about)
		}
		name, version := rawjson.Text(rawjson.Get(l.Greeting.ServerInfo, "name")), rawjson.Text(rawjson.Get(l.Greeting.ServerInfo, "version"))
		if !slices.ContainsFunc(o.servers, func(s *observedServer) bool { return s.Name == name && s.Version == version }) {
			o.servers = append(o.servers, &observedServer{Server: server, Name: name, Version: version, Endpoint: o.endpoint})
		}
	}
	return o
}

// keys returns the keys, sorted.
func (o *offers) keys() []Key { return slices.SortedFunc(maps.Keys(o.definitions), compareKeys) }

// find returns a definition by its hash.
func (o *offers) find(key Key, hash string) (observed, bool) {
	for _, d := range o.definitions[key] {
		if d.hash == hash {
			return d, true
		}
	}
	return observed{}, false
}

// digest returns a hash of all of it, in an order that does not depend on the order of the
// listings.
func (o *offers) digest() string {
	h := sha256.New()
	write := func(texts ...string) {
		for _, text := range texts {
			_, _ = h.Write(rawjson.Quote(text)) // a hash does not fail
		}
	}
	write(o.server, o.endpoint.Command, o.endpoint.URL)
	var lines []string
	for _, s := range o.servers {
		lines = append(lines, string(rawjson.Quote(s.Name))+string(rawjson.Quote(s.Version)))
	}
	for key, all := range o.definitions {
		for _, d := range all {
			lines = append(lines, string(rawjson.Quote(string(key.Kind)))+string(rawjson.Quote(key.Name))+d.hash)
		}
	}
	slices.Sort(lines)
	write(lines...)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// verdict compares all of it with the lock.
func (o *offers) verdict(mode Mode, locked *lockedServer, err error) verdict {
	v := verdict{mode: mode, locked: locked, err: err}
	if err != nil || locked == nil {
		return v
	}
	for _, key := range o.keys() {
		for _, seen := range o.definitions[key] {
			if d, differs := compareOne(o.server, key, locked.get(key), seen); differs {
				v.differences = append(v.differences, d)
			}
		}
	}
	for _, s := range o.servers {
		if d, ok := moved(locked, s); ok {
			v.differences = append(v.differences, d)
		}
	}
	slices.SortStableFunc(v.differences, func(a, b Difference) int {
		return cmp.Or(compareKeys(a.Key(), b.Key()), cmp.Compare(b2i(a.Notice), b2i(b.Notice)), cmp.Compare(a.Hash, b.Hash))
	})
	v.hold()
	return v
}

// ownStatus returns the status of a server that lists for each principal.
func (k *Keeper) ownStatus(server string, names neighbours) ServerStatus {
	o := k.gather(server)
	k.mu.Lock()
	locked, broken := k.lookup(server), k.broken
	k.mu.Unlock()
	if locked != nil {
		broken = nil // accepted definitions stay in force
	}
	v := o.verdict(k.opts.Mode(server), locked, broken)
	out := ServerStatus{Server: server, Mode: v.mode, State: v.state(), Digest: o.digest(), Differences: append([]Difference{}, v.differences...)}
	type one struct {
		Key
		hash string
	}
	differ := map[one]bool{}
	for i := range out.Differences {
		d := &out.Differences[i]
		var raw, before []byte
		if !d.Notice {
			differ[one{d.Key(), d.Hash}] = true
			seen, _ := o.find(d.Key(), d.Hash)
			raw = seen.raw
			if old := locked.get(d.Key()); old != nil {
				before = old.Text
			}
		}
		d.judge(raw, before, names)
	}
	for _, key := range o.keys() {
		for _, seen := range o.definitions[key] {
			if differ[one{key, seen.hash}] {
				continue
			}
			d := Difference{Server: server, Kind: key.Kind, Name: key.Name}
			d.judge(seen.raw, nil, names)
			for _, f := range d.Findings {
				if len(out.Findings) < maxLockedFindings {
					out.Findings = append(out.Findings, LockedFinding{key.Kind, key.Name, f})
				}
			}
		}
	}
	return out
}

// acceptOwn is Accept for a server that lists for each principal. Definitions that were accepted
// before stay accepted.
func (k *Keeper) acceptOwn(ctx context.Context, w *watched, a Acceptance) ([]Difference, error) {
	o := k.gather(a.Server)
	k.mu.Lock()
	kept := k.lookup(a.Server)
	k.mu.Unlock()
	if len(o.servers) == 0 || kept == nil {
		return nil, unknown(a.Server)
	}
	all := o.verdict(k.opts.Mode(a.Server), kept, nil).differences
	accepted := all
	if a.Kind == "" {
		if a.Hash != o.digest() {
			return nil, moot(a.Server)
		}
	} else {
		var err error
		if accepted, err = a.among(all); err != nil {
			return nil, err
		}
		accepted = slices.DeleteFunc(accepted, func(d Difference) bool { return d.Hash != a.Hash })
		if len(accepted) == 0 {
			return nil, moot(a.Server)
		}
	}
	date := k.date()
	err := k.change(ctx, func(f *lock) error {
		s := cmp.Or(f.Servers[a.Server], kept).clone()
		for _, d := range accepted {
			if err := o.accept(s, d, date); err != nil {
				return err
			}
		}
		f.Servers[a.Server] = s
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("the differences of server %q are not accepted: %w", a.Server, err)
	}
	k.mu.Lock()
	delete(k.memory, a.Server)
	k.mu.Unlock()
	k.opts.Own.JudgeOwnLists(w.name)
	return accepted, nil
}

// accept stores one difference.
func (o *offers) accept(s *lockedServer, d Difference, date string) error {
	key := d.Key()
	if d.Notice {
		for _, one := range o.servers {
			if one.Digest() == d.Hash {
				one.identify(s)
			}
		}
		return nil
	}
	seen, there := o.find(key, d.Hash)
	if !there {
		return moot(o.server)
	}
	seen.raw = bytes.Clone(seen.raw)
	next, err := s.get(key).with(seen.lock(nil, date), func(hash string) bool {
		_, used := o.find(key, hash)
		return used
	})
	if err != nil {
		return fmt.Errorf("%s: %w; remove one from weir.lock", d.Thing(), err)
	}
	s.put(key, next)
	return nil
}
