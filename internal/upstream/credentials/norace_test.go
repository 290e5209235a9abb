//go:build !race

package credentials

// raced says that the race detector slows the tests down.
const raced = false
