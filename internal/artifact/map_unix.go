//go:build unix

package artifact

import (
	"fmt"
	"os"
	"syscall"
)

// mapFile maps a file into memory, to be read only. An empty file is nil.
func mapFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only: the mapping outlives it
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return nil, err
	}
	if int64(int(info.Size())) != info.Size() {
		return nil, fmt.Errorf("%s: %d bytes cannot be addressed here", name, info.Size())
	}
	return syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
}

func unmapFile(data []byte) {
	if data != nil {
		_ = syscall.Munmap(data) // fails only for bytes that were not mapped
	}
}

// lockFile makes and locks a file; a lock ends with its process. Without wait it
// fails if another has it.
func lockFile(name string, wait bool) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		if err = syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

func unlockFile(f *os.File) { _ = f.Close() } // closing unlocks; nothing was written
