package authserver

import (
	"net/http"
)

// refusal is an error that a client is told.
type refusal struct {
	status    int
	code, why string
}

func (e *refusal) Error() string { return e.code + ": " + e.why }

func refused(code, why string) error { return &refusal{http.StatusBadRequest, code, why} }

// unknownClient refuses a client that has not shown who it is.
func unknownClient(why string) error {
	return &refusal{http.StatusUnauthorized, "invalid_client", why}
}
