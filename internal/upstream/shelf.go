package upstream

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/limit/memory"
)

// Bounds of the bytes on one shelf, and what they count in addition to the texts.
const (
	maxShelved     = 256 << 20
	definitionRoom = 128 // of a definition that is kept once
	entryRoom      = 64  // of a place in a listing
)

// shelf keeps the different listings of one server. Equal listings are kept once, and so is each
// definition, because the listings of two principals differ in few of them. It is safe for concurrent
// use.
type shelf struct {
	conceal func(primitive.Listing) primitive.Listing
	judge   func(*primitive.Listing) primitive.Listing // returns what may be served; nil serves all
	order   func() int                                 // the place of the server in the configuration
	room    *memory.Account                            // of the messages of the server; nil sets no bound
	most    int64                                      // bytes

	judging sync.Mutex // held while listings are judged, so that the newest judgement stays; taken before mu

	mu          sync.Mutex // guards below
	listings    map[[sha256.Size]byte]*shelved
	definitions map[[sha256.Size]byte]*definition
	bytes       int64 // of all of them, taken from room
}

// shelved is a listing on a shelf.
type shelved struct {
	sum    [sha256.Size]byte
	raw    primitive.Listing // as the server lists it, concealed; it has no Order
	rules  *toolRules
	room   int64 // bytes in addition to the definitions
	served atomic.Pointer[served]
	users  int // guarded by shelf.mu
}

// served is what principals see of a listing. It is immutable.
type served struct {
	listing *primitive.Listing
	id      uint64 // no other served has it while this process lives
}

// definition is a raw definition with the number of its uses in listings.
type definition struct {
	raw  json.RawMessage
	uses int
}

// servedID is the id of the newest served.
var servedID atomic.Uint64

func newServed(l primitive.Listing) *served { return &served{&l, servedID.Add(1)} }

// put returns a listing of the shelf that is equal to l, and counts a user, who must drop it. It returns
// nil if the shelf has no room for it.
func (s *shelf) put(l primitive.Listing, rules *toolRules) *shelved {
	if s.conceal != nil {
		l = s.conceal(l)
	}
	sum, sums := digest(&l, rules)
	s.judging.Lock()
	defer s.judging.Unlock()
	s.mu.Lock()
	if known := s.listings[sum]; known != nil {
		known.users++
		s.mu.Unlock()
		return known
	}
	room := roomOf(&l, rules)
	before := s.bytes
	s.bytes += room
	next := 0
	for _, list := range rawLists(&l) {
		own := make([]json.RawMessage, len(*list))
		for i, raw := range *list {
			d := s.definitions[sums[next]]
			if d == nil {
				d = &definition{raw: bytes.Clone(raw)}
				s.definitions[sums[next]] = d
				s.bytes += d.room()
			}
			d.uses++
			own[i] = d.raw
			next++
		}
		*list = own
	}
	if taken := s.bytes - before; s.bytes > s.most || !s.room.Keep(taken) {
		s.remove(sums)
		s.bytes = before
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	l.Greeting.ServerInfo, l.Order = bytes.Clone(l.Greeting.ServerInfo), 0
	out := &shelved{sum: sum, raw: l, rules: rules, room: room, users: 1}
	out.served.Store(newServed(s.judged(out)))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listings[sum] = out
	return out
}

// drop says that a user of a listing needs it no longer.
func (s *shelf) drop(l *shelved) {
	s.mu.Lock()
	l.users--
	last := l.users == 0
	if last {
		delete(s.listings, l.sum)
	}
	s.mu.Unlock()
	if !last {
		return
	}
	_, sums := digest(&l.raw, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.bytes
	s.remove(sums)
	s.bytes -= l.room
	s.room.Drop(before - s.bytes)
}

// remove counts one use less of definitions. The caller holds mu.
func (s *shelf) remove(sums [][sha256.Size]byte) {
	for _, sum := range sums {
		d := s.definitions[sum]
		if d.uses--; d.uses == 0 {
			delete(s.definitions, sum)
			s.bytes -= d.room()
		}
	}
}

func (d *definition) room() int64 { return int64(len(d.raw)) + definitionRoom }

// roomOf returns the bytes of a listing in addition to its definitions.
func roomOf(l *primitive.Listing, rules *toolRules) int64 {
	n := len(l.Title) + len(l.About) + len(l.Instructions) + len(l.Greeting.ServerInfo) + len(l.Greeting.Instructions)
	for _, list := range rawLists(l) {
		n += entryRoom * len(*list)
	}
	if rules != nil {
		for name, why := range rules.barred {
			n += len(name) + len(why.Error()) + entryRoom
		}
	}
	return int64(n + definitionRoom)
}

// all returns the listings.
func (s *shelf) all() []*shelved {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.listings))
}

// again judges all listings again. It returns the listings of which something else is served now.
func (s *shelf) again() (changed map[*shelved]bool) {
	s.judging.Lock()
	defer s.judging.Unlock()
	changed = map[*shelved]bool{}
	for _, l := range s.all() {
		if next := s.judged(l); !same(&next, l.served.Load().listing) {
			l.served.Store(newServed(next))
			changed[l] = true
		}
	}
	return changed
}

// judged returns what may be served of a listing. The caller holds judging.
func (s *shelf) judged(l *shelved) primitive.Listing {
	out := l.raw
	if s.judge != nil {
		out = s.judge(&l.raw)
	}
	out.Order = s.order()
	return out
}

// rawLists returns the lists of definitions of a listing.
func rawLists(l *primitive.Listing) [4]*[]json.RawMessage {
	return [...]*[]json.RawMessage{&l.Tools, &l.Resources, &l.ResourceTemplates, &l.Prompts}
}

// digest returns a hash of a listing and the rules for its tools, and the hashes of its definitions in
// their order. The headers of tools follow from the definitions.
func digest(l *primitive.Listing, rules *toolRules) (sum [sha256.Size]byte, definitions [][sha256.Size]byte) {
	h := sha256.New()
	number := func(n int) { _, _ = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n))) }
	texts := func(all ...string) {
		number(len(all))
		for _, text := range all {
			number(len(text))
			_, _ = h.Write([]byte(text))
		}
	}
	texts(l.Upstream, l.Namespace, l.Title, l.About, l.Instructions, string(l.Greeting.ServerInfo), l.Greeting.Instructions)
	texts(l.Cut...)
	var barred []string // with the reasons, which quote the definitions
	if rules != nil {
		for _, name := range slices.Sorted(maps.Keys(rules.barred)) {
			barred = append(barred, name, rules.barred[name].Error())
		}
	}
	texts(barred...)
	for _, list := range rawLists(l) {
		number(len(*list))
		for _, raw := range *list {
			one := sha256.Sum256(raw)
			definitions = append(definitions, one)
			_, _ = h.Write(one[:])
		}
	}
	h.Sum(sum[:0])
	return sum, definitions
}

// same reports whether two listings of one shelf are equal.
func same(a, b *primitive.Listing) bool {
	for i, list := range rawLists(a) {
		other := rawLists(b)[i]
		if !slices.EqualFunc(*list, *other, func(x, y json.RawMessage) bool { return bytes.Equal(x, y) }) {
			return false
		}
	}
	return a.Order == b.Order && a.Title == b.Title && a.About == b.About && a.Instructions == b.Instructions && maps.Equal(a.Notes, b.Notes) && slices.Equal(a.Cut, b.Cut)
}
