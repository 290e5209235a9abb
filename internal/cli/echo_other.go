//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package cli

import (
	"errors"
	"os"
)

// hideInput fails: a password is better not typed where all can see it.
func hideInput(*os.File) (restore func(), err error) {
	return nil, errors.New("weir cannot switch its echo off on this system")
}
