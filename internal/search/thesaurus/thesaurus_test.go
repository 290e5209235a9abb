package thesaurus

import (
	"encoding/binary"
	"slices"
	"testing"
)

func near(stem string) (stems []string) {
	Near([]byte(stem), func(other string, _ float32) { stems = append(stems, other) })
	return stems
}

// TestWords checks some pairs that people and tools use for one thing. Stems, as in the index.
func TestWords(t *testing.T) {
	for _, c := range []struct{ word, want string }{
		{"folder", "directori"}, {"sum", "total"}, {"rememb", "memori"}, {"sheet", "worksheet"},
		{"page", "webpag"}, {"delet", "remov"}, {"websit", "url"}, {"histori", "past"},
	} {
		if !slices.Contains(near(c.word), c.want) {
			t.Errorf("%s is not near %s: %v", c.want, c.word, near(c.word))
		}
	}
	for _, word := range []string{"", "a", "zzzzz", "\x00", "directori\x00", "\xff"} {
		if got := near(word); got != nil {
			t.Errorf("%q has neighbours %v", word, got)
		}
	}
}

// TestTable reads the whole table: stems ascend, neighbours are other stems, nearest first.
func TestTable(t *testing.T) {
	n := number(0)
	if n < 10_000 {
		t.Fatalf("%d stems", n)
	}
	for i := range n {
		stem := text(i, n)
		if i > 0 && text(i-1, n) >= stem {
			t.Fatalf("stem %d, %q, follows %q", i, stem, text(i-1, n))
		}
		last, count := float32(1), 0
		Near([]byte(stem), func(other string, similarity float32) {
			if other == stem || other == "" || similarity > last || similarity < least {
				t.Fatalf("%q: neighbour %q at %v after %v", stem, other, similarity, last)
			}
			last = similarity
			count++
		})
		if count > maxNeighbours {
			t.Fatalf("%q has %d neighbours", stem, count)
		}
	}
}

func TestEncode(t *testing.T) {
	data, err := Encode(map[string][]Neighbour{"a": {{"c", .5}, {"b", .9}, {"d", .1}}, "b": {{"a", .9}}})
	if err != nil {
		t.Fatal(err)
	}
	old := table
	defer func() { table = old }()
	table = string(data)
	if got := binary.LittleEndian.Uint32(data); got != 4 {
		t.Errorf("%d stems, want those of pairs that are too far apart too", got)
	}
	if got := near("a"); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("near a: %v", got)
	}
	if got := near("c"); got != nil {
		t.Errorf("near c: %v", got)
	}
}

func TestNearAllocatesNothing(t *testing.T) {
	stem, sum := []byte("folder"), float32(0)
	add := func(_ string, similarity float32) { sum += similarity }
	if n := testing.AllocsPerRun(100, func() { Near(stem, add) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
