package agentclient

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// Defaults of a Client.
const (
	defaultHost = "localhost"
	defaultPort = "8088"
	// maxResponse bounds one response, in bytes.
	maxResponse = 256 << 20

	connectTimeout = 10 * time.Second
	maxRefusal     = 1 << 20 // of a body that is not an MCP response
)

// Error is the error of an agent or of the router: its code, message and data.
type Error = jsonrpc.Error

// Client calls agents. It is safe for concurrent use.
type Client struct {
	base  string // the router's URL without a slash at its end
	token string
	http  *http.Client
	env   func(string) string
}

// Option changes the client that New makes.
type Option func(*Client)

// WithEnv makes New read ROUTER_HOST, ROUTER_PORT and AGENT_TOKEN with getenv instead of os.Getenv.
func WithEnv(getenv func(name string) string) Option { return func(c *Client) { c.env = getenv } }

// WithHTTPClient sets the HTTP client of all calls. Its Timeout must be zero: a call lasts as long
// as its context.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// New returns a Client for the router at a URL such as http://localhost:8088, or at a host and
// port. An empty router means the variables ROUTER_HOST and ROUTER_PORT; their default is
// localhost:8088. An empty token means AGENT_TOKEN, or no token.
func New(router, token string, options ...Option) (*Client, error) {
	c := &Client{token: token, env: os.Getenv}
	for _, o := range options {
		o(c)
	}
	if router == "" {
		router = net.JoinHostPort(first(c.env("ROUTER_HOST"), defaultHost), first(c.env("ROUTER_PORT"), defaultPort))
	}
	if c.token == "" {
		c.token = c.env("AGENT_TOKEN")
	}
	if !strings.Contains(router, "://") {
		router = "http://" + router
	}
	u, err := url.Parse(router)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("agentclient: the router must be an http or https URL such as http://localhost:8088")
	}
	c.base = strings.TrimSuffix(u.Scheme+"://"+u.Host+u.EscapedPath(), "/")
	c.http, _ = streamable.NewHTTPClient(c.http, connectTimeout)
	return c, nil
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// Close closes idle connections. It does not wait for calls in flight.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// CallOption changes one call.
type CallOption func(*call)

// OnProgress makes a call run f for each of its progress notifications, in order and before the
// call returns.
func OnProgress(f func(Progress)) CallOption { return func(c *call) { c.progress = f } }

// Progress is a report of progress. Total is 0 if it is unknown.
type Progress struct {
	Progress float64 `json:"progress"`
	Total    float64 `json:"total"`
	Message  string  `json:"message"`
}

// call is one request in flight.
type call struct {
	agent, method string
	id            jsonrpc.ID
	progress      func(Progress)
}

// Request sends one MCP request to an agent and returns the raw result. params
// is anything that encoding/json writes as an object, or nil. An error that the agent
// or the router answered is an *Error; any other is an *mcp.Error that says why
// there was no answer, or the context's.
func (c *Client) Request(ctx context.Context, agent, method string, params any, options ...CallOption) (json.RawMessage, error) {
	cl := &call{agent: agent, method: method, id: jsonrpc.StringID(rand.Text())}
	for _, o := range options {
		o(cl)
	}
	raw, err := encode(params)
	if err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "%s: params: %w", method, err)
	}
	if cl.progress != nil {
		if raw, err = rawjson.SetPath(raw, []byte(cl.id), "_meta", "progressToken"); err != nil {
			return nil, mcp.Errorf(mcp.KindInvalidParams, "%s: params: %w", method, err)
		}
	}
	req, err := c.request(ctx, http.MethodPost, agent, "mcp", jsonrpc.AppendRequest(nil, cl.id, method, raw))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", streamable.ContentJSON)
	req.Header.Set("Accept", streamable.ContentJSON+", "+streamable.ContentSSE)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.failed(ctx, err)
	}
	defer drain(resp.Body)
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if strings.EqualFold(strings.TrimSpace(kind), streamable.ContentSSE) && resp.StatusCode == http.StatusOK {
		return cl.readStream(ctx, c, resp.Body)
	}
	return cl.readJSON(ctx, c, resp)
}

func encode(params any) (json.RawMessage, error) {
	if params == nil {
		return json.RawMessage("{}"), nil
	}
	if raw, ok := params.(json.RawMessage); ok {
		return raw, rawjson.Valid(raw)
	}
	return json.Marshal(params)
}

