package mcp

import (
	"errors"
	"fmt"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// NoRoom returns the error for bytes that did not fit in memory. what names them in a few words. The kind is
// KindMemory for a message that is lost. For a copy that a call could not make it is KindOverloaded, or
// KindTooLarge if there is never room. Any other error is returned unchanged.
func NoRoom(what string, err error) error {
	full := (*memory.Error)(nil)
	if !errors.As(err, &full) {
		return err
	}
	kind := KindMemory
	switch {
	case full.Most > 0:
		kind = KindTooLarge
	case full.Unmade:
		kind = KindOverloaded
	}
	return &Error{Kind: kind, Message: fmt.Sprintf("%s: %v", what, full), Err: err}
}

// LostMessage is the cause of a Stream.Read error that concerns a single message. It says as much
// of the message as is known. The stream remains usable.
type LostMessage struct {
	Head jsonrpc.Head
	Err  error // the reason
}

// Error implements error.
func (e *LostMessage) Error() string { return e.Err.Error() }

// Unwrap returns the reason for the loss.
func (e *LostMessage) Unwrap() error { return e.Err }

// blockStream is a Stream whose messages may be in files. ReadBlock is Read with the Block that
// contains the message, which the caller releases. The Block is nil if the message is not counted.
// data is nil if the message is in a file.
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

// take handles a message that next returned.
func (c *Conn) take(data []byte, block *memory.Block) {
	if block != nil && block.InFile() {
		c.takeFile(block)
		return
	}
	c.incoming = block
	c.receive(data)
	c.claim().Release()
}

// claim returns the Block of the message being received, once. It belongs to the first call whose
// response is in it.
func (c *Conn) claim() *memory.Block {
	block := c.incoming
	c.incoming = nil
	return block
}

// takeFile handles a message that is in a file. A response is read later by its call, so that the
// reader does not wait. Other messages of that size are rare, and the reader waits for them.
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
	data = append(make([]byte, 0, len(data)), data...) // the handler may keep it for any time
	block.Release()
	c.receive(data)
}

// lose reports a lost response to its call, and returns whether the connection continues. If the
// call is unknown, the connection ends.
func (c *Conn) lose(lost *LostMessage, err error) bool {
	if lost.Head.Request || !lost.Head.Response {
		c.opts.Logger.Warn("dropped a message", "peer", c.opts.Name, "err", err)
		return true
	}
	n, ok := lost.Head.ID.Int()
	if !ok {
		return false
	}
	if !c.settle(n, event{final: true, err: Answered(err)}) {
		c.opts.Logger.Debug("a response to no call in flight", "peer", c.opts.Name, "err", err)
	}
	return true
}

// refuse answers a lost message of an agent, and returns whether the error concerns only one
// message. A request gets the error with its id, as far as the id is known. A lost response ends
// its call.
func (c *Conn) refuse(err error) bool {
	var lost *LostMessage
	k, _ := KindOf(err)
	if !errors.As(err, &lost) {
		if k == KindTooLarge {
			_ = c.send(c.ctx, outgoing{msg: jsonrpc.AppendError(nil, "", WireError(err, ""))})
		}
		return k == KindTooLarge
	}
	switch head := lost.Head; {
	case head.Response && !head.Request:
		if n, ok := head.ID.Int(); !ok || !c.settle(n, event{final: true, err: c.lost(err)}) {
			c.opts.Logger.Debug("a response to no call in flight", "peer", c.opts.Name, "err", err)
		}
	case head.Request && head.ID == "":
		c.opts.Logger.Warn("dropped a notification", "peer", c.opts.Name, "err", err)
	default:
		_ = c.send(c.ctx, outgoing{msg: jsonrpc.AppendError(nil, head.ID, WireError(err, ""))})
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
		return nil, Answered(NoRoom(fmt.Sprintf("%s answered %s with %d bytes", c.opts.Name, cl.method, block.Size()), err))
	}
	m, own, err := parseLarge(data)
	if err == nil && m.Method != "" {
		err = jsonrpc.ErrInvalid
	}
	switch {
	case err != nil:
		err = Answered(Errorf(KindUpstreamProtocol, "%s answered %s with a message that cannot be read: %w", c.opts.Name, cl.method, err))
	case m.Err != nil:
		err = jsonrpc.ParseError(m.Err) // a copy
	case !own:
		return block.Deliver(cl.ctx, m.Result), nil
	}
	block.Release()
	return m.Result, err
}

// parseLarge reads a message. own says that the message does not share data.
func parseLarge(data []byte) (m jsonrpc.Message, own bool, err error) {
	text := rawjson.RepairText(data)
	own = len(text) != len(data) || len(text) > 0 && &text[0] != &data[0]
	m, err = jsonrpc.Parse(text)
	return m, own, err
}
