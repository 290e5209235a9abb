//go:build !race && (linux || darwin)

package worker

// shadow is the memory of the race detector, in bytes.
const shadow = 0
