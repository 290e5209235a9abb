package metatool

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// TestErrorsForClients: an error on which the client acts is one of the protocol where the tool is
// called by its name, with the data of the server. All others are results, for the model.
func TestErrorsForClients(t *testing.T) {
	const (
		opens  = `{"elicitation":{"url":{}}}`
		called = `{"name":"files__read_file","arguments":{"path":"a"}`
	)
	for name, c := range map[string]struct {
		mode         Mode
		version      string
		capabilities string
		params       string
		code         int
		data         string
		protocol     bool
	}{
		"missing capability":              {ModePlain, mcp.V20260728, "{}", called + `}`, -32021, `{"requiredCapabilities":{"sampling":{}}}`, true},
		"missing capability, auto":        {ModeAuto, mcp.V20260728, "{}", called + `}`, -32021, `{"requiredCapabilities":{"sampling":{}}}`, true},
		"missing capability, legacy":      {ModePlain, mcp.V20251125, "{}", called + `}`, -32021, `{"requiredCapabilities":{"sampling":{}}}`, false},
		"state that is not the server's":  {ModePlain, mcp.V20260728, "{}", called + `,"requestState":"forged"}`, -32602, `{"why":"tampered"}`, true},
		"answers that are none":           {ModePlain, mcp.V20260728, "{}", called + `,"inputResponses":{"name":1}}`, -32602, `{"why":"no answer"}`, true},
		"arguments that are wrong":        {ModePlain, mcp.V20260728, "{}", called + `}`, -32602, `{"why":"path"}`, false},
		"page first":                      {ModePlain, mcp.V20251125, opens, called + `}`, -32042, `{"elicitations":[]}`, true},
		"page first, no pages are opened": {ModePlain, mcp.V20251125, "{}", called + `}`, -32042, `{"elicitations":[]}`, false},
		"any other":                       {ModePlain, mcp.V20260728, "{}", called + `}`, -32000, `{}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			var events []Event
			h := newHarness(t, Options{Mode: c.mode, AutoTokens: 10_000, OnEvent: func(e Event) { events = append(events, e) }})
			h.Add("files", calltest.Fail(&jsonrpc.Error{Code: c.code, Message: "no", Data: json.RawMessage(c.data)}), calltest.ReadTool)
			h.Session.SetVersion(c.version)
			h.Session.SetClient(nil, json.RawMessage(c.capabilities))
			out, err := h.g.Serve(t.Context(), &mcp.Request{ID: "1", Method: "tools/call", Params: json.RawMessage(c.params), Version: c.version, Session: h.Session, Peer: &calltest.Person{}})
			var wire *jsonrpc.Error
			if got := errors.As(err, &wire); got != c.protocol || (out == nil) != c.protocol {
				t.Fatalf("%s, %v", out, err)
			}
			if c.protocol && (wire.Code != c.code || string(wire.Data) != c.data) {
				t.Errorf("%d %s", wire.Code, wire.Data)
			}
			if len(events) != 1 || events[0].Code == "" {
				t.Errorf("events %+v", events)
			}
		})
	}
}
