package memory

import "syscall"

// letPagesGo has the system take a mapping's pages out of the process. They come
// back from the file when they are read.
func letPagesGo(data []byte) {
	if len(data) > 0 {
		_ = syscall.Madvise(data, syscall.MADV_DONTNEED) // advice only
	}
}
