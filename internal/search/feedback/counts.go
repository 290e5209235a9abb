package feedback

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

const (
	// maxPairs bounds the pairs of a group. The weakest go first.
	maxPairs = 512
	// halfLife is the number of days in which a count halves.
	halfLife = 14
	// faint is the count below which a pair is forgotten.
	faint = 1. / 16
	// maxCount bounds a count, so that no number of runs makes one that lasts for years.
	maxCount = 1 << 16
)

// pair is a word of searches and a tool, as hashes.
type pair struct{ word, tool uint64 }

// counts are how often tools were run after searches with words, halved by the days since then. The
// zero value has none.
type counts struct {
	day int64 // since 1970, of the last halving; all pairs are as of it
	n   int   // pairs
	of  map[uint64][]toolCount
}

// toolCount is the count of a pair.
type toolCount struct {
	tool  uint64
	count float32
}

// age halves the counts by the days up to day, and forgets the faint ones. Days that have passed before
// count nothing: clocks of nodes differ.
func (c *counts) age(day int64) {
	if day <= c.day {
		return
	}
	days := day - c.day
	c.day = day
	if c.n == 0 {
		return
	}
	share := float32(math.Exp2(-float64(days) / halfLife))
	c.n = 0
	for word, list := range c.of {
		for i := range list {
			list[i].count *= share
		}
		if list = slices.DeleteFunc(list, func(t toolCount) bool { return t.count < faint }); len(list) == 0 {
			delete(c.of, word)
			continue
		}
		c.of[word] = list
		c.n += len(list)
	}
}

// add adds to the count of a pair.
func (c *counts) add(p pair, count float32) {
	list := c.of[p.word]
	if i := slices.IndexFunc(list, func(t toolCount) bool { return t.tool == p.tool }); i >= 0 {
		list[i].count = min(list[i].count+count, maxCount)
		return
	}
	if c.of == nil {
		c.of = map[uint64][]toolCount{}
	}
	c.of[p.word] = append(list, toolCount{p.tool, min(count, maxCount)})
	c.n++
}

// merge adds the counts of others, as of the later of both days.
func (c *counts) merge(others counts) {
	c.age(others.day)
	share := float32(math.Exp2(-float64(c.day-others.day) / halfLife))
	for word, list := range others.of {
		for _, t := range list {
			if count := t.count * share; count >= faint {
				c.add(pair{word, t.tool}, count)
			}
		}
	}
}

// entry is a pair with its count.
type entry struct {
	pair
	count float32
}

// entries returns all pairs, by word and tool.
func (c *counts) entries() []entry {
	all := make([]entry, 0, c.n)
	for word, list := range c.of {
		for _, t := range list {
			all = append(all, entry{pair{word, t.tool}, t.count})
		}
	}
	slices.SortFunc(all, byPair)
	return all
}

func byPair(a, b entry) int {
	return cmp.Or(cmp.Compare(a.word, b.word), cmp.Compare(a.tool, b.tool))
}

// bound forgets the weakest pairs over maxPairs.
func (c *counts) bound() {
	if c.n <= maxPairs {
		return
	}
	all := c.entries()
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(b.count, a.count) })
	day := c.day
	*c = counts{day: day}
	for _, e := range all[:maxPairs] {
		c.add(e.pair, e.count)
	}
}

// The form of a document:
//
//	version(1) day(4) marks(1) mark(8)… word(8) tool(8) count(4)…
//
// Marks name the last changes of it, and pairs are in ascending order.
const (
	formVersion = 1
	formHead    = 6
	markBytes   = 8
	pairBytes   = 20
	// maxMarks bounds the marks of a document. A process whose change got no answer finds its mark unless
	// as many others have changed the document meanwhile.
	maxMarks = 16
)

// record is the document of a group.
type record struct {
	counts
	marks []uint64
}

var errForm = errors.New("the counts of a group have another form")

// encode returns the document.
func (r *record) encode() []byte {
	out := make([]byte, 0, formHead+markBytes*len(r.marks)+pairBytes*r.n)
	out = append(out, formVersion)
	out = binary.BigEndian.AppendUint32(out, uint32(min(max(r.day, 0), math.MaxUint32)))
	out = append(out, byte(len(r.marks)))
	for _, mark := range r.marks {
		out = binary.BigEndian.AppendUint64(out, mark)
	}
	for _, e := range r.entries() {
		out = binary.BigEndian.AppendUint64(out, e.word)
		out = binary.BigEndian.AppendUint64(out, e.tool)
		out = binary.BigEndian.AppendUint32(out, math.Float32bits(e.count))
	}
	return out
}

// decode reads a document. An empty one has no counts.
func decode(raw []byte) (r record, err error) {
	if len(raw) == 0 {
		return r, nil
	}
	if len(raw) < formHead || raw[0] != formVersion || raw[5] > maxMarks {
		return r, errForm
	}
	r.day = int64(binary.BigEndian.Uint32(raw[1:]))
	marks, pairs := int(raw[5]), raw[formHead:]
	if len(pairs) < markBytes*marks || (len(pairs)-markBytes*marks)%pairBytes != 0 || (len(pairs)-markBytes*marks)/pairBytes > maxPairs {
		return record{}, errForm
	}
	for ; marks > 0; marks-- {
		r.marks = append(r.marks, binary.BigEndian.Uint64(pairs))
		pairs = pairs[markBytes:]
	}
	var last entry
	for ; len(pairs) > 0; pairs = pairs[pairBytes:] {
		e := entry{pair{binary.BigEndian.Uint64(pairs), binary.BigEndian.Uint64(pairs[8:])}, math.Float32frombits(binary.BigEndian.Uint32(pairs[16:]))}
		if !(e.count > 0 && e.count <= maxCount) || r.n > 0 && byPair(last, e) >= 0 {
			return record{}, errForm
		}
		r.add(e.pair, e.count)
		last = e
	}
	return r, nil
}

// mark notes a change. The oldest marks go.
func (r *record) mark(mark uint64) {
	r.marks = append(r.marks, mark)
	r.marks = slices.Delete(r.marks, 0, max(0, len(r.marks)-maxMarks))
}
