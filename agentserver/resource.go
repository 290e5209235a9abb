package agentserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/queue"
	"github.com/weir-mcp/weir/internal/text/uritemplate"
	"github.com/weir-mcp/weir/mcp"
)

// Resource is one resource of an agent, or a family of them if it has a Template in place of a URI.
// In a configuration it is a command; [ResourceFunc] makes one from a function.
type Resource struct {
	Name, Title, Description string
	// URI is the resource's; Template is a URI template (RFC 6570).
	URI, Template string
	// MIMEType is the type of the contents. Default: text/plain, or application/octet-stream for
	// contents that are not UTF-8.
	MIMEType string
	// Timeout bounds a reading; Options.Timeout where zero.
	Timeout time.Duration

	run      runner
	template *uritemplate.Template
	source   string
}

// ErrNoResource is returned by the function of a template for a URI without a resource.
var ErrNoResource = errors.New("no such resource")

// ResourceFunc makes a resource from a function. uri may be a template; then params holds the
// values of its variables.
func ResourceFunc(name, uri, mimeType string, read func(ctx context.Context, uri string, params map[string]string) ([]byte, error)) Resource {
	r := Resource{Name: name, MIMEType: mimeType, run: reader(read), source: "the program"}
	if strings.ContainsRune(uri, '{') {
		r.Template = uri
	} else {
		r.URI = uri
	}
	return r
}

// check reads the URI or the template.
func (r *Resource) check() error {
	if r.Template != "" {
		t, err := uritemplate.Parse(r.Template)
		if err != nil {
			return fmt.Errorf("resource %q: the template %q is none: %w", r.Name, clip(r.Template), err)
		}
		if len(t.Vars()) == 0 {
			return fmt.Errorf("resource %q: the template %q has no variable such as {id}; write it as uri", r.Name, clip(r.Template))
		}
		r.template = t
		return nil
	}
	if u, err := url.Parse(r.URI); err != nil || u.Scheme == "" {
		return fmt.Errorf("resource %q: %q is no URI; one begins with a scheme, such as doc://", r.Name, clip(r.URI))
	}
	return nil
}

// reasonNone is the reason of a failure with ErrNoResource.
const reasonNone = "none"

// resourceInput is the input of a resource's runner.
type resourceInput struct {
	Resource string            `json:"resource"`
	URI      string            `json:"uri"`
	Params   map[string]string `json:"params,omitempty"`
	Metadata json.RawMessage   `json:"metadata,omitempty"`
}

// match finds the resource for a URI.
func (o *offer) match(uri string) (*Resource, map[string]string) {
	if r, ok := o.resources[uri]; ok {
		return r, nil
	}
	for _, r := range o.templates {
		if params, ok := r.template.Match(uri); ok {
			return r, params
		}
	}
	return nil, nil
}

// readResource serves resources/read.
func (s *Server) readResource(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	uri := rawjson.Text(r.Fields().URI)
	if uri == "" {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "resources/read needs a uri")
	}
	offer := s.offer.Load()
	res, params := offer.match(uri)
	if res == nil {
		return nil, noResource(uri)
	}
	input, err := json.Marshal(resourceInput{Resource: res.Name, URI: uri, Params: params, Metadata: s.metadata(r)})
	if err != nil {
		return nil, err
	}
	out, err := s.read(ctx, r, res.run, "resource "+res.Name, res.Timeout, input)
	if err != nil {
		return nil, err
	}
	text, mime := out.text, res.MIMEType
	isText := utf8.Valid(text)
	if mime == "" {
		mime = "text/plain"
		if !isText {
			mime = "application/octet-stream"
		}
	}
	w := rawjson.NewWriter(nil).Object().Key("contents").Array().Object().Key("uri").String(uri).Key("mimeType").String(mime)
	if isText {
		w.Key("text").Text(text)
	} else {
		w.Key("blob").String(base64.StdEncoding.EncodeToString(text))
	}
	return s.cacheable(r, w.EndObject().EndArray().EndObject().Bytes()), nil
}

func noResource(uri string) error {
	e := mcp.Errorf(mcp.KindResourceNotFound, "no such resource: %s", clip(uri))
	e.Data, _ = json.Marshal(map[string]string{"kind": e.Kind.String(), "uri": clip(uri)})
	return e
}

// read runs a resource or prompt. These have a queue of their own, so that reading does not wait
// for a slow tool.
func (s *Server) read(ctx context.Context, r *mcp.Request, run runner, name string, timeout time.Duration, input json.RawMessage) (output, error) {
	if timeout == 0 {
		timeout = s.o.Timeout
	}
	line := append(rawjson.StripNewlines(make([]byte, 0, len(input)+1), input), '\n')
	var out output
	_, err := s.reads.Do(ctx, queue.Spec{Owner: r.Session.Principal(), Name: name, Timeout: timeout, Value: func(ctx context.Context, job *queue.Job) error {
		made, err := run.run(ctx, &Call{Tool: name, Principal: job.Owner, Writer: job, input: input, line: line, keeper: &s.children})
		if err == nil {
			out = made
		}
		return err
	}})
	if f, ok := isFailure(err); ok {
		if f.reason == reasonNone {
			return output{}, noResource(rawjson.Text(rawjson.Get(input, "uri")))
		}
		e := mcp.Errorf(mcp.KindToolExecution, "%s failed: %s", name, f.message)
		e.Data, _ = json.Marshal(map[string]any{"kind": e.Kind.String(), "exit": f.exit})
		return output{}, e
	}
	if err != nil {
		return output{}, s.queueError(name, err)
	}
	return out, nil
}
