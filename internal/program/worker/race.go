//go:build race && (linux || darwin)

package worker

// shadow is the memory of the race detector, in bytes. Tests of other packages start themselves as workers.
const shadow = 1 << 46
