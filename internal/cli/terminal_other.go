//go:build !unix

package cli

import "os"

// screenWidth returns 0, so output is plain: weir cannot query terminals on this system.
func screenWidth(*os.File) int { return 0 }