// request makes an HTTP request about an agent.
func (c *Client) request(ctx context.Context, method, agent, what string, body []byte) (*http.Request, error) {
	if agent == "" || agent == "." || agent == ".." {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "the agent's name is %q", agent)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+"/mcps/"+url.PathEscape(agent)+"/"+what, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("agentclient: %w", err)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return req, nil
}

func who(agent string) string { return fmt.Sprintf("agent %q", agent) }

// router returns the name of the router for error messages.
func (c *Client) router() string { return "the router at " + c.base }

// failed returns the error for a request that got no response.
func (c *Client) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return streamable.TransportFailure(c.router(), err)
}

// drain reads the rest of a small body, so that its connection can be reused, and closes it.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 4<<10)
	_ = body.Close()
}

// readJSON reads the response from a JSON body.
func (cl *call) readJSON(ctx context.Context, c *Client, resp *http.Response) (json.RawMessage, error) {
	limit := int64(maxResponse)
	if resp.StatusCode != http.StatusOK {
		limit = maxRefusal
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, c.failed(ctx, err)
	}
	if int64(len(body)) > limit {
		return nil, mcp.Errorf(mcp.KindTooLarge, "%s answered more than %d bytes", who(cl.agent), limit)
	}
	m, err := jsonrpc.Parse(body)
	if err != nil || m.Method != "" {
		if resp.StatusCode != http.StatusOK {
			return nil, streamable.StatusFailure(c.router(), cl.method+" of "+who(cl.agent), resp)
		}
		return nil, mcp.Errorf(mcp.KindUpstreamProtocol, "%s answered something that is not MCP", who(cl.agent))
	}
	result, ok, err := cl.answer(&m)
	if !ok {
		return nil, mcp.Errorf(mcp.KindUpstreamProtocol, "%s answered another request than %s", who(cl.agent), cl.method)
	}
	return result, err
}

// answer parses a response. ok is false if it answers another request. An error without an id
// counts as the answer, because its sender could not read the id.
func (cl *call) answer(m *jsonrpc.Message) (result json.RawMessage, ok bool, err error) {
	switch {
	case m.Method != "":
		return nil, false, nil
	case m.Err != nil && (m.ID == cl.id || m.ID == ""):
		return nil, true, jsonrpc.ParseError(m.Err)
	case m.ID != cl.id:
		return nil, false, nil
	}
	return bytes.Clone(m.Result), true, nil
}

// readStream reads events until the response is among them.
func (cl *call) readStream(ctx context.Context, c *Client, body io.Reader) (json.RawMessage, error) {
	events := streamable.NewEventReader(body, maxResponse)
	for {
		e, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF
		case errors.Is(err, streamable.ErrEventTooLarge):
			return nil, mcp.Errorf(mcp.KindTooLarge, "%s answered more than %d bytes", who(cl.agent), int64(maxResponse))
		}
		if err != nil {
			return nil, c.failed(ctx, err)
		}
		if len(e.Data) == 0 {
			continue
		}
		m, err := jsonrpc.Parse(e.Data)
		if err != nil {
			return nil, mcp.Errorf(mcp.KindUpstreamProtocol, "%s sent something that is not MCP", who(cl.agent))
		}
		if result, ok, err := cl.answer(&m); ok {
			return result, err
		}
		if m.Method == "notifications/progress" && cl.progress != nil && string(rawjson.Get(m.Params, "progressToken")) == string(cl.id) {
			var p Progress
			if json.Unmarshal(m.Params, &p) == nil {
				cl.progress(p)
			}
		}
	}
}

// maxPages bounds the pages of one list. An agent with more is broken.
const maxPages = 1000

// list reads all pages of a list.
func list[T any](ctx context.Context, c *Client, agent, method, key string) ([]T, error) {
	all := []T{}
	params := map[string]string{}
	for range maxPages {
		result, err := c.Request(ctx, agent, method, params)
		if err != nil {
			return nil, err
		}
		var page []T
		if raw := rawjson.Get(result, key); raw != nil {
			if err := json.Unmarshal(raw, &page); err != nil {
				return nil, mcp.Errorf(mcp.KindUpstreamProtocol, "%s: %s of %s: %w", who(agent), key, method, err)
			}
		}
		all = append(all, page...)
		next := rawjson.Text(rawjson.Get(result, "nextCursor"))
		if next == "" {
			return all, nil
		}
		params["cursor"] = next
	}
	return nil, mcp.Errorf(mcp.KindUpstreamProtocol, "%s has more than %s pages of %s", who(agent), strconv.Itoa(maxPages), method)
}
