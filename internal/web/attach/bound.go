package attach

import (
	"errors"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// An arrival is the result of a read of one message.
type arrival struct {
	line []byte
	lost *jsonrpc.Head // of a message over the bound, which is not in line; else nil
	err  error         // the last arrival has one
}

// arrive turns the results of Stream.Read into an arrival.
func arrive(line []byte, err error) arrival {
	var lost *mcp.LostMessage
	if errors.As(err, &lost) {
		return arrival{lost: &lost.Head}
	}
	return arrival{line: line, err: err}
}

// Errors for messages over the bound.
var (
	clientTooLarge = mcp.WireError(mcp.Errorf(mcp.KindTooLarge, "the message has more than %d MB, the bound of weir attach; "+
		"send the data in parts, or give the client the URL of the gateway, where http.max_body_bytes is the bound", maxMessage>>20), "")
	gatewayTooLarge = mcp.WireError(mcp.Errorf(mcp.KindTooLarge, "the message has more than %d MB, the bound of weir attach; "+
		"ask for less, use --mode gateway (or proxy.firewall: true), where large results are kept and read in parts, or give the client the URL of the gateway", maxMessage>>20), "")
)

// lostOfClient answers a message of the client that is over the bound. A request gets an error. If the
// message is an answer, the gateway gets an error in its place.
func (r *relay) lostOfClient(head jsonrpc.Head) {
	switch {
	case head.Response && !head.Request:
		answer := jsonrpc.AppendError(nil, head.ID, clientTooLarge)
		if l := r.current(); l != nil && head.ID != "" {
			if send, _ := l.register(parse(answer)); send {
				l.send(answer)
			}
		}
	case head.Request && head.ID == "":
		r.o.Note("a notification of the client is dropped: it has more than %d MB", maxMessage>>20)
	default:
		r.write(jsonrpc.AppendError(nil, head.ID, clientTooLarge))
	}
}

// lostOfGateway returns the line for the client in place of a message that is over the bound, nil if there is
// none. A request of the gateway gets an error. It returns false if the owner of the message is not
// known: then the link must end, or a request would wait for ever.
func (r *relay) lostOfGateway(l *link, head jsonrpc.Head) (line []byte, known bool) {
	switch {
	case head.Response && !head.Request && head.ID != "":
		return jsonrpc.AppendError(nil, head.ID, gatewayTooLarge), true
	case head.Request && head.ID != "":
		l.send(jsonrpc.AppendError(nil, head.ID, gatewayTooLarge))
		return nil, true
	case head.Request:
		r.o.Note("a notification of the gateway is dropped: it has more than %d MB", maxMessage>>20)
		return nil, true
	}
	r.o.Note("a message of the gateway has more than %d MB and no id: connecting again", maxMessage>>20)
	return nil, false
}
