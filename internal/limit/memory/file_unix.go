//go:build unix

package memory

import (
	"fmt"
	"os"
	"syscall"
)

// unname takes the file's name away: it is gone with the process, however that
// ends.
func unname(f *os.File) error { return os.Remove(f.Name()) }

func closeFile(f *os.File) { _ = f.Close() } // its content is not needed any more

// mapFile maps a file into memory, to be read only.
func mapFile(f *os.File, size int64) ([]byte, error) {
	if size == 0 {
		return []byte{}, nil
	}
	if int64(int(size)) != size {
		return nil, fmt.Errorf("%d bytes cannot be addressed here", size)
	}
	return syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
}

func unmapFile(data []byte) {
	if len(data) > 0 {
		_ = syscall.Munmap(data) // fails only for bytes that were not mapped
	}
}

// mapsFiles says that the bytes of mapFile are no memory of the heap.
const mapsFiles = true
