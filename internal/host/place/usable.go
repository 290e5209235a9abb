package place

import (
	"io/fs"
	"os"
	"path/filepath"
)

// maxChecked is how many files Usable looks at.
const maxChecked = 1000

// Usable returns the first error that this user meets in a folder: one that it may not read, or a file that it may
// not write, such as after weir was started once by another user. It looks at some files, and changes none.
func Usable(dir string) error {
	left := maxChecked
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if left--; left < 0 {
			return fs.SkipAll
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return f.Close()
	})
}
