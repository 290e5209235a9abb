package calltest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Shelf is an upstream with resources and prompts.
type Shelf struct {
	Mu      sync.Mutex // guards below
	Answers map[string]string
	Calls   []string
	Err     error
	Watched map[string]func(json.RawMessage)
	Levels  []string
}

func (s *Shelf) Call(_ context.Context, method string, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Calls = append(s.Calls, method+" "+string(params))
	if s.Err != nil {
		return nil, s.Err
	}
	key := rawjson.Text(rawjson.Get(params, "uri")) + rawjson.Text(rawjson.Get(params, "name"))
	if answer, ok := s.Answers[method+" "+key]; ok {
		return json.RawMessage(answer), nil
	}
	return nil, &jsonrpc.Error{Code: -32002, Message: "Resource not found"}
}

func (s *Shelf) Notify(context.Context, string, json.RawMessage) error { return nil }

func (s *Shelf) SubscribeResource(_ context.Context, uri string, fn func(json.RawMessage)) (func(), error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Watched[uri] = fn
	return func() {
		s.Mu.Lock()
		defer s.Mu.Unlock()
		delete(s.Watched, uri)
	}, nil
}

func (s *Shelf) SetLogLevel(_ context.Context, level string) error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Levels = append(s.Levels, level)
	return nil
}

// Last returns the last call, as "method params".
func (s *Shelf) Last() string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if len(s.Calls) == 0 {
		return ""
	}
	return s.Calls[len(s.Calls)-1]
}

// Update tells of a resource, as its server would.
func (s *Shelf) Update(t *testing.T, uri string) {
	t.Helper()
	s.Mu.Lock()
	fn := s.Watched[uri]
	s.Mu.Unlock()
	if fn == nil {
		t.Fatalf("nobody has subscribed to %s", uri)
	}
	fn(append(rawjson.AppendString([]byte(`{"uri":`), uri), '}'))
}

// Subscribed returns how many resources are subscribed to.
func (s *Shelf) Subscribed() int {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return len(s.Watched)
}

// Docs returns what the server "docs" lists.
func Docs() primitive.Listing {
	return primitive.Listing{Upstream: "docs", Namespace: "docs",
		Resources: Raws(
			`{"uri":"file:///docs/readme.md","name":"README","description":"How to install the program","mimeType":"text/markdown"}`,
			`{"uri":"file:///docs/logo.png","name":"logo","description":"The logo as a picture"}`,
			`{"uri":"file:///docs/archive.bin","name":"archive","description":"Old releases, packed"}`),
		ResourceTemplates: Raws(`{"uriTemplate":"db://{table}/{id}{?limit}","name":"rows","description":"A row of a table"}`),
		Prompts: Raws(
			`{"name":"summarize_pr","description":"Summarize a pull request","arguments":[{"name":"repo","required":true},{"name":"pr","description":"number"}]}`,
			`{"name":"hello","description":"Greet somebody politely"}`),
	}
}

// NewShelf returns a server that answers for the listing of Docs.
func NewShelf() *Shelf {
	blob := base64.StdEncoding.EncodeToString([]byte("\x00\x01binary\xff"))
	return &Shelf{Watched: map[string]func(json.RawMessage){}, Answers: map[string]string{
		"resources/read file:///docs/readme.md":   `{"contents":[{"uri":"file:///docs/readme.md","mimeType":"text/markdown","text":"# Read me\ncaf\u00e9"}],"_meta":{"k":12345678901234567890}}`,
		"resources/read file:///docs/logo.png":    `{"contents":[{"uri":"file:///docs/logo.png","mimeType":"image/png","blob":"aGk="}]}`,
		"resources/read file:///docs/archive.bin": `{"contents":[{"uri":"file:///docs/archive.bin","mimeType":"application/octet-stream","blob":"` + blob + `"}]}`,
		"resources/read db://users/7?limit=2":     `{"contents":[{"uri":"db://users/7?limit=2","text":"{\"id\":7}"}]}`,
		"prompts/get summarize_pr":                `{"description":"A summary","messages":[{"role":"user","content":{"type":"text","text":"Summarize it."}},{"role":"assistant","content":{"type":"image","data":"aGk=","mimeType":"image/png"}}]}`,
		"prompts/get hello":                       `{"messages":[{"role":"user","content":{"type":"text","text":"` + strings.Repeat("Say hello. ", 500) + `"}}]}`,
		"completion/complete ":                    `{"completion":{"values":["weir"]}}`,
	}}
}
