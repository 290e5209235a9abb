package thesaurus

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Neighbour is a stem near another one. Similarity is the cosine of their vectors.
type Neighbour struct {
	Stem       string
	Similarity float64
}

// maxNeighbours is how many neighbours a stem may have.
const maxNeighbours = 24

// Encode writes the table for these neighbours: of each stem the nearest maxNeighbours that are within
// reach. It fails if there are more stems than a table can number.
func Encode(near map[string][]Neighbour) ([]byte, error) {
	all := map[string]bool{}
	for stem, list := range near {
		all[stem] = true
		for _, n := range list {
			all[n.Stem] = true
		}
	}
	stems := slices.Sorted(maps.Keys(all))
	if len(stems) > math.MaxUint16 {
		return nil, fmt.Errorf("thesaurus: %d stems, a table numbers %d", len(stems), math.MaxUint16)
	}
	numbers := make(map[string]uint16, len(stems))
	for i, stem := range stems {
		numbers[stem] = uint16(i)
	}
	begins, firsts := []uint32{0}, []uint32{0}
	var texts, neighbours []byte
	for _, stem := range stems {
		texts = append(texts, stem...)
		begins = append(begins, uint32(len(texts)))
		for _, n := range nearest(near[stem]) {
			neighbours = binary.LittleEndian.AppendUint16(neighbours, numbers[n.Stem])
			neighbours = append(neighbours, byte(math.Round(255*(min(n.Similarity, 1)-least)/(1-least))))
		}
		firsts = append(firsts, uint32(len(neighbours)/neighbourSize))
	}
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(stems)))
	for _, x := range slices.Concat(begins, firsts) {
		out = binary.LittleEndian.AppendUint32(out, x)
	}
	return append(append(out, texts...), neighbours...), nil
}

// nearest returns the nearest neighbours of a list, by descending similarity, then by stem.
func nearest(list []Neighbour) []Neighbour {
	list = slices.DeleteFunc(slices.Clone(list), func(n Neighbour) bool { return n.Similarity < least })
	slices.SortFunc(list, func(a, b Neighbour) int {
		return cmp.Or(cmp.Compare(b.Similarity, a.Similarity), cmp.Compare(a.Stem, b.Stem))
	})
	return list[:min(len(list), maxNeighbours)]
}
