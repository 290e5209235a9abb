//go:build unix

package telemetry

import (
	"time"

	"golang.org/x/sys/unix"
)

// CPU returns the CPU time that this process has used, 0 where the system does not tell it.
func CPU() time.Duration {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
