//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package cli

import (
	"errors"
	"os"
)

// hideInput fails, because a password must not be typed visibly.
func hideInput(*os.File) (restore func(), err error) {
	return nil, errors.New("weir cannot switch its echo off on this system")
}
