package dataplane

import (
	"testing"

	"github.com/weir-mcp/weir/mcp"
)

// A principal reads a bounded number of kept results at once, and others are not concerned.
func TestReads(t *testing.T) {
	var r reads
	var ends []func()
	for range maxReads {
		done, err := r.begin("ann")
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, done)
	}
	_, err := r.begin("ann")
	if kind, _ := mcp.KindOf(err); kind != mcp.KindOverloaded {
		t.Errorf("one more: %v", err)
	}
	other, err := r.begin("bob")
	if err != nil {
		t.Fatal(err)
	}
	ends[0]()
	if ends[0], err = r.begin("ann"); err != nil {
		t.Errorf("after the end of one: %v", err)
	}
	for _, done := range append(ends, other) {
		done()
	}
	if len(r.of) != 0 {
		t.Errorf("%v are still counted", r.of)
	}
}
