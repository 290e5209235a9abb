package passthrough

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// handed are the records of a message whose bytes are handed on. It outlasts an attempt that is made
// again; end is called after the last one.
type handed struct {
	begun     bool
	err       error       // why the latest attempt did not get through
	cancelled atomic.Bool // the client has cancelled the request
	answers   replies
}

// record records the requests of the exchange at the Auditor. An error refuses all of them.
func (x *exchange) record() error {
	a := x.fw.o.Audit
	if !audits(a) || x.b == nil || x.handed.begun {
		return nil
	}
	x.handed.begun = true
	if x.e.method == "notifications/cancelled" {
		x.fw.cancelled(x)
	}
	if x.e.method != "" {
		return x.recordOne(jsonrpc.Message{ID: x.e.id, Method: x.e.method, Params: x.e.params})
	}
	if len(x.e.batch) == 0 && x.e.bounded == 0 {
		return nil
	}
	x.handed.answers.batch = true
	msgs, _, err := jsonrpc.Split(x.b.buf)
	for _, raw := range msgs {
		var m jsonrpc.Message
		if m, err = jsonrpc.Parse(raw); err != nil || m.Method == "" {
			continue
		}
		if err = x.recordOne(m); err != nil {
			break
		}
	}
	if err != nil {
		x.handed.answers.end(err)
	}
	return err
}

// recordOne records one message at the Auditor.
func (x *exchange) recordOne(m jsonrpc.Message) error {
	if m.ID == "" {
		if !strings.HasPrefix(m.Method, "notifications/") {
			return needsID(m.Method)
		}
		return nil
	}
	session := new(mcp.Session) // NewSession would make an id of no session
	if id := x.r.Header.Get(streamable.HeaderSession); id != "" {
		session = mcp.NewSession(id, guard.Principal(x.r.Context()))
	}
	r := &mcp.Request{ID: m.ID, Method: m.Method, Params: json.RawMessage(m.Params), Session: session, Peer: mcp.NoPeer}
	to, err := x.fw.o.Audit.Begin(x.trace.Context(x.r.Context()), x.f.name, telemetry.WithTrace(r, x.r.Header))
	if err != nil || to == nil {
		return err
	}
	s := &x.handed.answers
	if s.open == nil {
		s.open = s.one[:0]
	}
	s.open = append(s.open, recordedID{m.ID, to})
	return nil
}

// cancelled notes that x cancels a request: its server may end it without an answer. The ids of
// requests without a session may belong to different clients.
func (fw *forwarder) cancelled(x *exchange) {
	id := jsonrpc.ID(rawjson.Get(x.e.params, "requestId"))
	if x.session == "" || id == "" {
		return
	}
	principal := guard.Principal(x.r.Context())
	fw.mu.Lock()
	defer fw.mu.Unlock()
	for y := range fw.inFlight {
		if y.f == x.f && y.session == x.session && y.e.id == id && guard.Principal(y.r.Context()) == principal {
			y.handed.cancelled.Store(true)
		}
	}
}

// end records the requests whose answer no attempt has got.
func (h *handed) end() { h.answers.end(h.err) }

// recordEnd records the requests that got no answer, unless another attempt follows.
func (x *exchange) recordEnd() {
	if !x.handed.answers.waits() {
		return
	}
	if x.again {
		x.handed.err = x.err
		return
	}
	err := x.err
	switch gone := x.r.Context().Err(); {
	case gone != nil:
		err = gone
	case x.agentGone:
		err = context.Canceled
	case x.handed.cancelled.Load():
		err = context.Canceled
	case err == nil:
		err = mcp.Errorf(mcp.KindUpstreamUnavailable, "%s sent no answer to %s", x.who(), clip(x.method()))
	}
	x.handed.answers.end(err)
}
