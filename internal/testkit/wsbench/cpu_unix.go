//go:build unix

package wsbench

import (
	"syscall"
	"time"
)

// processTime returns the CPU time of this process.
func processTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
