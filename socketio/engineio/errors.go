package engineio

import (
	"errors"
	"fmt"
	"net/http"
)

// Reason is a short text that says why a session ended. Other implementations use the same texts.
type Reason string

// Reasons for the end of a session.
const (
	ReasonTransportClose Reason = "transport close"      // the peer closed, or its connection did
	ReasonTransportError Reason = "transport error"      // the connection broke, or the peer broke the rules of its transport
	ReasonPingTimeout    Reason = "ping timeout"         // the peer did not answer a ping, or sent none, in time
	ReasonParseError     Reason = "parse error"          // the peer sent an invalid packet
	ReasonForcedClose    Reason = "forced close"         // Close was called
	ReasonShutdown       Reason = "server shutting down" // Server.Shutdown was called
	ReasonSlowConsumer   Reason = "slow consumer"        // the peer took too long to read its messages
)

// ErrClosed is returned by Send on a session that has ended.
var ErrClosed = errors.New("engineio: session is closed")

// ErrSlowConsumer is returned by Send when the session's queue is full. The session is closed.
var ErrSlowConsumer = errors.New("engineio: the peer does not read: its send queue is full")

// ErrNoRoom is returned by Send for a large message if the bytes of Config.Memory are taken. Nothing is queued.
var ErrNoRoom = errors.New("engineio: there is no room for the message now: the bytes of limits.memory are taken")

// ErrTooLarge is returned by Send in a client if a message exceeds the limit that the server
// announced.
var ErrTooLarge = errors.New("engineio: message is too large for the server")

// ErrServerClosed is returned by Shutdown when it is called twice.
var ErrServerClosed = errors.New("engineio: server is shut down")

// errorCode is the code in a server's response to a refused request.
type errorCode int

const (
	codeTransportUnknown errorCode = iota
	codeSessionUnknown
	codeBadMethod
	codeBadRequest
	codeForbidden
	codeUnsupportedVersion
)

func (c errorCode) message() string {
	return [...]string{
		"Transport unknown", "Session ID unknown", "Bad handshake method", "Bad request", "Forbidden", "Unsupported protocol version",
	}[c]
}

func (c errorCode) status() int {
	if c == codeForbidden {
		return http.StatusForbidden
	}
	return http.StatusBadRequest
}

// Refusal is returned by Authenticate to refuse a client: the HTTP response to the handshake, the
// same on both transports.
type Refusal struct {
	Status int         // 0: 403
	Header http.Header // added to the response; may be nil
	Body   []byte      // JSON; nil: {"code":4,"message":"Forbidden"}
}

// HandshakeError is a server's refusal, as a client sees it.
type HandshakeError struct {
	Status int         // HTTP status
	Header http.Header // of the response
	Body   []byte      // of the response, its first 64 KiB over polling and its first 1 KiB over WebSocket
}

func (e *HandshakeError) Error() string {
	if len(e.Body) == 0 {
		return fmt.Sprintf("engineio: the server refused the handshake: %d %s", e.Status, http.StatusText(e.Status))
	}
	return fmt.Sprintf("engineio: the server refused the handshake: %d %s", e.Status, e.Body[:min(len(e.Body), 300)])
}

// CloseError is the error of an ended session.
type CloseError struct {
	Reason Reason
	Err    error // the cause seen on the wire; may be nil
}

func (e *CloseError) Error() string {
	if e.Err == nil {
		return "engineio: " + string(e.Reason)
	}
	return fmt.Sprintf("engineio: %s: %v", e.Reason, e.Err)
}

func (e *CloseError) Unwrap() error { return e.Err }
