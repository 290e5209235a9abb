//go:build unix

package place

import (
	"os"

	"golang.org/x/sys/unix"
)

// openOnce opens a file for reading. It does not wait if the file is a FIFO by now.
func openOnce(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
}
