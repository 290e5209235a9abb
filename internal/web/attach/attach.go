package attach

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/stdio"
)

// Bounds of a Run.
const (
	maxMessage    = 12 << 20 // bytes of one message, in each direction
	maxWaiting    = 4096     // requests in flight
	maxTries      = 3        // connections for one message
	handshakeWait = 30 * time.Second
	endWait       = 5 * time.Second // for the last answers, after the client has closed its end
)

// A Conn is a connection to a gateway that carries one message a line.
type Conn interface {
	io.ReadWriteCloser
	// CloseWrite says that no further message comes.
	CloseWrite() error
}

// Options configures a Run. All fields are required.
type Options struct {
	In  io.Reader
	Out io.Writer
	// Dial connects to the gateway, and starts one if necessary. The client reads its error.
	Dial func(context.Context) (Conn, error)
	// Note gets messages for people.
	Note func(format string, args ...any)
}

// Run carries messages until the client closes In or ctx ends.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &relay{o: o, ctx: ctx, out: stdio.NewStream(nothing{}, o.Out, maxMessage, nil)}
	defer r.close()
	arrivals := make(chan arrival)
	go func() { // lives until In ends: a blocked read cannot be interrupted
		in := stdio.NewStream(o.In, io.Discard, maxMessage, nil)
		for {
			a := arrive(in.Read())
			select {
			case arrivals <- a:
			case <-ctx.Done():
				return
			}
			if a.err != nil {
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case a := <-arrivals:
			switch {
			case a.lost != nil:
				r.lostOfClient(*a.lost)
			case a.err == nil:
				r.forward(a.line)
			case errors.Is(a.err, io.EOF):
				r.finish()
				return nil
			default:
				return a.err
			}
		}
	}
}

// nothing is a reader at its end.
type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, io.EOF }

// A relay is the state of one Run. Its forward and finish are called by one goroutine.
type relay struct {
	o   Options
	ctx context.Context

	hello, ready []byte // the client's initialize request and its initialized notification

	writing sync.Mutex // guards out
	out     *stdio.Stream

	mu   sync.Mutex // guards below
	link *link      // nil without a gateway
}

// A link is a connection to one gateway.
type link struct {
	conn  Conn
	lines *stdio.Stream
	ended chan struct{} // closed when its reader has ended

	hello   jsonrpc.ID           // the repeated handshake, whose answer is not for the client; "" for none
	greeted chan jsonrpc.Message // capacity 1: the answer to hello

	writing sync.Mutex // guards writes to lines

	mu      sync.Mutex          // guards below
	waiting map[jsonrpc.ID]bool // requests of the client without an answer
	asked   map[jsonrpc.ID]bool // requests of the gateway without an answer
	known   bool                // greeted has its message
	over    bool                // all waiting messages have been answered: no message may wait any longer
}

// forward sends one line of the client to the gateway.
func (r *relay) forward(line []byte) {
	messages := parse(line)
	greets := false
	for _, m := range messages {
		switch m.Method {
		case "initialize":
			greets, r.hello, r.ready = true, line, nil
		case "notifications/initialized":
			r.ready = line
		}
	}
	for range maxTries {
		l := r.current()
		if l == nil {
			if len(messages) > 0 && !wants(messages) {
				return // an answer or a notice for a gateway that has ended
			}
			var err error
			if l, err = r.connect(!greets); err != nil {
				r.refuse(messages, err)
				return
			}
		}
		send, over := l.register(messages)
		if send {
			l.send(line)
		}
		if !over {
			return
		}
	}
	r.refuse(messages, mcp.Errorf(mcp.KindUpstreamUnavailable, "the gateway ends as soon as it is connected; weir doctor says more"))
}

// send writes one line to the gateway. If that fails, the link ends, and its reader answers the
// waiting messages.
func (l *link) send(line []byte) {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.lines.Write(line); err != nil {
		_ = l.conn.Close()
	}
}

// wants reports whether one of the messages is a request.
func wants(messages []jsonrpc.Message) bool {
	for i := range messages {
		if messages[i].Kind() == jsonrpc.Request {
			return true
		}
	}
	return false
}

// parse returns the messages of a line, none if the line is no message: the gateway answers it.
func parse(line []byte) (messages []jsonrpc.Message) {
	parts, _, err := jsonrpc.Split(line)
	if err != nil {
		return nil
	}
	for _, part := range parts {
		if m, err := jsonrpc.Parse(part); err == nil {
			messages = append(messages, m)
		}
	}
	return messages
}

// current returns the link to the gateway, nil if there is none.
func (r *relay) current() *link {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.link
}

