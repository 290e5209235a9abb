package part

import (
	"errors"
	"net"
	"syscall"
)

import "fmt"

// A SetupError says why a gateway cannot start, and which configuration, flag or file the operator
// must change. Retrying does not help.
type SetupError struct{ Err error }

func (e *SetupError) Error() string { return e.Err.Error() }
func (e *SetupError) Unwrap() error { return e.Err }

// Setupf returns a SetupError.
func Setupf(format string, args ...any) error {
	return &SetupError{fmt.Errorf(format, args...)}
}

// CannotListen returns a *SetupError that says why an address cannot be listened on and what to do
// instead.
func CannotListen(addr string, err error, instead string) error {
	reason := "the system refuses it"
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		reason = "a program listens there already, perhaps another weir"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		reason = "it is no address of this machine"
	case errors.Is(err, syscall.EACCES):
		reason = "ports below 1024 need the right to them"
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return Setupf("cannot listen on %s: %s (%w); %s", addr, reason, err, instead)
}
