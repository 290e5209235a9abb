//go:build !race

package app

// raced says that the race detector slows the tests down.
const raced = false
