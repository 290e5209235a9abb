package usage

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Counting leaves most of a processor to calls, and closing it does not wait for a pause between
// two results.
func TestCountingRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k counter
		start := time.Now()
		var ends []time.Duration
		job := func() {
			time.Sleep(time.Second)
			ends = append(ends, time.Since(start))
		}
		for range 4 {
			if !k.push(1, job) {
				t.Fatal("refused")
			}
		}
		time.Sleep(15 * time.Second) // the second has been counted at 11 s
		k.close()
		want := []time.Duration{1 * time.Second, 11 * time.Second, 16 * time.Second, 17 * time.Second}
		if !slices.Equal(ends, want) {
			t.Errorf("counted at %v, want %v", ends, want)
		}
		if k.push(1, job) {
			t.Error("work was taken after the end")
		}
	})
}
