package passthrough

import (
	"net/http"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// envelope has the properties of a POST's body that forwarding needs.
type envelope struct {
	id     jsonrpc.ID // of the request; "" for anything else and for a batch
	method string     // "" for a response and for a batch
	params []byte     // of the request, a part of the body
	modern bool
	tool   string // of a tools/call, if a token must name it
	// bounded is the number of messages of the body that Limits bound.
	bounded int
	batch   []jsonrpc.ID // of the requests of a batch
}

// readEnvelope reads the properties that forwarding needs, and no more.
func readEnvelope(h http.Header, data []byte, signed bool) (e envelope, err error) {
	if e.id, err = jsonrpc.CheckText(data); err != nil {
		return e, err
	}
	if rawjson.IsArray(data) {
		return e, e.readBatch(h, data)
	}
	m, err := jsonrpc.Parse(data)
	e.id, e.method, e.params = m.ID, m.Method, m.Params
	if err != nil {
		return e, err
	}
	if m.Kind() != jsonrpc.Request {
		e.id = ""
	}
	if bounds(&m) {
		e.bounded = 1
	}
	if signed {
		if e.tool, err = toolOf(&m); err != nil {
			return e, err
		}
	}
	e.modern, err = streamable.EraOf(h, &m)
	return e, err
}

// readBatch reads several messages at once. Only 2025-03-26 has batches.
func (e *envelope) readBatch(h http.Header, data []byte) error {
	if v := h.Get(streamable.HeaderVersion); v != "" && v != mcp.V20250326 {
		return mcp.Errorf(mcp.KindInvalidRequest, "batches exist in protocol version %s only; send one message per request", mcp.V20250326)
	}
	msgs, _, err := jsonrpc.Split(data)
	for _, raw := range msgs {
		if err != nil {
			break
		}
		var m jsonrpc.Message
		if m, err = jsonrpc.Parse(raw); err != nil {
			break
		}
		if bounds(&m) {
			e.bounded++
		}
		if m.Kind() == jsonrpc.Request {
			e.batch = append(e.batch, m.ID)
		}
	}
	return err
}

// bounds reports whether Limits bound a message: it requests work, and does not last as long as the
// agent wants. A server may do the work of a message without an id, so only notifications by name
// are free.
func bounds(m *jsonrpc.Message) bool {
	switch m.Kind() {
	case jsonrpc.Request:
		return m.Method != "ping" && m.Method != "subscriptions/listen"
	case jsonrpc.Notification:
		return !strings.HasPrefix(m.Method, "notifications/")
	}
	return false
}

// writeError answers with err. In a batch, each request gets its own answer.
func (e *envelope) writeError(w http.ResponseWriter, err error) {
	if len(e.batch) == 0 {
		writeError(w, e.id, err)
		return
	}
	out, wire := []byte{'['}, mcp.WireError(err, "")
	for i, id := range e.batch {
		if i > 0 {
			out = append(out, ',')
		}
		out = jsonrpc.AppendError(out, id, wire)
	}
	h := w.Header()
	code := statusOf(err, h)
	h["Content-Type"], h["X-Content-Type-Options"] = []string{streamable.ContentJSON}, []string{"nosniff"}
	w.WriteHeader(code)
	_, _ = w.Write(append(out, ']')) // the agent may be gone
}
