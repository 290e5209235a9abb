//go:build !linux

package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

func become(string, []string) int {
	fmt.Fprintf(os.Stderr, "weir confine: there is none on %s\n", runtime.GOOS)
	return 126
}

// Landlock returns 0: there is none on this system.
func Landlock() int { return 0 }

// Watcher is for Linux.
type Watcher struct{}

// Watch returns an error: system calls cannot be watched on this system.
func Watch(string, func(Touch)) (*Watcher, error) {
	return nil, errors.New("system calls are watched on Linux only")
}

// Close does nothing.
func (*Watcher) Close() {}
