package computer_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/computer"
	"github.com/weir-mcp/weir/smcp/hub"
	"github.com/weir-mcp/weir/socketio"
)

// rawAgent joins an office with nothing but Socket.IO and returns what calls a
// tool with some fields.
func rawAgent(t *testing.T, url, query, office string) func(fields string) json.RawMessage {
	t.Helper()
	c := socketio.NewClient(url+"/socket.io/"+query, socketio.ClientConfig{Namespace: smcp.Namespace})
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	call := func(event, payload string) json.RawMessage {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		ack, err := c.EmitWithAck(ctx, event, json.RawMessage(payload))
		if err != nil {
			t.Fatalf("%s %s: %v", event, payload, err)
		}
		return ack.Arg(0)
	}
	if got := call(smcp.EventJoin, `{"role":"agent","name":"`+office+`","office_id":"`+office+`"}`); string(got) != "true" {
		t.Fatalf("join: %s", got)
	}
	return func(fields string) json.RawMessage { return call(smcp.EventToolCall, "{"+fields+"}") }
}

// What goes wrong at a Computer is an error object for agents of the first draft,
// and a result for all others.
func TestErrorsByDialect(t *testing.T) {
	_, url := startHub(t, hub.Options{})
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	config := `{"servers":{
		"a":` + fake("a", autoApply+`,"forbidden_tools":["crash"]`) + `,
		"b":` + fake("b", `"default_tool_meta":{"auto_apply":false},"tool_meta":{"crash":{"alias":"ask"},"sleep":{"alias":"nap"}}`) + `,
		"c":` + fake("c", autoApply+`,"tool_meta":{"crash":{"alias":"die"}}`) + `,
		"d":` + strings.Replace(fake("d", autoApply+`,"tool_meta":{"sleep":{"alias":"slow"}}`), `"server_parameters":{`, `"server_parameters":{"timeout":0.2,`, 1) + `}}`
	for office, query := range map[string]string{"draft": "", "plain": "", "modern": "?a2c_version=0.4.2"} {
		t.Run(office, func(t *testing.T) {
			c := startComputer(t, computer.Options{Name: office, Key: key}, config)
			_ = c.Ready(t.Context())
			connect(t, c, computer.Hub{URL: url, Office: office})
			call := rawAgent(t, url, query, office)
			agent := `"agent":"` + office + `"`
			if office == "draft" {
				agent = `"robot_id":"draft"`
			}
			for i, test := range []struct {
				tool, more string
				code       string // of the draft
				text       string
				flag       string
			}{
				{"no_such_tool", ``, "404", "there is no tool", ""},
				{"a__crash", ``, "403", "forbidden", ""},
				{"ask", ``, "403", "needs a confirmation", ""},
				{"echo", ``, "400", "two servers offer", ""},
				{"a__sleep", `,"timeout":0.2`, "408", "took longer than 200ms", smcp.MetaTimeout},
				{"slow", ` `, "408", "", smcp.MetaTimeout},
				{"die", ``, "500", "", ""},
			} {
				params := `{}`
				if test.more != "" {
					params = `{"sleep_ms":60000}`
				}
				got := call(agent + `,"req_id":"` + office + string(rune('0'+i)) + `","computer":"` + office + `","tool_name":"` + test.tool + `","params":` + params + test.more)
				if strings.Contains(string(got), "context ") {
					t.Errorf("%s: words of Go: %s", test.tool, got)
				}
				nested := rawjson.Get(got, "error")
				if office == "draft" {
					if string(rawjson.Get(nested, "code")) != test.code || !strings.Contains(rawjson.Text(rawjson.Get(nested, "message")), test.text) ||
						rawjson.Text(rawjson.GetPath(nested, "details", "toolId")) != test.tool || rawjson.Get(got, "content") != nil {
						t.Errorf("%s: %s", test.tool, got)
					}
					continue
				}
				if nested != nil || !isError(got) || !strings.Contains(text(got), test.text) || test.flag != "" && string(rawjson.GetPath(got, "meta", test.flag)) != "true" {
					t.Errorf("%s: %s", test.tool, got)
				}
			}
			// What a tool says itself is a result for everybody.
			if got := call(agent + `,"req_id":"x","computer":"` + office + `","tool_name":"a__echo","params":{"text":"hello"}`); text(got) != "hello" || rawjson.GetPath(got, "_meta", smcp.MetaSignature) == nil {
				t.Errorf("a result: %s", got)
			}
		})
	}
}
