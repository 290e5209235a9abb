package definitions

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/lockfile"
	"github.com/weir-mcp/weir/internal/passthrough"
)

// nowhere is a Sink that keeps nothing.
type nowhere struct{}

func (nowhere) Update(primitive.Listing) {}
func (nowhere) Remove(string)            {}

// heldGates returns the gates of a server in a mode. It was trusted with the tool read, the prompt p
// and the template file:///a/{+path}; then it added the tool evil and changed the other two.
func heldGates(mode lockfile.Mode) gates {
	k := lockfile.New(lockfile.Options{Sink: nowhere{},
		Mode:     func(string) lockfile.Mode { return mode },
		Endpoint: func(string) lockfile.Endpoint { return lockfile.Endpoint{Command: "./files"} },
	})
	list := func(more string, tools ...json.RawMessage) {
		k.Update(primitive.Listing{Upstream: "files", Namespace: "files", Tools: append(tools, json.RawMessage(`{"name":"read"}`)),
			Prompts:           []json.RawMessage{json.RawMessage(`{"name":"p"` + more + `}`)},
			ResourceTemplates: []json.RawMessage{json.RawMessage(`{"uriTemplate":"file:///a/{+path}","name":"a"` + more + `}`)},
			Resources:         []json.RawMessage{json.RawMessage(`{"uri":"note:1","name":"n"}`)}})
	}
	list("")
	list(`,"description":"new"`, json.RawMessage(`{"name":"evil"}`))
	return gates{{k.Gate("files"), ""}}
}

// TestGatesAdmit: no notation of a request reaches a definition that is held.
func TestGatesAdmit(t *testing.T) {
	g := heldGates("hold")
	for _, test := range []struct {
		method, params string
		ok             bool
	}{
		{"tools/call", `{"name":"read"}`, true},
		{"tools/call", `{"name":"evil"}`, false},
		{"tools/call", `{"name":"read","Name":"evil"}`, false},
		{"tools/call", `{"name":"evil","name":"read"}`, false},
		{"tools/call", `{"name":["evil"]}`, false},
		{"prompts/get", `{"name":"p"}`, false},
		{"resources/read", `{"uri":"note:1"}`, true},
		{"resources/read", `{"uri":"file:///a/b"}`, false},
		{"resources/read", `{"uri":"FILE://localhost/c/../a/b"}`, false},
		{"resources/read", `{"uri":"file:///%61/b"}`, false},
		{"resources/read", `{"uri":"note:1","URI":"file:///a/b"}`, false},
		{"resources/read", `{}`, false},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"p"}}`, false},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":"file:///a/{+path}"}}`, false},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":"note:1"}}`, true},
		{"completion/complete", `{"ref":{"type":"ref/Prompt","name":"p"}}`, false},
		{"completion/complete", `{"ref":{"type":"ref/resource","Type":"ref/prompt","uri":"note:1","name":"p"}}`, false},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":"note:1"},"ref":{"type":"ref/prompt","name":"p"}}`, false},
		{"ping", `{}`, true},
		{"tools/list", `{}`, true},
		{"resources/list", `{}`, true},
		{"resources/unsubscribe", `{"uri":"note:1"}`, true},
		{"logging/setLevel", `{"level":"debug"}`, true},
		{"tasks/result", `{"taskId":"t1"}`, true},
		{"tasks/cancel", `{"taskId":"t1"}`, true},
		{"tools/invoke", `{"name":"evil"}`, false}, // of a server's own making
		{"Tools/Call", `{"name":"evil"}`, false},
		{"tools/call ", `{"name":"evil"}`, false},
		{"", `{"name":"evil"}`, false},
		{"tasks/run", `{"name":"evil"}`, false},
		{"initialize", `{}`, false},
		{"server/discover", `{}`, false},
		{"subscriptions/listen", `{"notifications":{"resourceSubscriptions":["file:///a/b"]}}`, false},
	} {
		if err := g.admit(test.method, json.RawMessage(test.params)); (err == nil) != test.ok {
			t.Errorf("%s %s: %v", test.method, test.params, err)
		}
	}
}

// TestGatesFilter: no notation of a list brings a definition that is held to clients.
func TestGatesFilter(t *testing.T) {
	g := heldGates("hold")
	for result, want := range map[string]string{
		`{"tools":[{"name":"read"},{"name":"evil"}],"nextCursor":"1"}`: `{"tools":[{"name":"read"}],"nextCursor":"1"}`,
		`{"tools":[{"name":"read","Name":"evil"}]}`:                    `{"tools":[]}`,
		`{"tools":[{"name":"evil","name":"evil"},{}]}`:                 `{"tools":[]}`,
		`{"tools":[],"tools":[{"name":"evil"}]}`:                       "",
		`{"tools":[],"Tools":[{"name":"evil"}]}`:                       "",
		`{"tools":{"0":{"name":"evil"}}}`:                              "",
		`{"nextCursor":"1"}`:                                           `{"nextCursor":"1"}`,
	} {
		got, err := g.filter(primitive.KindTool, "tools", json.RawMessage(result))
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %s, %v; want %s", result, got, err, want)
		}
	}
	resources := json.RawMessage(`{"resources":[{"uri":"note:1"},{"uri":"file:///a/b"}]}`)
	list := gatedLists["resources/list"]
	for mode, want := range map[lockfile.Mode]string{"hold": `{"resources":[{"uri":"note:1"}]}`, "refuse": `{"resources":[]}`} {
		if got, err := heldGates(mode).filter(list.kind, list.key, resources); string(got) != want || err != nil {
			t.Errorf("%s: %s, %v", mode, got, err)
		}
	}
}

// notified records the notifications that reach a server.
type notified struct {
	passthrough.Upstream
	methods []string
}

func (n *notified) Notify(_ context.Context, method string, _ json.RawMessage) error {
	n.methods = append(n.methods, method)
	return nil
}

// TestGatedNotify: a request without an id does not get past the gate.
func TestGatedNotify(t *testing.T) {
	server := &notified{}
	u := gatedUpstream{Upstream: server}
	for _, method := range []string{"tools/call", "notifications/cancelled", "resources/read"} {
		if err := u.Notify(t.Context(), method, nil); (err == nil) != strings.HasPrefix(method, "notifications/") {
			t.Errorf("%s: %v", method, err)
		}
	}
	if got := strings.Join(server.methods, " "); got != "notifications/cancelled" {
		t.Errorf("the server got %s", got)
	}
}
