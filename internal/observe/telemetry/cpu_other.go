//go:build !unix

package telemetry

import "time"

// CPU returns the CPU time that this process has used, 0 where the system does not tell it.
func CPU() time.Duration { return 0 }
