//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// screenWidth returns the columns of the terminal behind f, 0 if f is none.
func screenWidth(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	switch {
	case err != nil:
		return 0
	case size.Col == 0: // a terminal without a size, such as a serial line
		return 80
	}
	return int(size.Col)
}
