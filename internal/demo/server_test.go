package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// transcript sends requests to a demo server, in a legacy session, and returns the responses by id.
func transcript(t *testing.T, name string, requests ...string) map[string]string {
	t.Helper()
	lines := []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	}
	var out bytes.Buffer
	in := strings.NewReader(strings.Join(append(lines, requests...), "\n") + "\n")
	if err := Run(t.Context(), name, Options{Now: fixedNow}, in, &out, nil); err != nil {
		t.Fatal(err)
	}
	responses := map[string]string{}
	for line := range strings.Lines(out.String()) {
		var message struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal([]byte(line), &message); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if message.Method != "" {
			continue
		}
		responses[string(message.ID)] = strings.TrimSpace(line)
	}
	return responses
}

func TestCapabilitiesNameTheLists(t *testing.T) {
	for name, want := range map[string]string{
		"notes":   `"capabilities":{"prompts":{"listChanged":true},"resources":{"listChanged":true},"tools":{"listChanged":true}}`,
		"weather": `"capabilities":{"tools":{"listChanged":true}}`,
		"chart":   `"capabilities":{"tools":{"listChanged":true}}`,
	} {
		got := transcript(t, name, `{"jsonrpc":"2.0","id":1,"method":"resources/list"}`)
		if !strings.Contains(got["0"], want) {
			t.Errorf("%s: %s, want %s", name, got["0"], want)
		}
		if refused := strings.Contains(got["1"], `"code":-32601`); refused == (name == "notes") {
			t.Errorf("%s lists resources: %s", name, got["1"])
		}
	}
}

func TestProtocolErrors(t *testing.T) {
	got := transcript(t, "notes",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"note://n9"}}`,
		`{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}`,
		`{"jsonrpc":"2.0","id":4,"method":"prompts/get","params":{"name":"x"}}`,
		`{"jsonrpc":"2.0","id":5,"method":"prompts/get","params":{"name":"summarize_notes","arguments":{"tag":7}}}`,
		`{"jsonrpc":"2.0","id":6,"method":"tools/list","params":{"cursor":"x"}}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"list_notes","arguments":[1]}}`,
		`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"list_notes","arguments":{"limit":0}}}`,
		`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"list_notes","arguments":null}}`,
		`{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"list_notes","arguments":{},"name":"read_note"}}`,
	)
	for id, want := range map[string][]string{
		"1":  {`"code":-32602`, `unknown tool \"x\"`},
		"2":  {`"code":-32002`, `"uri":"note://n9"`},
		"3":  {`"code":-32002`, `"uri":"file:///etc/passwd"`},
		"4":  {`"code":-32602`, `unknown prompt \"x\"`},
		"5":  {`"code":-32602`, `must be strings`},
		"6":  {`"code":-32602`, `cursor`},
		"7":  {`"isError":true`, `"text":"validating \"arguments\": `},
		"8":  {`"isError":true`, `"text":"validating \"arguments\": `, `limit`},
		"9":  {`"structuredContent":{"result":[`},
		"10": {`"code":-32602`, `name`},
	} {
		for _, part := range want {
			if !strings.Contains(got[id], part) {
				t.Errorf("request %s: %s, want %s", id, got[id], part)
			}
		}
	}
}

// A change of the notes is told to the client.
func TestChangesAreTold(t *testing.T) {
	serverIn, clientOut := io.Pipe()
	clientIn, serverOut := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Run(t.Context(), "notes", Options{Now: fixedNow}, serverIn, serverOut, nil) }()
	told := make(chan struct{}, 1)
	session := connect(t, &mcp.IOTransport{Reader: clientIn, Writer: clientOut}, &mcp.ClientOptions{
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) {
			select {
			case told <- struct{}{}:
			default:
			}
		},
	})
	// The client asks for notices and makes its first call at the same time, so it may hear of a later change only.
	var made any
	for heard := false; !heard; {
		call(t, session, "create_note", map[string]any{"title": "a", "text": "b"}, &made)
		select {
		case <-told:
			heard = true
		case <-t.Context().Done():
			t.Fatal("no notice came")
		case <-time.After(20 * time.Millisecond):
		}
	}
	_ = session.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
