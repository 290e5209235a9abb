package metatool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/mcp"
)

// fleet is a few upstreams in memory.
type fleet struct {
	mu       sync.Mutex // guards below
	snapshot *Snapshot
	peers    map[string]peerFunc
	calls    []string            // "upstream params"
	others   map[string]mcp.Peer // in place of peers
}

type peerFunc func(ctx context.Context, params json.RawMessage, back mcp.Handler) (json.RawMessage, error)

type fleetPeer struct {
	f    *fleet
	name string
}

func (p fleetPeer) Call(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	p.f.mu.Lock()
	p.f.calls = append(p.f.calls, p.name+" "+string(params))
	call := p.f.peers[p.name]
	p.f.mu.Unlock()
	if method != "tools/call" {
		return nil, mcp.MethodNotFound(method)
	}
	return call(ctx, params, back)
}

func (p fleetPeer) Notify(context.Context, string, json.RawMessage) error { return nil }

func (f *fleet) Peer(_ context.Context, upstream string) (mcp.Peer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.others[upstream]; p != nil {
		return p, nil
	}
	if f.peers[upstream] == nil {
		return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "server %q is down", upstream)
	}
	return fleetPeer{f, upstream}, nil
}

func (f *fleet) Snapshot() *Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snapshot
}

func (f *fleet) add(upstream string, peer peerFunc, tools ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := catalog.Listing{Upstream: upstream, Namespace: upstream}
	for _, tool := range tools {
		l.Tools = append(l.Tools, json.RawMessage(tool))
	}
	f.snapshot, _ = f.snapshot.With(l)
	if f.peers == nil {
		f.peers = map[string]peerFunc{}
	}
	if peer != nil {
		f.peers[upstream] = peer
	}
}

func (f *fleet) called() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

const readTool = `{"name":"read_file","title":"Read","description":"Read a file from disk.","inputSchema":{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"}},"required":["path"]},"annotations":{"readOnlyHint":true}}`

// echo answers with the arguments as text.
func echo(_ context.Context, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
	return json.RawMessage(textResult(string(rawjson.Get(params, "arguments")))), nil
}

func say(result string) peerFunc {
	return func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
		return json.RawMessage(result), nil
	}
}

func fail(err error) peerFunc {
	return func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) { return nil, err }
}

type harness struct {
	*fleet
	g       *Gateway
	session *mcp.Session
}

func newHarness(t testing.TB, opts Options) *harness {
	t.Helper()
	store := artifact.NewMemory(artifact.Options{})
	t.Cleanup(func() { store.Close() })
	f := &fleet{snapshot: NewSnapshot(catalog.Limits{})}
	opts.Upstreams, opts.Artifacts = f, store
	h := &harness{fleet: f, session: mcp.NewSession("s", "ann")}
	h.add("files", echo, readTool, `{"name":"drop","description":"Delete a file.","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}`)
	h.add("web", echo, `{"name":"search","description":"Search the web for pages.","inputSchema":{"type":"object","properties":{"q":{"type":"string"}}}}`)
	h.g = New(opts)
	t.Cleanup(h.session.Close)
	return h
}

// id returns the tool_id of a raw name.
func (h *harness) id(t testing.TB, upstream, name string) string {
	t.Helper()
	for _, e := range h.Snapshot().Catalog.Of(upstream) {
		if e.RawName == name {
			return e.ID
		}
	}
	t.Fatalf("no tool %s of %s", name, upstream)
	return ""
}

func (h *harness) ask(t testing.TB, method, params string) (json.RawMessage, error) {
	t.Helper()
	return h.g.Serve(t.Context(), &mcp.Request{ID: "1", Method: method, Params: json.RawMessage(params), Version: mcp.V20251125, Session: h.session, Peer: mcp.NoPeer})
}

func (h *harness) tool(t testing.TB, name, arguments string) shaped {
	t.Helper()
	return h.raw(t, fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments))
}

// asJSON is tool with the answer for programs, whose envelope has the summary and the facts.
func (h *harness) asJSON(t testing.TB, name, arguments string) shaped {
	t.Helper()
	return h.raw(t, fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":{"weir/format":"json"}}`, name, arguments))
}

func (h *harness) raw(t testing.TB, params string) shaped {
	t.Helper()
	out, err := h.ask(t, "tools/call", params)
	if err != nil {
		t.Fatalf("%s: %v", params, err)
	}
	var s shaped
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	raw := s.Meta[result.MetaEnvelope]
	if raw == nil && rawjson.Get(s.StructuredContent, "firewall_stats") != nil {
		raw = s.StructuredContent
	}
	if raw != nil {
		if err := json.Unmarshal(raw, &s.env); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

type wireError struct {
	Error, Message, Path string
	Retryable            *bool
	Details              struct {
		ToolID       string `json:"tool_id"`
		Schema       json.RawMessage
		Example      json.RawMessage
		SchemaHandle string `json:"schema_handle"`
		Problems     []catalog.Problem
		Nearest      []string
	}
}

// failure is the error of a result that must be one.
func failure(t testing.TB, s shaped) wireError {
	t.Helper()
	var e wireError
	if !s.IsError || len(s.Content) != 1 {
		t.Fatalf("no error: %+v", s)
	}
	if err := json.Unmarshal([]byte(s.Content[0].Text), &e); err != nil || e.Retryable == nil {
		t.Fatalf("%v in %s", err, s.Content[0].Text)
	}
	return e
}

type shaped struct {
	Content []struct {
		Type, Text string
	}
	StructuredContent json.RawMessage
	IsError           bool
	Meta              map[string]json.RawMessage `json:"_meta"`
	env               testEnvelope
}

func textResult(texts ...string) string {
	var blocks []string
	for _, text := range texts {
		blocks = append(blocks, `{"type":"text","text":`+string(rawjson.Quote(text))+`}`)
	}
	return `{"content":[` + strings.Join(blocks, ",") + `]}`
}

type testEnvelope struct {
	Status     string
	Summary    string
	Facts      []string
	Artifacts  []artifact.Artifact
	Views      []json.RawMessage
	Provenance map[string]any
	Stats      struct {
		Triggered      bool
		Strategy       string
		ThresholdChars int     `json:"threshold_chars"`
		OriginalChars  int     `json:"original_chars"`
		OriginalTokens *int    `json:"original_tokens"`
		SummaryChars   int     `json:"summary_chars"`
		SummaryTokens  *int    `json:"summary_tokens"`
		ArtifactRef    *string `json:"artifact_ref"`
	} `json:"firewall_stats"`
}
