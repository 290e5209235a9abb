package subscription

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestOwnedIsBounded: the oldest is forgotten, and no id is kept that is too long.
func TestOwnedIsBounded(t *testing.T) {
	var o owned
	for i := range 3 * maxOwned {
		o.add(fmt.Sprint(i), "ann")
		o.add(fmt.Sprint(i), "bob")
	}
	o.add("", "ann")
	o.add(strings.Repeat("x", maxOwnedID+1), "ann")
	if len(o.of) != maxOwned || len(o.ring) != maxOwned || o.of[fmt.Sprint(3*maxOwned-1)] != "ann" || o.of[fmt.Sprint(2*maxOwned-1)] != "" {
		t.Errorf("%d known, %d in the ring", len(o.of), len(o.ring))
	}
}
