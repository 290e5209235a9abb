//go:build unix && !netbsd && !openbsd && !solaris && !aix

package doctor

import "golang.org/x/sys/unix"

// freeBytes returns the bytes that this user may still write.
func freeBytes(folder string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return 0, err
	}
	return uint64(max(0, int64(s.Bavail))) * uint64(s.Bsize), nil //nolint:unconvert // types differ by system
}
