package streamable

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// wireState has the parts that all requests share. It is immutable, so all legacy requests share
// its headers.
type wireState struct {
	version string // "" before the handshake is complete
	modern  bool
	session string
	post    http.Header // for requests with a message
	again   http.Header // the same for messages that may be sent twice
	get     http.Header // for GET streams
	bare    http.Header // for DELETE
	meta    [3][]byte   // members of a modern _meta, in the order of modernKeys
}

var modernKeys = [3]string{mcp.MetaVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities}

func (c *Client) newWireState(version, session string) *wireState {
	st := &wireState{version: version, modern: mcp.IsModern(version), session: session}
	st.bare = maps.Clone(c.opts.Header)
	if version != "" {
		st.bare[HeaderVersion] = []string{version}
	}
	if session != "" && !st.modern {
		st.bare[HeaderSession] = []string{session}
	}
	st.get = maps.Clone(st.bare)
	st.get["Accept"] = []string{ContentSSE}
	st.post = maps.Clone(st.bare)
	st.post["Accept"] = []string{acceptBoth}
	st.post["Content-Type"] = []string{ContentJSON}
	st.again = maps.Clone(st.post)
	// This key, even without a value, makes net/http repeat the request if a reused connection
	// turns out to be dead.
	st.again["X-Idempotency-Key"] = []string{}
	for i, value := range [3][]byte{rawjson.Quote(version), c.opts.ClientInfo, c.opts.Capabilities} {
		st.meta[i] = append(append(rawjson.Quote(modernKeys[i]), ':'), value...)
	}
	return st
}

// govern sets the negotiated version.
func (c *Client) govern(version string) {
	c.session.SetVersion(version)
	c.wire.Store(c.newWireState(version, c.wire.Load().session))
}

// keepSession stores the session id from the response to initialize.
func (c *Client) keepSession(h http.Header) error {
	id := h.Get(HeaderSession)
	if id == "" {
		return nil
	}
	if !ValidSessionID(id) {
		return mcp.Errorf(mcp.KindUpstreamProtocol, "%s sent a session id that is longer than 1024 bytes or not visible ASCII", c.who)
	}
	c.wire.Store(c.newWireState(c.wire.Load().version, id))
	return nil
}

// outgoing is a message ready to be posted.
type outgoing struct {
	method  string
	body    []byte
	large   *requestBody // has body; nil for a small one
	header  http.Header
	token   json.RawMessage // the caller's progress token, a slice of its params
	modern  bool
	session bool // the header has a session id
}

// frame builds the POST of a request or, without an id, of a notification. The caller releases large of
// the result when it has the answer.
func (c *Client) frame(id jsonrpc.ID, method string, params json.RawMessage) (outgoing, error) {
	st := c.wire.Load()
	out := outgoing{method: method, modern: st.modern, header: st.post, session: st.session != "" && !st.modern}
	if idempotent(method) {
		out.header = st.again
	}
	var p located
	if st.modern || st.version == "" || rawjson.MayHold(params, "_meta") {
		var err error
		if p, err = locate(params, nameParam(method)); err != nil {
			return out, mcp.Errorf(mcp.KindInvalidParams, "%s params: %v", method, err)
		}
	}
	version := st.version
	if version == "" || st.modern {
		// This is the handshake, or the caller brings a version.
		if v := rawjson.Text(p.known[0]); v != "" {
			version = v
			out.modern = out.modern || mcp.IsModern(v)
		}
	}
	var body []byte
	if room := len(params) + len(method) + 64 + len(st.meta[0]) + len(st.meta[1]) + len(st.meta[2]); room >= pooledBody {
		out.large = newRequestBody(room)
		body = out.large.buf[:0]
	} else {
		body = make([]byte, 0, room)
	}
	body = append(body, `{"jsonrpc":"2.0"`...)
	if id != "" {
		body = append(append(body, `,"id":`...), id...)
	}
	body = append(body, `,"method":`...)
	body = rawjson.AppendString(body, method)
	var missing [][]byte
	if out.modern && id != "" {
		for i, member := range st.meta {
			if p.known[i] == nil {
				missing = append(missing, member)
			}
		}
	}
	out.token = p.token
	if len(missing) > 0 || p.token != nil || len(params) > 0 {
		body = append(body, `,"params":`...)
		body = p.splice(body, params, missing, id)
	}
	if out.body = append(body, '}'); out.large != nil {
		out.large.buf = out.body
	}
	switch {
	case out.modern:
		shared := out.header
		out.header = make(http.Header, len(shared)+4)
		maps.Copy(out.header, shared)
		delete(out.header, HeaderSession)
		out.header[HeaderVersion] = []string{version}
		out.header[HeaderMethod] = []string{encodeHeaderValue(method)}
		if p.name != nil {
			name := rawjson.Text(p.name)
			out.header[HeaderName] = []string{encodeHeaderValue(name)}
			if method == "tools/call" && c.opts.ParamHeaders != nil {
				c.opts.ParamHeaders(name, params, out.header)
			}
		}
	case c.http.Jar != nil:
		out.header = maps.Clone(out.header) // the jar adds its cookies to it
	}
	return out, nil
}

