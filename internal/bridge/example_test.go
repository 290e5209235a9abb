package bridge_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// A Handler asks its agent in the middle of a call. A modern agent gets the
// question as a result, and the answer comes with its next request.
func ExampleRounds() {
	rounds := bridge.NewRounds(bridge.Options{})
	defer rounds.Close()
	handler := mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		answer, err := r.Peer.Call(ctx, "elicitation/create", json.RawMessage(`{"message":"Delete it?"}`), nil)
		if err != nil {
			return nil, err
		}
		return json.RawMessage(`{"content":[{"type":"text","text":` + string(rawjson.Get(answer, "action")) + `}]}`), nil
	})

	agent := mcp.NewSession("", "ann")
	call := func(more string) json.RawMessage {
		params := `{"name":"delete"` + more + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}`
		result, err := rounds.Serve(context.Background(), &mcp.Request{
			ID: "1", Method: "tools/call", Params: json.RawMessage(params), Version: mcp.V20260728, Session: agent, Peer: mcp.NoPeer,
		}, handler)
		if err != nil {
			fmt.Println(err)
		}
		return result
	}
	question := call("")
	fmt.Printf("%s %s\n", rawjson.Get(question, "resultType"), rawjson.Get(question, "inputRequests"))
	fmt.Printf("%s\n", call(`,"requestState":`+string(rawjson.Get(question, "requestState"))+`,"inputResponses":{"ask-1":{"action":"accept"}}`))
	// Output:
	// "input_required" {"ask-1":{"method":"elicitation/create","params":{"message":"Delete it?"}}}
	// {"content":[{"type":"text","text":"accept"}]}
}
