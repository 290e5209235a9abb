package natsserver

import (
	"testing"
	"time"
)

// A variable that the engine has renamed or dropped would be weir's alone: it begins at 0, and setting it does nothing.
func TestElectionTimes(t *testing.T) {
	if want := [3]time.Duration{4 * time.Second, 9 * time.Second, time.Second}; engineTimes != want {
		t.Errorf("the engine's times of elections and heartbeats are %v, want %v: look at its raft.go", engineTimes, want)
	}
}
