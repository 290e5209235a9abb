package fakemcp

// message is a JSON-RPC message with the fields that the server needs. All values are raw JSON in
// slices of the input, nil where absent.
type message struct {
	id, method     []byte // method without its quotes
	result, fault  []byte // of a response
	name, args     []byte // name without its quotes
	cursor         []byte
	meta           []byte
	token          []byte // _meta.progressToken
	version        []byte // of _meta, without its quotes; nil for a legacy request
	capabilities   []byte // of _meta
	asked          []byte // protocolVersion of initialize, without its quotes
	requestID      []byte // of notifications/cancelled
	inputResponses []byte
	requestState   []byte // without its quotes
	notifications  []byte // of subscriptions/listen
}

// parse reads one message. It reports whether the message is a JSON object with members;
// whether it makes sense is for serve to say.
func parse(b []byte) (m message, ok bool) {
	var params []byte
	ok = members(b, func(key, value []byte) {
		switch string(key) {
		case "id":
			m.id = value
		case "method":
			m.method = unquote(value)
		case "params":
			params = value
		case "result":
			m.result = value
		case "error":
			m.fault = value
		}
	})
	if !ok || params == nil {
		return m, ok
	}
	ok = members(params, func(key, value []byte) {
		switch string(key) {
		case "name":
			m.name = unquote(value)
		case "arguments":
			m.args = value
		case "cursor":
			m.cursor = value
		case "_meta":
			m.meta = value
		case "protocolVersion":
			m.asked = unquote(value)
		case "requestId":
			m.requestID = value
		case "inputResponses":
			m.inputResponses = value
		case "requestState":
			m.requestState = unquote(value)
		case "notifications":
			m.notifications = value
		}
	})
	if !ok || m.meta == nil {
		return m, ok
	}
	ok = members(m.meta, func(key, value []byte) {
		switch string(key) {
		case "progressToken":
			m.token = value
		case "io.modelcontextprotocol/protocolVersion":
			m.version = unquote(value)
		case "io.modelcontextprotocol/clientCapabilities":
			m.capabilities = value
		}
	})
	return m, ok
}

func (m *message) request() bool      { return m.method != nil && m.id != nil }
func (m *message) notification() bool { return m.method != nil && m.id == nil }
func (m *message) response() bool     { return m.method == nil && m.id != nil }
func (m *message) modern() bool       { return m.version != nil }

// rpcError is a JSON-RPC error to answer with.
type rpcError struct {
	code    int
	message string
	data    string // raw JSON; absent if empty
}

const (
	codeParse              = -32700
	codeInvalidRequest     = -32600
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeInternal           = -32603
	codeSessionNotFound    = -32001
	codeHeaderMismatch     = -32020
	codeUnsupportedVersion = -32022
)

// status is the HTTP status that goes with an error in the modern era.
func (e *rpcError) status() int {
	switch e.code {
	case codeMethodNotFound:
		return 404
	case codeParse, codeInvalidRequest, codeInvalidParams, codeHeaderMismatch, codeUnsupportedVersion:
		return 400
	}
	return 200
}
