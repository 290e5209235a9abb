package mcp

import (
	"context"

	"github.com/weir-mcp/weir/internal/limit/memory"
)

// outgoing is a message that waits to be written. rooms count it until it is written, or will not be; without any it does
// not count.
type outgoing struct {
	msg   []byte
	rooms []*memory.Block
}

// outgoingOf returns a message with the bytes that the call of ctx has taken for it, which the call does not have any
// more. moved is their number.
func outgoingOf(ctx context.Context, msg []byte, taken int64) (o outgoing, moved int64) {
	room, moved := memory.Detach(ctx, taken)
	if room == nil {
		return outgoing{msg: msg}, 0
	}
	return outgoing{msg, []*memory.Block{room}}, moved
}

// release gives back the room.
func (o outgoing) release() {
	for _, room := range o.rooms {
		room.Release()
	}
}
