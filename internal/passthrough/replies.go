package passthrough

import (
	"bytes"
	"slices"

	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

const (
	// maxAnswer is the longest answer that is kept and parsed for its record. Of a longer one the
	// result is only hashed. It has room for the envelope of a result that is searched for isError.
	maxAnswer = maxLook + 4<<10
	// maxBatchAnswer bounds the answers to a batch. Longer ones are not read.
	maxBatchAnswer = wholeResponse
)

// replies find the answers to recorded requests in bytes that are handed on:
//
//	message          a whole one
//	add … finish     one in pieces
//	end              no more follow
//
// It is for one goroutine. A nil one does nothing.
type replies struct {
	open  []recordedID // without an answer yet
	one   [1]recordedID
	batch bool

	kept    []byte
	over    bool // kept has no room for the message
	long    longAnswer
	unread  bool  // an answer was not read
	unnamed error // the first error without an id, which can belong to any request
}

// recordedID is a recorded request.
type recordedID struct {
	id jsonrpc.ID
	to Recorded
}

// waits reports whether a request has no answer yet.
func (a *replies) waits() bool { return a != nil && len(a.open) > 0 }

// message reads a whole message, or a batch of them.
func (a *replies) message(data []byte) {
	if !a.waits() {
		return
	}
	if len(data) > maxAnswer {
		a.add(data)
		a.finish()
		return
	}
	a.read(data)
}

// read reads a message that is not long.
func (a *replies) read(data []byte) {
	if !a.batch {
		a.response(data)
		return
	}
	msgs, _, err := jsonrpc.Split(data)
	if err != nil {
		a.unreadable(data)
		return
	}
	for _, msg := range msgs {
		a.response(msg)
	}
}

// response records an answer. It ignores other messages.
func (a *replies) response(data []byte) {
	m, err := jsonrpc.Parse(data)
	if err != nil {
		a.unreadable(data)
		return
	}
	if m.Method != "" {
		return
	}
	if m.ID == "" { // an error: another message may still be the answer
		if a.unnamed == nil {
			a.unnamed = jsonrpc.ParseError(bytes.Clone(m.Err))
		}
		return
	}
	to, sure := a.take(m.ID)
	switch {
	case to == nil:
		a.unread = true
	case !sure:
		to.Unread()
	case m.Err != nil:
		to.Ended(nil, jsonrpc.ParseError(m.Err))
	default:
		to.Ended(m.Result, nil)
	}
}

// unreadable notes a message that is malformed, which the client reads perhaps. Half a message is
// none.
func (a *replies) unreadable(data []byte) {
	if text := bytes.TrimSpace(data); len(text) > 0 && (text[len(text)-1] == '}' || text[len(text)-1] == ']') {
		a.unread = true
	}
}

// take returns the request that a message answers, nil if there is none. sure is false if only some
// clients take the message for its answer.
func (a *replies) take(id jsonrpc.ID) (to Recorded, sure bool) {
	at := slices.IndexFunc(a.open, func(r recordedID) bool { return sameID(r.id, id) })
	if sure = at >= 0; !sure {
		at = slices.IndexFunc(a.open, func(r recordedID) bool { return likeID(r.id, id) })
	}
	if at < 0 {
		return nil, false
	}
	to = a.open[at].to
	a.open = slices.Delete(a.open, at, at+1)
	return to, sure
}

// add takes a piece of a message.
func (a *replies) add(p []byte) {
	if !a.waits() {
		return
	}
	if !a.over {
		most := maxAnswer
		if a.batch {
			most = maxBatchAnswer
		}
		if len(a.kept)+len(p) <= most {
			a.kept = append(a.kept, p...)
			return
		}
		a.over = true
		if !a.batch {
			a.long = longAnswer{of: a.open[0].to, key: a.long.key[:0], id: a.long.id[:0], err: a.long.err[:0]}
			a.long.feed(a.kept)
		}
		a.kept = a.kept[:0]
	}
	if !a.batch {
		a.long.feed(p)
	}
}

// finish ends a message in pieces.
func (a *replies) finish() {
	if !a.waits() {
		return
	}
	switch {
	case !a.over:
		a.read(a.kept)
	case a.batch:
		a.unread = true
	default:
		a.longEnd()
	}
	a.kept, a.over = a.kept[:0], false
}

// longEnd records the long message as the answer, if it is.
func (a *replies) longEnd() {
	l := &a.long
	answer, readable := l.finish()
	switch to, sure := Recorded(nil), false; {
	case !answer:
	case !readable:
		a.unread = true
	case len(l.id) == 0: // an error
		if a.unnamed == nil {
			a.unnamed = jsonrpc.ParseError(bytes.Clone(l.err))
		}
	default:
		switch to, sure = a.take(jsonrpc.ID(l.id)); {
		case to == nil:
			a.unread = true
		case !sure:
			to.Unread()
		case l.found == 'r':
			to.Passed()
		default:
			to.Ended(nil, jsonrpc.ParseError(l.err))
		}
	}
}

// end records that the requests without an answer get none, because of err.
func (a *replies) end(err error) {
	if a == nil {
		return
	}
	if a.unnamed != nil {
		err = a.unnamed
	}
	for _, one := range a.open {
		if a.unread {
			one.to.Unread()
		} else {
			one.to.Ended(nil, err)
		}
	}
	a.open = nil
}
