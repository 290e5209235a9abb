package search

import "hash/maphash"

// vocabulary numbers the terms of a view from 0 in the order in which they come. It knows a term
// only by its 64-bit hash, which has a seed of its own in each process, so texts cannot be made to
// collide. A segment has the hashes of its terms: after a change of one upstream, no term of the
// others is hashed or compared again. It is a hash table with linear probing, at most half full.
type vocabulary struct {
	slots []termSlot
	used  int
}

// termSlot is a slot; number 0 means empty.
type termSlot struct {
	hash   uint64
	number uint32 // counts from 1
}

// termSeed is the same for all segments and views.
var termSeed = maphash.MakeSeed()

func termHash[T string | []byte](term T) uint64 {
	switch term := any(term).(type) {
	case string:
		return maphash.String(termSeed, term)
	case []byte:
		return maphash.Bytes(termSeed, term)
	}
	panic("unreachable")
}

// newVocabulary returns a vocabulary with room for so many terms; it grows beyond.
func newVocabulary(terms int) vocabulary {
	size := 64
	for size < 2*terms {
		size *= 2
	}
	return vocabulary{slots: make([]termSlot, size)}
}

// at returns the slot of the hash, or the empty slot for it.
func (v *vocabulary) at(hash uint64) *termSlot {
	mask := uint64(len(v.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		if s := &v.slots[i]; s.number == 0 || s.hash == hash {
			return s
		}
	}
}

// number returns the number of the term with this hash, and whether the term is new.
func (v *vocabulary) number(hash uint64) (number uint32, fresh bool) {
	s := v.at(hash)
	if s.number > 0 {
		return s.number - 1, false
	}
	if v.used++; 2*v.used > len(v.slots) {
		old := v.slots
		v.slots = make([]termSlot, 2*len(old))
		for _, s := range old {
			if s.number > 0 {
				*v.at(s.hash) = s
			}
		}
		s = v.at(hash)
	}
	*s = termSlot{hash, uint32(v.used)}
	return uint32(v.used - 1), true
}

// find returns the number of the term with this hash.
func (v *vocabulary) find(hash uint64) (uint32, bool) {
	s := v.at(hash)
	return s.number - 1, s.number > 0
}
