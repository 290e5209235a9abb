package socketio

import (
	"encoding/json"
	"errors"
	"strconv"

	"github.com/weir-mcp/weir/socketio/engineio"
)

// A Reason says in a few words why a socket was disconnected. Those of engineio occur, too.
type Reason = engineio.Reason

// Why a socket was disconnected, beside what can happen to its connection.
const (
	ReasonClientDisconnect Reason = "client namespace disconnect" // seen by a server: the client left the namespace
	ReasonServerDisconnect Reason = "server namespace disconnect" // seen by a server: Socket.Disconnect
	ReasonByServer         Reason = "io server disconnect"        // seen by a client: the server disconnected it
	ReasonByClient         Reason = "io client disconnect"        // seen by a client: Client.Close
	ReasonConnectTimeout   Reason = "connect timeout"             // the client joined no namespace in time
)

// Errors of sockets.
var (
	// ErrDisconnected is returned where there is no connection (any more), also to those who wait for an ack.
	ErrDisconnected = errors.New("socketio: disconnected")
	// ErrAckTimeout is given to the callback of EmitFunc when no ack came in time.
	ErrAckTimeout = errors.New("socketio: no ack in time")
	// ErrTooManyAcks is returned when a socket has as many unanswered emits as it may.
	ErrTooManyAcks = errors.New("socketio: too many emits wait for an ack")
	// ErrNoAckWanted is returned by Event.Ack when the peer asked for none, or has got it.
	ErrNoAckWanted = errors.New("socketio: the peer waits for no ack")
)

// A ConnectError is a refusal to connect to a namespace. A server's middleware returns one to choose what the client is told;
// a client gets one from Connect.
type ConnectError struct {
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"` // nil: none
}

func (e *ConnectError) Error() string { return "socketio: connection refused: " + e.Message }

// refusedMessage is what a client is told when middleware refuses it with an error that is no ConnectError: the error itself
// may say more than a stranger should know.
const refusedMessage = "Connection refused by server"

// A Payload is the arguments of an event or an ack.
type Payload struct {
	Args        []json.RawMessage
	Attachments [][]byte // what placeholders in Args stand for
}

// Arg is the n-th argument, or nil where there are fewer.
func (p Payload) Arg(n int) json.RawMessage {
	if n < 0 || n >= len(p.Args) {
		return nil
	}
	return p.Args[n]
}

// Attachment is the binary data that an argument, or a value inside one, stands for. It reports false if the value is no
// placeholder, or one of an attachment that there is not.
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

// Placeholder is the JSON that stands for attachment n.
func Placeholder(n int) json.RawMessage {
	return json.RawMessage(`{"_placeholder":true,"num":` + strconv.Itoa(n) + `}`)
}
