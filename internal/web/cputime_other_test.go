//go:build !unix

package web_test

import "time"

// processorTime returns the time of the clock, as processor time is not known here.
func processorTime() time.Duration { return time.Since(began) }
