package upstream

import (
	"bytes"
	"context"
	"errors"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// attachedCopies is how many copies of a request are made for an attached server before it leaves the gateway: the event
// for the hub, which counts its own.
const attachedCopies = 1

// countedStream is a Stream whose large messages are counted when they have arrived, until their call has ended, or
// are in files where there is no room.
type countedStream struct {
	mcp.Stream
	srv *server
}

// ReadBlock is Read with the Block that contains a large message.
func (s countedStream) ReadBlock() (data []byte, block *memory.Block, err error) {
	data, err = s.Read()
	if err != nil || len(data) <= memory.Free {
		return data, nil, err
	}
	b := s.srv.room().NewBuffer(context.Background(), s.srv.maxResponse())
	_, err = b.Write(data)
	if err == nil {
		block, err = b.Block()
	}
	if err == nil && !block.InFile() {
		data, err = block.Open(context.Background()) // returns at once for a message in memory
		return data, block, err
	}
	if err == nil {
		return nil, block, nil
	}
	b.Drop()
	head, _ := jsonrpc.Skim(bytes.NewReader(data)) // as much as can be read of it
	why := mcp.NoRoom(s.srv.who, err)
	if errors.Is(err, memory.ErrTooLarge) {
		why = mcp.Errorf(mcp.KindUpstreamProtocol, "%s sent more than %d bytes", s.srv.who, s.srv.maxResponse())
	}
	return nil, nil, &mcp.LostMessage{Head: head, Err: why}
}
