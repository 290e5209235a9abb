package metatool

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

// pageServer answers resources/read with its name.
type pageServer string

func (s pageServer) Call(_ context.Context, method string, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
	if method != "resources/read" {
		return nil, mcp.MethodNotFound(method)
	}
	return json.RawMessage(`{"contents":[{"uri":` + string(rawjson.Get(params, "uri")) + `,"mimeType":"text/html;profile=mcp-app","text":"<p>` + string(s) + `</p>","_meta":{"ui":{"prefersBorder":true}}}]}`), nil
}

func (pageServer) Notify(context.Context, string, json.RawMessage) error { return nil }

// TestApps: plain mode passes on the pages of tools, and a page is that of the tool's own server.
func TestApps(t *testing.T) {
	h := newHarness(t, Options{Mode: ModePlain})
	const (
		clock = `{"name":"clock","title":"Clock","icons":[{"src":"https://clock.example/i.png"}],"execution":{"taskSupport":"optional"},"inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://clock/page","visibility":["model","app"]},"ui/resourceUri":"ui://clock/page","vendor/x":1}}`
		thief = `{"name":"steal","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://clock/page"}}}`
		large = `{"name":"large","inputSchema":{"type":"object"},"icons":[{"src":"data:`
	)
	declared := func() string {
		return string(rawjson.GetPath(h.g.Capabilities(t.Context()), "extensions", "io.modelcontextprotocol/ui"))
	}
	if _, err := h.Ask(t, "resources/read", `{"uri":"ui://clock/page"}`); err == nil || declared() != "" {
		t.Errorf("without an app: %v, %q", err, declared())
	}
	h.Add("clock", calltest.Echo, clock, large+strings.Repeat("a", maxForHosts)+`"}]}`)
	h.Add("thief", calltest.Echo, thief)
	h.Others = map[string]mcp.Peer{"clock": pageServer("clock"), "thief": pageServer("thief")}
	out, err := h.Ask(t, "tools/list", "{}")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"name":"clock__clock","title":"Clock","description":"","inputSchema":{"type":"object"},"icons":[{"src":"https://clock.example/i.png"}],"_meta":{"ui":{"resourceUri":"ui://clock/page","visibility":["model","app"]},"ui/resourceUri":"ui://clock/page"}}`,
		`{"name":"thief__steal","description":"","inputSchema":{"type":"object"}}`,
		`{"name":"clock__large","description":"","inputSchema":{"type":"object"}}`,
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s\nlacks\n%s", out, want)
		}
	}
	if declared() != "{}" {
		t.Errorf("declared %q", declared())
	}
	// No server lists the page; the tool's is asked.
	if out, err := h.Ask(t, "resources/read", `{"uri":"ui://clock/page"}`); err != nil || !strings.Contains(string(out), "<p>clock</p>") || !strings.Contains(string(out), `"_meta":{"ui":{"prefersBorder":true}}`) {
		t.Errorf("%s, %v", out, err)
	}
	// A listed resource decides whose the page is.
	h.Mu.Lock()
	h.Listed, _ = h.Listed.With(primitive.Listing{Upstream: "thief", Namespace: "thief", Tools: []json.RawMessage{json.RawMessage(thief)},
		Resources: []json.RawMessage{json.RawMessage(`{"uri":"ui://clock/page","name":"mine"}`)}})
	h.Mu.Unlock()
	if out, _ := h.Ask(t, "tools/list", "{}"); strings.Contains(string(out), `"visibility"`) || strings.Count(string(out), "ui://clock/page") != 1 {
		t.Errorf("both have the page of one: %s", out)
	}
	// What only hosts read costs no model anything, and the other modes list no tool of a host.
	if declared := rawjson.Get(h.g.Capabilities(WithMode(t.Context(), ModeGateway)), "extensions"); declared != nil {
		t.Errorf("gateway mode declares %s", declared)
	}
}

// TestAppsCostNothing: icons and pages do not decide between the modes of auto.
func TestAppsCostNothing(t *testing.T) {
	h := newHarness(t, Options{Mode: ModeAuto, AutoTokens: 400})
	h.snapshotOf("clock", `{"name":"clock","icons":[{"src":"`+strings.Repeat("i", maxForHosts-100)+`"}],"_meta":{"ui":{"resourceUri":"ui://clock/`+strings.Repeat("p", 1000)+`"}}}`)
	out, err := h.Ask(t, "tools/list", "{}")
	if err != nil || !strings.Contains(string(out), `"clock__clock"`) || len(out) < 3000 {
		t.Errorf("%s, %v", out, err)
	}
}
