//go:build !linux

package link

import "syscall"

// controlConn leaves connections as they are: their keep-alive says that the other machine is gone.
func controlConn(_, _ string, _ syscall.RawConn) error { return nil }
