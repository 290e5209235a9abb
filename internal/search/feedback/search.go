package feedback

import (
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/search"
	"github.com/weir-mcp/weir/mcp"
)

const (
	// maxWords bounds the words of a search that teaches: one of more words says little of each of them.
	maxWords = 12
	// maxWordBytes bounds a word. Longer ones are no words.
	maxWordBytes = 32
	// maxSearches bounds the searches of a session after which a run counts.
	maxSearches = 8
	// searchAge is the age of the oldest search after which a run counts.
	searchAge = 30 * time.Minute
)

// Search is the Preference of one search. It is for one goroutine.
type Search struct {
	of    *Memory
	group *group
	at    time.Time
	words []uint64 // of the query
	tools []uint64 // that the answer has, and that were not run since
}

var _ search.Preference = (*Search)(nil)

// Shares implements search.Preference. The share of a tool is the mean over the words of its part in
// their counts. One more run is added to the counts of each word, so that the first runs weigh less.
func (s *Search) Shares(words [][]byte, ids []string, shares []float32) {
	s.words = s.words[:0]
	for _, w := range words {
		if len(w) <= maxWordBytes {
			s.words = append(s.words, s.of.word(w))
		}
	}
	g := s.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all.age(dayOf(s.at)); g.all.n == 0 {
		return
	}
	var of *found
	for _, word := range s.words {
		list := g.all.of[word]
		if len(list) == 0 {
			continue
		}
		if of == nil {
			of = s.of.find(ids)
		}
		of.share(list, shares, 1/float32(len(s.words)))
	}
	if of != nil {
		of.repeat(shares)
	}
}

// maxFound bounds the tools of one search.
const maxFound = 128

// found are the tools that a search has found, in a table with room for twice as many.
type found struct {
	tools []uint64
	first []uint8             // of each tool, the first equal one
	slots [2 * maxFound]uint8 // by the last bits of the hash or after them, the number of a tool and 1; 0: none
}

// find returns the tools of ids.
func (m *Memory) find(ids []string) *found {
	ids = ids[:min(len(ids), maxFound)]
	f := &found{tools: make([]uint64, len(ids)), first: make([]uint8, len(ids))}
	for i, id := range ids {
		f.tools[i] = m.tool(id)
		at := f.slot(f.tools[i])
		if *at == 0 {
			*at = uint8(i + 1)
		}
		f.first[i] = *at - 1
	}
	return f
}

// slot returns the slot that has a tool, or the free one for it.
func (f *found) slot(tool uint64) *uint8 {
	for h := uint8(tool); ; h++ {
		if at := &f.slots[h]; *at == 0 || f.tools[*at-1] == tool {
			return at
		}
	}
}

// share adds to the shares of the tools their parts in the counts of one word, of which only those of
// these tools exist: others may be hidden from the caller.
func (f *found) share(list []toolCount, shares []float32, weight float32) {
	sum, n := float32(1), 0
	var hits [maxFound]struct {
		at    uint8
		count float32
	}
	for i := range list {
		if at := *f.slot(list[i].tool); at != 0 {
			hits[n].at, hits[n].count = at-1, list[i].count
			sum += list[i].count
			n++
		}
	}
	for _, hit := range hits[:n] {
		shares[hit.at] += weight * hit.count / sum
	}
}

// repeat gives tools the shares of equal ones, such as other versions.
func (f *found) repeat(shares []float32) {
	for i, first := range f.first {
		shares[i] = shares[first]
	}
}

// Shown says which tools the answer to the search has: runs of them in the session count.
func (s *Search) Shown(session *mcp.Session, ids []string) {
	if s == nil || len(s.words) == 0 || len(s.words) > maxWords || len(ids) == 0 {
		return
	}
	for _, id := range ids {
		s.tools = append(s.tools, s.of.tool(id))
	}
	session.Value(trailKey{s.of}, func() any { return new(trail) }).(*trail).add(s)
}

// trailKey is the key of a session's trail.
type trailKey struct{ of *Memory }

// trail has the last searches of a session.
type trail struct {
	mu       sync.Mutex // guards below
	searches []*Search  // the newest last
}

func (t *trail) add(s *Search) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.searches = append(t.searches, s)
	t.searches = slices.Delete(t.searches, 0, max(0, len(t.searches)-maxSearches))
}

// find returns the newest search of a group whose answer has a tool, nil if there is none. The caller
// holds mu.
func (t *trail) find(key string, tool uint64, now time.Time) *Search {
	for _, s := range slices.Backward(t.searches) {
		if s.group.key == key && now.Sub(s.at) < searchAge && slices.Contains(s.tools, tool) {
			return s
		}
	}
	return nil
}

func (t *trail) has(key string, tool uint64, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.find(key, tool, now) != nil
}

// take returns the words of the newest search of a group whose answer has a tool, which is then taken off
// it. It returns nil if there is none.
func (t *trail) take(key string, tool uint64, now time.Time) []uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.find(key, tool, now)
	if s == nil {
		return nil
	}
	s.tools = slices.DeleteFunc(s.tools, func(other uint64) bool { return other == tool })
	return s.words
}
