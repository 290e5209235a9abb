//go:build !unix

package wsbench

import "time"

// processTime returns 0: CPU time is not measured here.
func processTime() time.Duration { return 0 }
