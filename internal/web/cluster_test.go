package web

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestOneNodeHasNoNotice: a gateway that is no node of a cluster does not wait for other nodes when it ends.
func TestOneNodeHasNoNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Server // without a cluster, as with store: memory and store: file:DIR
		began := time.Now()
		retire(t.Context(), f.cluster)
		unlink(t.Context(), f.link)
		if took := time.Since(began); took != 0 {
			t.Errorf("the end of one gateway takes %v longer", took)
		}
	})
}
