package mcp

import (
	"errors"
	"fmt"

	"github.com/weir-mcp/weir/internal/memory"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// NoRoom returns the error of KindMemory for a message that found no room: what
// says in a few words whose it is. Any other error is returned as it is.
func NoRoom(what string, err error) error {
	if full := (*memory.Error)(nil); errors.As(err, &full) {
		return &Error{Kind: KindMemory, Message: fmt.Sprintf("%s: %v", what, full), Err: err}
	}
	return err
}

// LostMessage is the cause of an error of Stream.Read that stands for one message
// alone: what it was is told as far as it is known, and the stream goes on.
type LostMessage struct {
	Head jsonrpc.Head
	Err  error // why
}

// Error implements error.
func (e *LostMessage) Error() string { return e.Err.Error() }

// Unwrap returns why the message is lost.
func (e *LostMessage) Unwrap() error { return e.Err }

// blockStream is a Stream whose messages may be in files. ReadBlock is Read with
// the Block that the message is of, which the caller releases: nil where it is
// not counted. Of a message in a file there is no data.
type blockStream interface {
	ReadBlock() (data []byte, block *memory.Block, err error)
}

// next reads the next message.
func (c *Conn) next() (data []byte, block *memory.Block, err error) {
	if s, ok := c.stream.(blockStream); ok {
		return s.ReadBlock()
	}
	data, err = c.stream.Read()
	return data, nil, err
}

// take handles what next has read.
func (c *Conn) take(data []byte, block *memory.Block) {
	if block != nil && block.InFile() {
		c.takeFile(block)
		return
	}
	c.incoming = block
	c.receive(data)
	c.claim().Release()
}

// claim returns the Block of what is being received, once: it is of the first call
// that it holds a response for.
func (c *Conn) claim() *memory.Block {
	block := c.incoming
	c.incoming = nil
	return block
}

// takeFile handles a message that is in a file. A response waits with its call for
// its turn to be read, so that the reader does not; anything else as large is
// seldom, and waited for.
func (c *Conn) takeFile(block *memory.Block) {
	head, err := jsonrpc.Skim(block.Reader())
	if err == nil && c.opts.Client && head.Response && !head.Request && head.ID != "" {
		n, ok := head.ID.Int()
		if !ok || !c.settle(n, event{final: true, block: block, unread: true}) {
			c.opts.Logger.Debug("a response to no call in flight", "peer", c.opts.Name)
			block.Release()
		}
		return
	}
	var data []byte
	if err == nil {
		data, err = block.Open(c.ctx)
	}
	if err != nil {
		c.opts.Logger.Warn("dropped a message", "peer", c.opts.Name, "bytes", block.Size(), "err", err)
		block.Release()
		return
	}
	data = append(make([]byte, 0, len(data)), data...) // how long it is used is not known
	block.Release()
	c.receive(data)
}

// lose tells the call whose response is lost, and reports whether the connection
// goes on: a response that tells no call ends it.
func (c *Conn) lose(lost *LostMessage, err error) bool {
	if lost.Head.Request || !lost.Head.Response {
		c.opts.Logger.Warn("dropped a message", "peer", c.opts.Name, "err", err)
		return true
	}
	n, ok := lost.Head.ID.Int()
	if !ok {
		return false
	}
	if !c.settle(n, event{final: true, err: err}) {
		c.opts.Logger.Debug("a response to no call in flight", "peer", c.opts.Name, "err", err)
	}
	return true
}

// settle gives a call its last event, and reports whether there is such a call.
func (c *Conn) settle(n int64, ev event) bool {
	c.mu.Lock()
	cl := c.calls[n]
	delete(c.calls, n)
	c.mu.Unlock()
	if cl == nil {
		return false
	}
	cl.push(ev)
	return true
}

// read returns the result of a response that has not been read yet.
func (cl *call) read(c *Conn, block *memory.Block) (result []byte, err error) {
	data, err := block.Open(cl.ctx)
	if err != nil {
		block.Release()
		return nil, NoRoom(fmt.Sprintf("%s answered %s with %d bytes", c.opts.Name, cl.method, block.Size()), err)
	}
	m, own, err := parseLarge(data)
	if err == nil && m.Method != "" {
		err = jsonrpc.ErrInvalid
	}
	switch {
	case err != nil:
		err = Errorf(KindUpstreamProtocol, "%s answered %s with a message that cannot be read: %w", c.opts.Name, cl.method, err)
	case m.Err != nil:
		err = jsonrpc.ParseError(m.Err) // a copy
	case !own:
		return block.Deliver(cl.ctx, m.Result), nil
	}
	block.Release()
	return m.Result, err
}

// parseLarge reads a message of which own says that it does not share data.
func parseLarge(data []byte) (m jsonrpc.Message, own bool, err error) {
	text := rawjson.RepairText(data)
	own = len(text) != len(data) || len(text) > 0 && &text[0] != &data[0]
	m, err = jsonrpc.Parse(text)
	return m, own, err
}
