package socketio

import (
	"encoding/json"
	"errors"
	"strconv"

	"github.com/weir-mcp/weir/socketio/engineio"
)

// Reason is a short text that says why a socket was disconnected. It may be one of engineio's
// reasons.
type Reason = engineio.Reason

// Reasons for the end of a socket, in addition to the reasons of its connection.
const (
	ReasonClientDisconnect Reason = "client namespace disconnect" // seen by a server: the client left the namespace
	ReasonServerDisconnect Reason = "server namespace disconnect" // seen by a server: Socket.Disconnect
	ReasonByServer         Reason = "io server disconnect"        // seen by a client: the server disconnected it
	ReasonByClient         Reason = "io client disconnect"        // seen by a client: Client.Close
	ReasonConnectTimeout   Reason = "connect timeout"             // the client joined no namespace in time
)

// Errors of sockets.
var (
	// ErrDisconnected is returned without a connection, and by pending emits whose connection ends.
	ErrDisconnected = errors.New("socketio: disconnected")
	// ErrAckTimeout is given to the callback of EmitFunc when no ack came in time.
	ErrAckTimeout = errors.New("socketio: no ack in time")
	// ErrTooManyAcks is returned if too many emits of a socket are unanswered.
	ErrTooManyAcks = errors.New("socketio: too many emits wait for an ack")
	// ErrNoAckWanted is returned by Event.Ack if the peer wants no ack or has received it.
	ErrNoAckWanted = errors.New("socketio: the peer waits for no ack")
)

// ConnectError is a refusal to connect to a namespace. A server's middleware returns one to set the
// error that the client sees; Connect returns one to a client.
type ConnectError struct {
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"` // nil: none
}

func (e *ConnectError) Error() string { return "socketio: connection refused: " + e.Message }

// refusedMessage is the message to a client when middleware returns an error that is not a
// ConnectError. That error may contain details that strangers must not see.
const refusedMessage = "Connection refused by server"

// Payload holds the arguments of an event or an ack.
type Payload struct {
	Args        []json.RawMessage
	Attachments [][]byte // referenced by placeholders in Args
	// Handed says that Args belong to the socket from then on, and that there are no Attachments. Within a process, such
	// arguments are not copied, and not counted again.
	Handed bool
}

// Arg returns the n-th argument, or nil if there are fewer.
func (p Payload) Arg(n int) json.RawMessage {
	if n < 0 || n >= len(p.Args) {
		return nil
	}
	return p.Args[n]
}

// Attachment returns the binary data that a placeholder refers to. It reports false if the value is
// not a placeholder, or its attachment is missing.
func (p Payload) Attachment(value json.RawMessage) ([]byte, bool) {
	var placeholder struct {
		Placeholder bool `json:"_placeholder"`
		Num         *int `json:"num"`
	}
	if json.Unmarshal(value, &placeholder) != nil || !placeholder.Placeholder || placeholder.Num == nil {
		return nil, false
	}
	n := *placeholder.Num
	if n < 0 || n >= len(p.Attachments) {
		return nil, false
	}
	return p.Attachments[n], true
}

// Placeholder returns the JSON placeholder of attachment n.
func Placeholder(n int) json.RawMessage {
	return json.RawMessage(`{"_placeholder":true,"num":` + strconv.Itoa(n) + `}`)
}
