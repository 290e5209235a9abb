package main

import (
	"math/bits"
	"time"
)

// histogram counts durations in buckets that are 1/128 of their value wide. The
// zero value is ready to use.
type histogram struct {
	n      int
	counts [64 << 7]uint32
}

// bucketOf has a bucket of its own for each of the first 256 nanoseconds and
// then 128 for each power of two.
func bucketOf(d time.Duration) int {
	v := uint64(max(d, 0))
	shift := max(bits.Len64(v)-8, 0)
	return shift<<7 + int(v>>shift)
}

// valueOf is the middle of a bucket.
func valueOf(bucket int) time.Duration {
	if bucket < 256 {
		return time.Duration(bucket)
	}
	shift := bucket>>7 - 1
	return time.Duration(uint64(bucket-shift<<7)<<shift + 1<<shift/2)
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucketOf(d)]++
	h.n++
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
}

// quantile is the duration that the share q of all does not exceed; 0 where
// there are none.
func (h *histogram) quantile(q float64) time.Duration {
	rank := int(q * float64(h.n))
	for i, n := range h.counts {
		if rank -= int(n); rank < 0 {
			return valueOf(i)
		}
	}
	return 0
}
