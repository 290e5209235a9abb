//go:build !linux

package proctest

import "syscall"

// showsVariables says that the system does not show the variables of processes.
const showsVariables = false

func apart() *syscall.SysProcAttr { return nil }

func endMarked(string) {}

func isMarked(int, string) bool { return false }