// idempotent reports whether a message may be sent again although the server may have seen it: it
// changes nothing, or repeating it has no further effect.
func idempotent(method string) bool {
	switch method {
	case "ping", "server/discover", "tools/list", "resources/list", "resources/templates/list", "resources/read",
		"prompts/list", "prompts/get", "completion/complete", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
		"notifications/cancelled":
		return true
	}
	return false
}

// answer builds the POST of a response to a request of the server.
func (c *Client) answer(body []byte) outgoing {
	st := c.wire.Load()
	return outgoing{method: "a response", body: body, header: maps.Clone(st.post), session: st.session != ""}
}

// located has the positions in params of the parts that the wire needs.
type located struct {
	open               int // index after the opening brace
	members            bool
	name               []byte
	meta               bool
	metaStart, metaEnd int // the value of _meta
	metaOpen           int // index after its brace
	metaMembers        bool
	known              [3][]byte // values of modernKeys
	token              []byte
	tokenEnd           int
}

func locate(params []byte, nameKey string) (p located, err error) {
	if len(params) == 0 {
		return p, nil
	}
	var twice string
	err = rawjson.EachMember(params, func(m rawjson.Member) bool {
		p.members = true
		switch key := string(m.Key); {
		case key == "_meta":
			if p.meta {
				twice = key
			}
			p.meta, p.metaStart, p.metaEnd = true, m.End-len(m.Value), m.End
		case key == nameKey && nameKey != "":
			if p.name != nil {
				twice = key
			}
			p.name = m.Value
		}
		return twice == ""
	})
	if err == nil && p.meta {
		meta := params[p.metaStart:p.metaEnd]
		err = rawjson.EachMember(meta, func(m rawjson.Member) bool {
			p.metaMembers = true
			slot := &p.token
			switch string(m.Key) {
			case "progressToken":
				p.tokenEnd = p.metaStart + m.End
			case modernKeys[0]:
				slot = &p.known[0]
			case modernKeys[1]:
				slot = &p.known[1]
			case modernKeys[2]:
				slot = &p.known[2]
			default:
				return true
			}
			if *slot != nil {
				twice = string(m.Key)
			}
			*slot = m.Value
			return twice == ""
		})
		p.metaOpen = p.metaStart + 1
	}
	if err == nil && twice != "" {
		return p, &duplicate{twice}
	}
	p.open = rawjson.SkipSpace(params, 0) + 1
	return p, err
}

type duplicate struct{ key string }

func (d *duplicate) Error() string { return rawjson.ErrDuplicate.Error() + " " + d.key }
func (d *duplicate) Unwrap() error { return rawjson.ErrDuplicate }

// splice appends params. It adds the missing members to _meta and replaces the progress token by
// the call's id.
func (p *located) splice(dst, params []byte, missing [][]byte, id jsonrpc.ID) []byte {
	if len(params) == 0 {
		params, p.open = []byte("{}"), 1
	}
	if len(missing) == 0 && p.token == nil {
		return append(dst, params...)
	}
	rest := 0 // params[:rest] is written
	if len(missing) > 0 {
		at, empty := p.open, !p.members
		if p.meta {
			at, empty = p.metaOpen, !p.metaMembers
		}
		dst = append(dst, params[:at]...)
		rest = at
		if !p.meta {
			dst = append(dst, `"_meta":{`...)
		}
		dst = append(dst, bytes.Join(missing, []byte{','})...)
		if !p.meta {
			dst = append(dst, '}')
		}
		if !empty {
			dst = append(dst, ',')
		}
	}
	if p.token != nil {
		dst = append(dst, params[rest:p.tokenEnd-len(p.token)]...)
		dst = append(dst, id...)
		rest = p.tokenEnd
	}
	return append(dst, params[rest:]...)
}

// do sends one HTTP request without a body. It does not change header.
func (c *Client) do(ctx context.Context, method string, header http.Header) (*http.Response, error) {
	req := c.template.WithContext(ctx)
	req.Method, req.Header = method, header
	return c.roundTrip(req)
}

// post sends a message. It does not change its header.
func (c *Client) post(ctx context.Context, out outgoing) (*http.Response, error) {
	req := c.template.WithContext(ctx)
	req.Method, req.Header, req.ContentLength = http.MethodPost, out.header, int64(len(out.body))
	// GetBody lets net/http repeat a request if an idle connection had died before anything was
	// written.
	if large := out.large; large != nil {
		req.Body = large.reader()
		req.GetBody = func() (io.ReadCloser, error) { return large.reader(), nil }
	} else {
		body := out.body
		req.Body = newSmallBody(body)
		req.GetBody = func() (io.ReadCloser, error) { return newSmallBody(body), nil }
	}
	return c.roundTrip(req)
}

// discard closes an unneeded body. It first reads the bytes that are available at once, so that the
// connection can be reused.
func discard(resp *http.Response) {
	if n := resp.ContentLength; n >= 0 && n <= 4<<10 {
		_, _ = io.CopyN(io.Discard, resp.Body, n)
	}
	resp.Body.Close()
}
