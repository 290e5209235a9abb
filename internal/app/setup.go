package app

import "fmt"

// A SetupError says why a gateway cannot begin and what the operator must change: the configuration,
// a flag or a file that they name. Trying again does not help.
type SetupError struct{ Err error }

func (e *SetupError) Error() string { return e.Err.Error() }
func (e *SetupError) Unwrap() error { return e.Err }

// setupf returns a SetupError.
func setupf(format string, args ...any) error {
	return &SetupError{fmt.Errorf(format, args...)}
}
