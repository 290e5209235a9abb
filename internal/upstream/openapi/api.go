package openapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

const (
	maxDocument = 32 << 20 // bytes
	// treeBytes is how many bytes of memory a byte of a document takes while it is read.
	treeBytes   = 8
	connectTime = 10 * time.Second
)

// Options say which API, and which of its operations.
type Options struct {
	// Name is how errors call the API, such as `upstream "github"`.
	Name string
	// Document is the OpenAPI document: a file, or an http or https URL.
	Document string
	// Base is the URL of the API. The path of an operation follows its path, and its query is sent with each request.
	Base string
	// Include and Exclude are patterns of operations. Without Include all are offered.
	Include, Exclude []string
	// Header is sent with each request. Callers cannot set these headers.
	Header http.Header
	// Wrap wraps the transport of requests to Base, for example to add tokens. Nil changes nothing.
	Wrap func(http.RoundTripper) http.RoundTripper
	// MaxResponse bounds one answer, in bytes. MaxResponseKey is the name of the setting in errors, "" if there is none.
	MaxResponse    int64
	MaxResponseKey string
	// Room counts the bytes of answers; nil sets no bound.
	Room *memory.Account
}

// API is an HTTP API as a Peer. It is safe for concurrent use.
type API struct {
	o      Options
	base   *url.URL
	client *http.Client
	idle   func()
	hello  mcp.Hello
	tools  json.RawMessage // the result of tools/list
	byName map[string]*operation
	done   chan struct{}
	// More is the number of operations beyond the bound of one document.
	More int
}

var _ mcp.Peer = (*API)(nil)

// Open reads the document of an API. It sends nothing to the API itself. The caller calls Close.
func Open(ctx context.Context, o Options) (*API, error) {
	base, err := url.Parse(o.Base)
	if err != nil || base.Host == "" {
		return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "%s has no url, which is where its operations are", o.Name)
	}
	o.Header = streamable.OwnHeader(o.Header)
	a := &API{o: o, base: base, byName: map[string]*operation{}, done: make(chan struct{})}
	a.client, a.idle = streamable.NewHTTPClient(nil, connectTime)
	hold := o.Room.Hold()
	defer hold.Release()
	data, err := a.load(ctx, &hold)
	var d *document
	if err == nil {
		d, err = parse(data)
	}
	if err != nil {
		a.idle()
		return nil, &mcp.Error{Kind: mcp.KindUpstreamUnavailable, Message: o.Name + ": the OpenAPI document " + shown(o.Document) + " cannot be used: " + err.Error(), Err: err}
	}
	streamable.WrapTransport(a.client, o.Wrap)
	a.offer(d)
	return a, nil
}

// shown returns the name of a document for errors: a URL without its secrets, a file without its folder.
func shown(name string) string {
	if u, err := url.Parse(name); err == nil && u.Host != "" {
		return u.Scheme + "://" + u.Host + u.EscapedPath()
	}
	return name[strings.LastIndexAny(name, `/\`)+1:]
}

// remote reports whether a document is at a URL.
func remote(name string) bool {
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

// load reads the bytes of the document.
func (a *API) load(ctx context.Context, hold *memory.Hold) ([]byte, error) {
	if !remote(a.o.Document) {
		info, err := os.Stat(a.o.Document)
		if err == nil {
			err = hold.Grow(ctx, treeBytes*min(info.Size(), maxDocument))
		}
		if err != nil {
			return nil, withoutPath(err)
		}
		data, err := place.Read(a.o.Document, maxDocument)
		return data, withoutPath(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.o.Document, nil)
	if err != nil {
		return nil, errors.New("its URL is not one")
	}
	r.Header.Set("Accept", "application/json, application/yaml, text/yaml, */*;q=0.5")
	resp, err := a.client.Do(r)
	if err != nil {
		return nil, cause(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("its host answered HTTP %d", resp.StatusCode)
	}
	b := a.o.Room.NewBuffer(ctx, maxDocument)
	defer b.Drop()
	if err := b.Fill(resp.Body, resp.ContentLength); err != nil {
		return nil, cause(err)
	}
	if err := hold.Grow(ctx, treeBytes*b.Len()); err != nil {
		return nil, err
	}
	data := make([]byte, 0, b.Len())
	err = b.Each(func(piece []byte) bool { data = append(data, piece...); return false })
	return data, err
}

// withoutPath removes the folder from an error of a file, because agents see the error.
func withoutPath(err error) error {
	if e := (*os.PathError)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}

// cause returns the error within one that has a URL, which may have secrets.
func cause(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}

// offer makes the tools.
func (a *API) offer(d *document) {
	ops, more := d.operations(&a.o)
	a.More = more
	out := []byte(`{"tools":[`)
	for i, op := range ops {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, op.tool...)
		op.tool = nil
		a.byName[op.name] = op
	}
	a.tools = append(out, `]}`...)
	info, _ := d.root["info"].(node)
	title := text.Fit(str(info, "title"), 100)
	version, _ := info["version"].(string)
	server, _ := json.Marshal(node{"name": legal(title, maxName), "title": title, "version": text.Fit(version, 50)})
	a.hello = mcp.Hello{
		Version: mcp.LatestLegacy, ServerInfo: server, Capabilities: json.RawMessage(`{"tools":{}}`), Instructions: text.Fit(strings.TrimSpace(str(info, "description")), maxDescription),
	}
	a.hello.Raw, _ = json.Marshal(node{"protocolVersion": a.hello.Version, "serverInfo": a.hello.ServerInfo, "capabilities": a.hello.Capabilities, "instructions": a.hello.Instructions})
}

// Hello returns what a server would say of itself in a handshake.
func (a *API) Hello() mcp.Hello { return a.hello }

// Done is closed by Close.
func (a *API) Done() <-chan struct{} { return a.done }

// Close closes idle connections. It must be called once.
func (a *API) Close() {
	close(a.done)
	a.idle()
}

// Notify implements mcp.Peer. An API wants no notifications.
func (a *API) Notify(context.Context, string, json.RawMessage) error { return nil }

// Call implements mcp.Peer. An API asks nothing during a call.
func (a *API) Call(ctx context.Context, method string, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
	switch method {
	case "ping":
		return json.RawMessage(`{}`), nil
	case "tools/list":
		return a.tools, nil
	case "tools/call":
	default:
		return nil, mcp.MethodNotFound(method)
	}
	name := rawjson.Text(rawjson.Get(params, "name"))
	op := a.byName[name]
	if op == nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "%s has no operation %q", a.o.Name, name)
	}
	r, err := op.request(ctx, a.base, a.o.Header, rawjson.Get(params, "arguments"))
	if err != nil {
		return nil, err
	}
	resp, err := a.client.Do(r)
	if err != nil {
		return nil, a.failed(err)
	}
	defer func() {
		_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection is used again
		_ = resp.Body.Close()
	}()
	return a.result(ctx, resp)
}

// failed returns the error of a request without an answer.
func (a *API) failed(err error) error {
	err = cause(err)
	if e := (*mcp.Error)(nil); errors.As(err, &e) {
		return err
	}
	out := &mcp.Error{Kind: mcp.KindUpstreamUnavailable, Message: a.o.Name + " cannot be reached: " + err.Error(), Err: err}
	if e := (*net.OpError)(nil); errors.As(err, &e) && e.Op == "dial" {
		out.Err = errors.Join(mcp.ErrNotSent, err)
	}
	return out
}
