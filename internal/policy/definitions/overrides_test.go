package definitions

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/mcp"
)

// asked remembers what its server was asked.
type asked struct {
	offering
	got *string
}

func (a asked) Call(_ context.Context, method string, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
	*a.got = method + " " + string(params)
	return json.RawMessage(`{"nextCursor":"n","tools":[{"name":"a","inputSchema":{"properties":{"x":{},"y":{}},"required":["x"]}},{"name":"b"},{"name":"c","inputSchema":{"required":["z"]}}]}`), nil
}

func (a asked) Notify(_ context.Context, method string, _ json.RawMessage) error {
	*a.got = method
	return nil
}

func (a asked) CheckParamHeaders(_ context.Context, tool string, _ json.RawMessage, _ http.Header) error {
	*a.got = tool
	return nil
}

// TestOverridden: clients of /mcps/NAME see the tools of the configuration, and the server gets its own
// names and the fixed values; a reload replaces both.
func TestOverridden(t *testing.T) {
	t.Parallel()
	read := func(text string) *config.Config {
		c, _, err := config.Parse("weir.yaml", []byte("mcpServers: {s: {command: s, overrides: "+text+"}, other: {command: o}}"), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	present, got := read(`{a: {name: first, fixed: {x: 1}}, c: {hide: [z]}}`), ""
	server := &asked{got: &got}
	find := NewOverrides(func() *config.Config { return present }).WrapFind(func(string) (passthrough.Upstream, bool) { return server, true })
	if up, _ := find("other"); up != passthrough.Upstream(server) {
		t.Error("a server without overrides is wrapped")
	}
	up, _ := find("s")
	if again, _ := find("s"); up != again {
		t.Error("the upstream is another one for each request")
	}
	if _, direct := up.Target(); direct {
		t.Error("bytes are forwarded unread")
	}
	list, err := up.Call(t.Context(), "tools/list", nil, nil)
	if want := `{"nextCursor":"n","tools":[{"name":"first","inputSchema":{"properties":{"y":{}}}},{"name":"b"}]}`; err != nil || string(list) != want {
		t.Errorf("the list is %s, %v", list, err)
	}
	for params, want := range map[string]string{
		`{"name":"first","arguments":{"y":2}}`:          `tools/call {"name":"a","arguments":{"y":2,"x":1}}`,
		`{"name":"first"}`:                              `tools/call {"name":"a","arguments":{"x":1}}`,
		`{"name":"b","arguments":{"x":2}}`:              `tools/call {"name":"b","arguments":{"x":2}}`,
		`{"name":"first","arguments":{"X":2}}`:          `no parameter "x"`,
		`{"name":"first","arguments":[]}`:               `not an object`,
		`{"name":"a"}`:                                  `Unknown tool: a`,
		`{"name":"b","name":"a"}`:                       `params: `,
		`{"name":"first","arguments":{},"Name":"b"}`:    `params: `,
		`{"name":"first","arguments":{},"arguments":0}`: `params: `,
	} {
		got = ""
		if _, err := up.Call(t.Context(), "tools/call", json.RawMessage(params), nil); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", params, got, want)
		}
	}
	if err := up.CheckParamHeaders(t.Context(), "first", nil, nil); err != nil || got != "a" {
		t.Errorf("headers are compared for %q, %v", got, err)
	}
	if err := up.Notify(t.Context(), "tools/call", nil); err == nil || up.Notify(t.Context(), "notifications/x", nil) != nil || got != "notifications/x" {
		t.Errorf("notified %q, %v", got, err)
	}
	present = read(`{b: {name: second}}`)
	if _, err := up.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"second"}`), nil); err != nil || got != `tools/call {"name":"b"}` {
		t.Errorf("after a reload: %s, %v", got, err)
	}
}
