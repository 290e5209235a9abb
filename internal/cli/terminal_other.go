//go:build !unix

package cli

import "os"

// screenWidth returns 0: output is plain where weir does not know the terminal.
func screenWidth(*os.File) int { return 0 }
