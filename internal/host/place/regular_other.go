//go:build !unix

package place

import "os"

func openOnce(path string) (*os.File, error) { return os.Open(path) }
