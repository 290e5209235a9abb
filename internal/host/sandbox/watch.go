package sandbox

import "net/netip"

// A use is how a program uses a file.
type use int

// Uses of files. creates is for a change of the folder that the file is in.
const (
	nothing use = iota
	reads
	writes
	creates
	connects
)

// A touch is a file that a watched program names in a system call, or an address that it connects to.
type touch struct {
	path    string // absolute; "" for an address
	use     use
	address netip.AddrPort
}