// connect connects to the gateway and repeats the client's handshake there.
func (r *relay) connect(greet bool) (*link, error) {
	conn, err := r.o.Dial(r.ctx)
	if err != nil {
		r.o.Note("%v", err)
		return nil, err
	}
	l := &link{
		conn: conn, lines: stdio.NewStream(conn, conn, maxMessage, conn.Close), ended: make(chan struct{}),
		waiting: map[jsonrpc.ID]bool{}, asked: map[jsonrpc.ID]bool{}, greeted: make(chan jsonrpc.Message, 1),
	}
	hello := parse(r.hello)
	greet = greet && len(hello) > 0
	if greet {
		l.hello = hello[0].ID
	}
	r.mu.Lock()
	r.link = l
	r.mu.Unlock()
	go r.read(l)
	if greet {
		if err := r.greet(l); err != nil {
			_ = conn.Close()
			<-l.ended
			return nil, err
		}
	}
	return l, nil
}

// greet repeats the handshake of the client.
func (r *relay) greet(l *link) error {
	l.send(r.hello)
	timer := time.NewTimer(handshakeWait)
	defer timer.Stop()
	select {
	case m := <-l.greeted:
		if m.Err != nil {
			return jsonrpc.ParseError(m.Err)
		}
	case <-l.ended:
		return mcp.Errorf(mcp.KindUpstreamUnavailable, "the gateway ended during the handshake; try again")
	case <-timer.C:
		return mcp.Errorf(mcp.KindUpstreamTimeout, "the gateway did not answer the handshake within %s", handshakeWait)
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
	if r.ready != nil {
		l.send(r.ready)
	}
	return nil
}

// register notes the requests and responses among the messages. send is false if they must not be
// sent: the link is over, or a response answers a question of an earlier gateway.
func (l *link) register(messages []jsonrpc.Message) (send, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false, true
	}
	send = len(messages) == 0
	for i := range messages {
		switch m := &messages[i]; m.Kind() {
		case jsonrpc.Request:
			if len(l.waiting) < maxWaiting {
				l.waiting[m.ID] = true
			}
			send = true
		case jsonrpc.Response, jsonrpc.ErrorResponse:
			if l.asked[m.ID] {
				delete(l.asked, m.ID)
				send = true
			}
		default:
			send = true
		}
	}
	return send, false
}

// take notes the request or response of a message of the gateway. It returns false if the message
// is not for the client.
func (l *link) take(m jsonrpc.Message) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch m.Kind() {
	case jsonrpc.Response, jsonrpc.ErrorResponse:
		if l.hello != "" && m.ID == l.hello && !l.known {
			l.known = true
			l.greeted <- m
			return false
		}
		delete(l.waiting, m.ID)
	case jsonrpc.Request:
		if len(l.asked) < maxWaiting {
			l.asked[m.ID] = true
		}
	}
	return true
}

// read copies the gateway's messages to the client. When the gateway ends, it answers the requests
// that still wait.
func (r *relay) read(l *link) {
	defer close(l.ended)
	for {
		a := arrive(l.lines.Read())
		line := a.line
		if a.lost != nil {
			var known bool
			if line, known = r.lostOfGateway(l, *a.lost); !known {
				break
			}
		}
		if a.err != nil {
			break
		}
		for _, m := range parse(line) {
			if !l.take(m) {
				line = nil
			}
		}
		if len(line) > 0 {
			r.write(line)
		}
	}
	_ = l.conn.Close()
	r.mu.Lock()
	if r.link == l {
		r.link = nil
	}
	r.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if r.ctx.Err() != nil {
		return
	}
	gone := mcp.WireError(mcp.Errorf(mcp.KindUpstreamUnavailable, "the gateway ended before it answered; whether the call had an effect is not known. weir attach connects again with the next message"), "")
	for id := range l.waiting {
		r.write(jsonrpc.AppendError(nil, id, gone))
	}
	for id := range l.asked {
		r.write(jsonrpc.AppendNotification(nil, "notifications/cancelled", []byte(`{"requestId":`+string(id)+`,"reason":"the gateway ended"}`)))
	}
}

// refuse answers requests with an error.
func (r *relay) refuse(messages []jsonrpc.Message, err error) {
	for i := range messages {
		if m := &messages[i]; m.Kind() == jsonrpc.Request {
			var known *mcp.Error
			if !errors.As(err, &known) {
				err = &mcp.Error{Kind: mcp.KindUpstreamUnavailable, Message: err.Error(), Err: err}
			}
			r.write(jsonrpc.AppendError(nil, m.ID, mcp.WireError(err, "")))
		}
	}
}

// write sends one line to the client.
func (r *relay) write(line []byte) {
	r.writing.Lock()
	defer r.writing.Unlock()
	if err := r.out.Write(line); err != nil {
		r.o.Note("the client does not read: %v", err)
	}
}

// finish waits for the answers to the messages that the client has sent before it closed its end.
func (r *relay) finish() {
	l := r.current()
	if l == nil || l.conn.CloseWrite() != nil {
		return
	}
	timer := time.NewTimer(endWait)
	defer timer.Stop()
	select {
	case <-l.ended:
	case <-timer.C:
	case <-r.ctx.Done():
	}
}

// close ends the link and waits for its reader.
func (r *relay) close() {
	if l := r.current(); l != nil {
		_ = l.conn.Close()
		<-l.ended
	}
}
