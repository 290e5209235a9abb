package agent

import (
	"bytes"
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
	queue  []received
	size   int
	last   func()                // returns the bytes of the message that Read returned last; nil: none
	err    error                 // the reason of the end
	tools  map[jsonrpc.ID]string // of calls in flight, if results are checked
	closed bool
}

var _ mcp.Stream = (*channel)(nil)

// received is a message that waits for Read. release returns its bytes.
type received struct {
	msg     []byte
	release func()
}

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
	var id, computer, msg, closed []byte
	payload := e.Arg(0)
	if !rawjson.IsObject(payload) || rawjson.Scan(payload, rawjson.Key("channel", &id), rawjson.Key("computer", &computer),
		rawjson.Key("message", &msg), rawjson.Key("closed", &closed)) != nil {
		return
	}
	c.mu.Lock()
	ch := c.channels[rawjson.Text(id)]
	c.mu.Unlock()
	if ch == nil || ch.computer != rawjson.Text(computer) {
		return // late, or for another agent
	}
	if why := rawjson.Text(closed); why != "" {
		c.forget(ch)
		ch.end(mcp.Errorf(mcp.KindUpstreamUnavailable, "computer %q: %s", ch.computer, why))
		return
	}
	ch.push(received{msg, e.Keep()})
}

func (ch *channel) push(r received) {
	ch.mu.Lock()
	msg := r.msg
	if ch.err == nil && (len(ch.queue) >= maxChannelMessages || ch.size+len(msg) > maxChannelBytes) {
		ch.err = mcp.Errorf(mcp.KindOverloaded, "computer %q: more messages than are read", ch.computer)
	}
	if ch.err == nil {
		r.msg = ch.checked(msg)
		ch.queue = append(ch.queue, r)
		ch.size += len(r.msg)
	} else {
		r.release()
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

// Read implements mcp.Stream. A large message counts for the connection until the next Read: its reader counts it from
// then on.
func (ch *channel) Read() ([]byte, error) {
	for {
		ch.mu.Lock()
		ch.releaseLast()
		if len(ch.queue) > 0 {
			r := ch.queue[0]
			ch.queue[0] = received{}
			ch.queue = ch.queue[1:]
			ch.size -= len(r.msg)
			ch.last = r.release
			ch.mu.Unlock()
			return r.msg, nil
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

// releaseLast returns the bytes of the message that Read returned last. The caller holds mu.
func (ch *channel) releaseLast() {
	if ch.last != nil {
		ch.last()
		ch.last = nil
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
	head, err := smcp.Encode(smcp.MCPRequest{
		Call: smcp.Call{Agent: ch.client.o.Name, ReqID: ch.id, Computer: ch.computer}, Channel: ch.id, Op: smcp.OpSend,
	})
	if err != nil {
		return err
	}
	const message = `,"message":`
	head = head[:bytes.LastIndexByte(head, '}')]
	event := make(json.RawMessage, 0, len(head)+len(message)+len(msg)+1) // the one copy of a message that may be large
	return ch.client.member.Emit(smcp.EventMCP, append(append(append(append(event, head...), message...), msg...), '}'))
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
	for _, r := range ch.queue { // they are not read any more
		r.release()
	}
	ch.queue = nil
	ch.releaseLast()
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
