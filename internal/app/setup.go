package app

import "fmt"

// A SetupError says why a gateway cannot start, and which configuration, flag or file the operator
// must change. Retrying does not help.
type SetupError struct{ Err error }

func (e *SetupError) Error() string { return e.Err.Error() }
func (e *SetupError) Unwrap() error { return e.Err }

// setupf returns a SetupError.
func setupf(format string, args ...any) error {
	return &SetupError{fmt.Errorf(format, args...)}
}
