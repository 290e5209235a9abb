package memory

import (
	"math"
	"testing"
)

func TestMemoryLimit(t *testing.T) {
	const mb = 1 << 20
	for _, tt := range []struct{ configured, group, want int64 }{
		{0, 0, 256 * mb},
		{0, 4096 * mb, 256 * mb},
		{0, 300 * mb, 150 * mb},
		{0, 10 * mb, 8 * mb},
		{1024 * mb, 512 * mb, 1024 * mb}, // who says so knows
	} {
		if got := limitOf(tt.configured, tt.group); got != tt.want {
			t.Errorf("%d configured, %d of the group: %d, want %d", tt.configured, tt.group, got, tt.want)
		}
	}
	if got := heapLimit(512*mb, math.MaxInt64); got != 384*mb {
		t.Errorf("the heap has %d", got)
	}
	if got := heapLimit(512*mb, 100*mb); got != 100*mb {
		t.Errorf("a limit that is in force becomes %d", got)
	}
}
