package agent

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio"
)

// Bounds of one channel.
const (
	maxChannelMessages = 4096
	maxChannelBytes    = 64 << 20 // unread messages
	maxSigned          = 4096     // tool calls in flight whose results must be signed
)

// channel is an mcp.Stream to one MCP server of a Computer.
type channel struct {
	client   *Client
	id       string
	computer string
	key      ed25519.PublicKey // nil: results are not checked

	ready chan struct{} // capacity 1: messages are queued, or the channel has ended

	mu     sync.Mutex // guards below
	queue  [][]byte
	size   int
	err    error                 // the reason of the end
	tools  map[jsonrpc.ID]string // of calls in flight, if results are checked
	closed bool
}

var _ mcp.Stream = (*channel)(nil)

// OpenMCP opens a channel to one MCP server of a weir Computer: a Stream for mcp.NewConn that carries
// all of MCP. Closing the channel ends the session with the MCP server. The channel also ends with
// the connection, and when the Computer leaves.
func (c *Client) OpenMCP(ctx context.Context, computer, server string) (mcp.Stream, error) {
	ch := &channel{client: c, id: NewReqID(), computer: computer, key: c.key(computer), ready: make(chan struct{}, 1), tools: map[jsonrpc.ID]string{}}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, errClosed
	}
	c.channels[ch.id] = ch
	c.mu.Unlock()
	var none json.RawMessage
	err := c.ask(ctx, smcp.EventMCP, smcp.MCPRequest{Call: c.base(computer), Server: server, Channel: ch.id, Op: smcp.OpOpen}, &none)
	if err != nil {
		c.forget(ch)
		return nil, err
	}
	return ch, nil
}

var errClosed = errors.New("the agent was closed")

func (c *Client) forget(ch *channel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.channels, ch.id)
}

// dropChannels ends the channels to a Computer, or all channels if computer is "".
func (c *Client) dropChannels(computer, reason string) {
	c.mu.Lock()
	var gone []*channel
	for id, ch := range c.channels {
		if computer == "" || ch.computer == computer {
			gone = append(gone, ch)
			delete(c.channels, id)
		}
	}
	c.mu.Unlock()
	for _, ch := range gone {
		ch.end(mcp.Errorf(mcp.KindUpstreamUnavailable, "computer %q: %s", ch.computer, reason))
	}
}

// message handles notify:mcp.
func (c *Client) message(e *socketio.Event) {
	var m smcp.MCPMessage
	if e.Decode(0, &m) != nil {
		return
	}
	c.mu.Lock()
	ch := c.channels[m.Channel]
	c.mu.Unlock()
	if ch == nil || ch.computer != m.Computer {
		return // late, or for another agent
	}
	if m.Closed != "" {
		c.forget(ch)
		ch.end(mcp.Errorf(mcp.KindUpstreamUnavailable, "computer %q: %s", ch.computer, m.Closed))
		return
	}
	ch.push(m.Message)
}

func (ch *channel) push(msg []byte) {
	ch.mu.Lock()
	if ch.err == nil && (len(ch.queue) >= maxChannelMessages || ch.size+len(msg) > maxChannelBytes) {
		ch.err = mcp.Errorf(mcp.KindOverloaded, "computer %q: more messages than are read", ch.computer)
	}
	if ch.err == nil {
		ch.queue = append(ch.queue, ch.checked(msg))
		ch.size += len(msg)
	}
	ch.mu.Unlock()
	ch.wake()
}

func (ch *channel) wake() {
	select {
	case ch.ready <- struct{}{}:
	default:
	}
}

func (ch *channel) end(err error) {
	ch.mu.Lock()
	if ch.err == nil {
		ch.err = err
	}
	ch.mu.Unlock()
	ch.wake()
}

// Read implements mcp.Stream.
func (ch *channel) Read() ([]byte, error) {
	for {
		ch.mu.Lock()
		if len(ch.queue) > 0 {
			msg := ch.queue[0]
			ch.queue = ch.queue[1:]
			ch.size -= len(msg)
			ch.mu.Unlock()
			return msg, nil
		}
		err := ch.err
		ch.mu.Unlock()
		if err != nil {
			ch.wake() // for the next Read
			return nil, err
		}
		<-ch.ready
	}
}

// Write implements mcp.Stream.
func (ch *channel) Write(msg []byte) error {
	ch.mu.Lock()
	err := ch.err
	if err == nil && ch.key != nil {
		err = ch.note(msg)
	}
	ch.mu.Unlock()
	if err != nil {
		return err
	}
	return ch.client.member.Emit(smcp.EventMCP, smcp.MCPRequest{
		Call: smcp.Call{Agent: ch.client.o.Name, ReqID: ch.id, Computer: ch.computer}, Channel: ch.id, Op: smcp.OpSend, Message: msg,
	})
}

// Close implements mcp.Stream.
func (ch *channel) Close() error {
	ch.mu.Lock()
	first := !ch.closed
	ch.closed = true
	live := ch.err == nil
	if live {
		ch.err = io.EOF
	}
	ch.mu.Unlock()
	ch.client.forget(ch)
	ch.wake()
	if first && live {
		return ch.client.member.Emit(smcp.EventMCP, smcp.MCPRequest{
			Call: smcp.Call{Agent: ch.client.o.Name, ReqID: ch.id, Computer: ch.computer}, Channel: ch.id, Op: smcp.OpClose,
		})
	}
	return nil
}

// note remembers a tool call whose result must be signed. The caller holds mu.
func (ch *channel) note(msg []byte) error {
	m, err := jsonrpc.Parse(msg)
	if err != nil || m.Kind() != jsonrpc.Request || m.Method != "tools/call" {
		return nil // the message has no result to check
	}
	if len(ch.tools) >= maxSigned {
		return mcp.Errorf(mcp.KindOverloaded, "computer %q has %d calls in flight", ch.computer, len(ch.tools))
	}
	ch.tools[m.ID] = rawjson.Text(rawjson.Get(m.Params, "name"))
	return nil
}

// checked returns the message, or an error response in its place if a signature does not match. The
// caller holds mu.
func (ch *channel) checked(msg []byte) []byte {
	if ch.key == nil {
		return msg
	}
	m, err := jsonrpc.Parse(msg)
	if err != nil || m.Kind() != jsonrpc.Response && m.Kind() != jsonrpc.ErrorResponse {
		return msg
	}
	tool, ok := ch.tools[m.ID]
	delete(ch.tools, m.ID)
	if !ok || m.Kind() == jsonrpc.ErrorResponse {
		return msg
	}
	if err := a2c.VerifyResult(ch.key, ch.computer, tool, a2c.ChannelReqID(ch.id, string(m.ID)), m.Result); err != nil {
		return jsonrpc.AppendError(nil, m.ID, mcp.WireError(CallError(ch.computer, err), ""))
	}
	return msg
}
