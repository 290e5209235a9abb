package search

import (
	"strconv"
	"testing"
)

// A vocabulary numbers terms in the order in which they come, also beyond the room that it began
// with, and finds each by its text in both forms.
func TestVocabulary(t *testing.T) {
	const terms = 5000
	v := newVocabulary(10)
	for n := range terms {
		if got, fresh := v.number(termHash("term" + strconv.Itoa(n))); got != uint32(n) || !fresh {
			t.Fatalf("term %d has number %d, new: %t", n, got, fresh)
		}
	}
	for n := range terms {
		term := "term" + strconv.Itoa(n)
		if got, fresh := v.number(termHash([]byte(term))); got != uint32(n) || fresh {
			t.Fatalf("term %d has number %d later, new: %t", n, got, fresh)
		}
		if got, ok := v.find(termHash(term)); got != uint32(n) || !ok {
			t.Fatalf("term %d is found as %d: %t", n, got, ok)
		}
	}
	if _, ok := v.find(termHash("term")); ok {
		t.Error("a term that was never numbered is found")
	}
	if 2*v.used > len(v.slots) {
		t.Errorf("%d of %d slots are used", v.used, len(v.slots))
	}
}
