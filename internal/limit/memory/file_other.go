//go:build !unix

package memory

import (
	"io"
	"os"
)

// unname leaves the name: a file that is open cannot be removed here.
func unname(*os.File) error { return nil }

func closeFile(f *os.File) {
	_ = f.Close() // its content is not needed any more
	_ = os.Remove(f.Name())
}

// mapFile reads the file, where files are not mapped.
func mapFile(f *os.File, size int64) ([]byte, error) {
	data := make([]byte, size)
	_, err := io.ReadFull(io.NewSectionReader(f, 0, size), data)
	return data, err
}

func unmapFile([]byte) {}

const mapsFiles = false
