package memory

import (
	"math"
	"os"
	"runtime/debug"
)

// PoolLimit returns the limit of a Pool: the configured one, or the default. The default is at most half of
// the control group's limit, so that the other half is left for everything else.
func PoolLimit(configured int64) int64 { return limitOf(configured, ownGroup()) }

func limitOf(configured, group int64) int64 {
	switch {
	case configured > 0:
		return configured
	case group > 0:
		return min(defaultLimit, max(group/2, leastMemory))
	}
	return defaultLimit
}

// leastMemory is the smallest default limit, however small the control group is.
const leastMemory = 8 << 20

func ownGroup() int64 { return groupLimit(os.DirFS("/")) }

// BoundHeap sets the garbage collector's memory limit to three quarters of the control group's, if
// there is one. The rest is for mapped files and server programs. Do not call it if GOMEMLIMIT is
// set.
func BoundHeap() {
	if group := ownGroup(); group > 0 {
		debug.SetMemoryLimit(heapLimit(group, debug.SetMemoryLimit(-1)))
	}
}

// heapLimit returns the heap limit for a control group's limit. It never exceeds the current limit
// now.
func heapLimit(group, now int64) int64 {
	if now <= 0 {
		now = math.MaxInt64
	}
	return min(now, group/4*3)
}
