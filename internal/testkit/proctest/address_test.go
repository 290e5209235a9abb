package proctest

import (
	"net"
	"testing"
)

// TestFreeAddresses: addresses differ, and programs may listen at them.
func TestFreeAddresses(t *testing.T) {
	all, err := FreeAddresses(50)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, address := range all {
		l, err := net.Listen("tcp", address)
		if err != nil || seen[address] {
			t.Fatalf("%s, seen %t: %v", address, seen[address], err)
		}
		defer l.Close()
		seen[address] = true
	}
	if len(all) != 50 {
		t.Errorf("%d addresses", len(all))
	}
}
