package confine

import "net/netip"

// Use is how a program uses a file.
type Use int

// Uses of files. Create is for a change of the folder that the file is in.
const (
	Nothing Use = iota
	Read
	Write
	Create
	Connect
)

// Touch is a file that a watched program names in a system call, or an address that it connects to.
type Touch struct {
	Path    string // absolute; "" for an address
	Use     Use
	Address netip.AddrPort
}
